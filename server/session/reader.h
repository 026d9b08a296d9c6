// The reader takes the client's bytes, from the first to the last, and applies back-pressure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>  // the Asio headers below use std::exchange without including it

#include "server/base/signal.h"
#include "server/session/connection.h"
#include "server/session/message_handler.h"
#include "server/session/protocol_state_machine.h"
#include "server/session/scan_runner.h"
#include "server/session/session_capture.h"
#include "server/session/spill.h"
#include "server/session/watchdog.h"

namespace echotrain::server {

/// Reads from the socket into the raw capture and the message handler, and holds the client back while neither may take
/// more. For the session's strand.
class Reader {
 public:
  /// The parts that a reader works with. All outlive it.
  struct Parts {
    Connection& connection;
    ProtocolStateMachine& state_machine;
    SessionCapture& capture;
    Watchdog& watchdog;
    ScanRunner& scan;
    MessageHandler& handler;
    Spill& spill;
  };
  explicit Reader(const Parts& parts);

  /// Reads the handshake, the measurement, and the bytes that come after the session's end was decided.
  asio::awaitable<void> read();

  std::uint64_t bytes() const { return bytes_; }  ///< of the measurement

 private:
  asio::awaitable<void> open();
  asio::awaitable<void> receive();
  bool may_spill() const;
  bool must_wait() const;
  asio::awaitable<void> wait_held_back();
  asio::awaitable<void> pace_reads();
  std::uint64_t most_waiting() const;
  void begin_spill_for_waiting_scan();
  void count(std::size_t n);
  asio::awaitable<void> consume_copy(std::span<const std::byte> bytes);
  asio::awaitable<void> drain();
  void read_failed(const error_code& error);

  Connection& connection_;
  ProtocolStateMachine& state_machine_;
  SessionCapture& capture_;
  Watchdog& watchdog_;
  ScanRunner& scan_;
  MessageHandler& handler_;
  Spill& spill_;
  std::uint64_t bytes_ = 0;
  std::uint64_t drained_bytes_ = 0;
  bool eof_ = false;
};

}  // namespace echotrain::server
