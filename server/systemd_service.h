// The systemd service reports the server's state to its service manager: ready, busy, stopping, alive.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>

#include "server/session/environment.h"
#include "server/systemd_notifier.h"

namespace echotrain::server {

/// Reports a server to systemd, from the loop that serves it: its silence means that the loop hangs. Does nothing
/// where there is no service manager. All members are called on `control`, or while nothing runs on it.
class SystemdService {
 public:
  SystemdService(const asio::any_io_executor& control, const Environment& environment)
      : environment_(environment), timer_(control) {}

  /// Sends READY=1, and from then on, at half of the time that the manager allows, WATCHDOG=1 and a line for `systemctl
  /// status`.
  void ready();
  /// Sends STOPPING=1. The manager's own limit for stopping is extended as long as this goes on, until out_of_time().
  void stopping();
  /// Asks the manager for no more time: what is left ends within seconds, or hangs.
  void out_of_time() { extends_ = false; }
  /// Sends no more signs of life.
  void end();

 private:
  void beat();

  const Environment& environment_;
  const SystemdNotifier notifier_;
  asio::steady_timer timer_;
  bool extends_ = false;
  bool ended_ = false;
};

}  // namespace echotrain::server
