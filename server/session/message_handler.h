// The message handler makes messages of bytes, and makes the session do what each message asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "protocol/data/messages.h"
#include "protocol/wire/message_buffer.h"
#include "server/base/queue_memory.h"
#include "server/base/read_limiter.h"
#include "server/base/signal.h"
#include "server/detached/detached_queries.h"
#include "server/session/connection.h"
#include "server/session/protocol_state_machine.h"
#include "server/session/scan_runner.h"
#include "server/session/session_capture.h"
#include "server/session/watchdog.h"

namespace echotrain::server {

/// Cuts the client's bytes into messages, answers control messages and hands data to the scan. For the session's strand
/// and one coroutine at a time: the Reader's or the Spill's.
class MessageHandler {
 public:
  /// All arguments must outlive this.
  MessageHandler(Connection& connection, ProtocolStateMachine& state_machine, SessionCapture& capture,
                 Watchdog& watchdog, ScanRunner& scan);

  /// Returns room for bytes of the client; never empty.
  std::span<std::byte> room();
  /// Notes that `n` bytes of room() have been filled, and returns them where they lie.
  protocol::Payload commit(std::size_t n);
  /// Handles all messages that are complete. Stops early when the session ends or a scan has to wait for its place.
  asio::awaitable<void> consume();

  bool inside_message() const { return buffer_.pending_bytes() > 0; }  ///< a message is partly here

  /// True if a scan waits for its place and its data are to be spilled: consume() takes nothing until
  /// run_waiting_scan().
  bool scan_waits() const { return waiting_scan_.has_value(); }
  /// Waits for the place and starts the scan.
  asio::awaitable<void> run_waiting_scan();

  /// Drops the partly received message: the session does not wait for the rest.
  void drop_partial_message();
  /// Counts what the bytes that have come take now.
  void count_memory();

 private:
  asio::awaitable<void> consume_detached();
  asio::awaitable<bool> detach(const ScanRequest& request);
  asio::awaitable<std::optional<SessionAction>> answer_detached(std::uint64_t correlation_id, DetachedQuery asked);
  void note_for_journal(const protocol::Message& message);
  asio::awaitable<void> act_on(protocol::Message message, std::vector<protocol::Acquisition>& batch);
  protocol::Result<std::optional<protocol::Message>> next();
  bool shows_no_token();
  asio::awaitable<bool> offload(std::function<void()> work, bool quick);
  asio::awaitable<bool> offload(FairQueue& queue, std::function<void()> work, bool answers = false);
  asio::awaitable<bool> knows_detached(const std::string& id);
  asio::awaitable<std::optional<SessionAction>> step_of(const protocol::Message& message);
  asio::awaitable<void> wait_until_read(std::size_t most);
  asio::awaitable<void> hold_back_until(std::function<bool()> may_go_on, Watchdog::Fault fault);
  asio::awaitable<std::optional<SessionAction>> answer_long(const protocol::Query& query);
  void tell(const SessionAction& step);
  asio::awaitable<void> start_scan(ScanRequest request);
  void flush(std::vector<protocol::Acquisition>& batch);
  asio::awaitable<void> wait_for_read_permit();
  void check_memory();
  void tell_watchdog(bool whole_message, bool data);
  Watchdog::Awaited awaited() const;

  Connection& connection_;
  ProtocolStateMachine& state_machine_;
  SessionCapture& capture_;
  Watchdog& watchdog_;
  ScanRunner& scan_;
  protocol::MessageBuffer buffer_;
  QueueMemory::Share pending_memory_;    // of the partly received message
  numerics::MemoryShare slack_memory_;   // what slabs hold beside messages that wait
  numerics::MemoryShare header_memory_;  // of the header and what is made of it
  std::optional<ScanRequest> waiting_scan_;
  std::uint64_t readouts_ = 0;
  std::size_t batch_readouts_ = 0;  // of the last consume()
  std::uint64_t bytes_ = 0;         // that have come
  int peer_texts_ = 0;
  std::optional<std::uint64_t> detach_asked_;  // the query's number
  bool detach_decided_ = false;
  protocol::Buffer config_message_, header_message_;  // of a scan that may be detached
  std::unique_ptr<ReadLimiter::Permit> permit_;       // while more is handled at once than others should wait for
};

}  // namespace echotrain::server
