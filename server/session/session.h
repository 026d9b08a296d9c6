// A session is one connection from accept to close.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "protocol/data/result.h"
#include "server/metrics/scan_summary.h"
#include "server/session/connection.h"
#include "server/session/message_handler.h"
#include "server/session/protocol_state_machine.h"
#include "server/session/reader.h"
#include "server/session/scan_runner.h"
#include "server/session/session_capture.h"
#include "server/session/spill.h"
#include "server/session/watchdog.h"
#include "server/session/writer.h"

namespace echotrain::server {

/// Runs the life of a session: starts its Reader, Writer and Watchdog, coroutines on one strand, waits for the first
/// reason to end, and ends them in order. The pipeline runs on the Worker's thread. Each coroutine keeps the session
/// alive.
class Session : public std::enable_shared_from_this<Session> {
 public:
  /// `transport` belongs to `strand`; `peer` is its address for the log. `ended` is called on the strand when nothing
  /// is left to do. `admit` is called there when the client has shown what it wants; it may refuse.
  Session(
      std::unique_ptr<Transport> transport, asio::any_io_executor strand, std::string peer, std::uint64_t id,
      const Environment& environment, std::function<void()> ended,
      std::function<std::optional<protocol::Error>()> admit = [] { return std::nullopt; });

  /// Says before start() that its bytes come from a capture, so that they are not captured, and belong to no client.
  void is_replay(std::string capture) {
    connection_.captured = false;
    connection_.replayed = std::move(capture);
  }
  /// Says before start() that it serves a detached scan.
  void is_of(SessionOrigin origin) {
    connection_.captured = origin.captured;
    connection_.origin = std::move(origin);
  }
  /// Begins; it is called on the strand.
  void start();
  /// Tells the client, instead of start(), why it is not served, and ends.
  void refuse(protocol::Error reason);
  /// Ends the connection without a message. Any thread may call this and the three members below.
  void drop();
  /// Ends the session with fatal `shutdown` if it runs no scan, or if `now`.
  void shut_down(bool now);
  /// Stops its scan, and ends the session with this reason.
  void stop(protocol::Error reason);
  /// Does the same without a message and without waiting for the client.
  void cut_off(std::string why);
  const asio::any_io_executor& executor() const { return connection_.strand; }
  /// Returns "complete", or what the summary calls the reason why the session ended. Valid once it has ended.
  const std::string& outcome() const { return summary_.outcome; }

 private:
  asio::awaitable<void> live();
  asio::awaitable<void> say_goodbye();
  void bound_goodbye();
  void queue_last_messages();
  void spawn(asio::awaitable<void> coroutine, std::function<void()> ended);
  void live_ended();
  void stop_transfers();
  void summarize();

  Connection connection_;
  ProtocolStateMachine state_machine_;
  SessionCapture capture_;
  Watchdog watchdog_;
  ScanRunner scan_;
  MessageHandler handler_;
  Spill spill_;
  Reader reader_;
  Writer writer_;
  std::function<void()> ended_;
  bool reader_done_ = false, writer_done_ = false, watchdog_done_ = false, front_done_ = true;
  ScanSummary summary_;
};

}  // namespace echotrain::server
