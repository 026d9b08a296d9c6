// The notifier tells the service manager (systemd) how the server is doing: sd_notify(3), over its datagram socket.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace echotrain::server {

/// Sends "READY=1" and the like to the socket that NOTIFY_SOCKET names; does nothing when that is not set. Never blocks
/// and never fails: a manager that does not listen misses the message.
class SystemdNotifier {
 public:
  /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
  SystemdNotifier();
  ~SystemdNotifier();
  SystemdNotifier(const SystemdNotifier&) = delete;
  SystemdNotifier& operator=(const SystemdNotifier&) = delete;

  bool on() const { return socket_ >= 0; }
  /// Returns after which silence the manager restarts a service; empty when it does not watch.
  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

  /// Sends lines "NAME=value", separated by newlines.
  void send(std::string_view lines) const;

 private:
  int socket_ = -1;
  std::string address_;  // a sockaddr_un's bytes
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace echotrain::server
