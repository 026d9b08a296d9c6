// The writer takes the messages for the client from the outbox to the socket.
#pragma once

#include <cstdint>
#include <utility>  // the Asio headers below use std::exchange without including it
#include <vector>

#include "server/base/signal.h"
#include "server/scan/outbox.h"
#include "server/session/connection.h"
#include "server/session/scan_runner.h"
#include "server/session/watchdog.h"

namespace echotrain::server {

/// Sends what is in the outbox, several messages in one write, until the outbox has given its last message or the peer
/// is gone. For the session's strand.
class Writer {
 public:
  /// All parameters outlive this. `scan` counts how long images took.
  Writer(Connection& connection, Watchdog& watchdog, const ScanRunner& scan)
      : connection_(connection), watchdog_(watchdog), scan_(scan) {}

  asio::awaitable<void> write();

 private:
  void count(std::vector<Outgoing>& messages, std::uint64_t bytes);

  Connection& connection_;
  Watchdog& watchdog_;
  const ScanRunner& scan_;
};

}  // namespace echotrain::server
