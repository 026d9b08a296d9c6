// One connection from accept to close.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/files/stream_file.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/signal.h"
#include "server/capture/capture.h"
#include "server/metrics/scan_summary.h"
#include "server/metrics/session_status.h"
#include "server/net/transport.h"
#include "server/scan/outbox.h"
#include "server/scan/worker.h"
#include "server/session/dialogue.h"
#include "server/session/environment.h"

namespace echotrain::server {

/// Coroutines on one strand: a reader, a writer, a watchdog, and the life of the session, which starts them and ends
/// them. The pipeline runs on the Worker's thread.
class Session : public std::enable_shared_from_this<Session> {
 public:
  /// `transport` belongs to `strand`; `peer` is its address for the log. `ended` is called on the strand when nothing
  /// is left to do.
  Session(std::unique_ptr<Transport> transport, asio::any_io_executor strand, std::string peer, std::uint64_t id,
          const Environment& environment, std::function<void()> ended);

  ~Session();

  void start();
  /// Instead of start(): tells the client why it is not served, and ends.
  void refuse(protocol::Error reason);
  /// From any thread: ends the session with fatal `shutdown` if it runs no scan, or if `now`.
  void shut_down(bool now);
  const asio::any_io_executor& executor() const { return executor_; }
  /// How it ended: "complete", or what the summary calls the reason. For use once it has ended.
  const std::string& outcome() const { return summary_.outcome; }

 private:
  // session.cc: the life of the session.
  asio::awaitable<void> live();
  asio::awaitable<void> settle();
  asio::awaitable<void> say_goodbye();
  asio::awaitable<void> watch();
  void watch_clocks(Clock::time_point now);
  void spawn(asio::awaitable<void> coroutine, void (Session::*ended)());
  void reader_ended() { reader_done_ = true; }
  void writer_ended() { writer_done_ = true; }
  void watch_ended() { watch_done_ = true; }
  void live_ended();
  void fail(protocol::Error reason);
  void fail(const std::exception_ptr& thrown);
  void fail_internally(const std::exception& error);
  void lose(const std::string& why);
  void summarize();
  std::function<void()> waker();

  // session_io.cc: bytes in and out.
  asio::awaitable<void> read();
  asio::awaitable<void> open();
  asio::awaitable<void> receive();
  asio::awaitable<void> drain();
  asio::awaitable<void> consume();
  asio::awaitable<void> act_on(protocol::Message message, std::vector<protocol::Acquisition>& batch);
  asio::awaitable<void> start_scan(ScanRequest request);
  void ask_for_place(numerics::Backend backend);
  asio::awaitable<void> run_scan(ScanRequest request);
  void confirm_worker();
  void check_memory();
  void flush(std::vector<protocol::Acquisition>& batch);
  void read_failed(const error_code& error);
  asio::awaitable<void> write();

  // session_capture.cc
  void capture(protocol::Payload bytes);
  void check_capture();
  asio::awaitable<void> wait_for_capture();
  bool keeps_capture() const;
  std::string capture_note() const;

  // session_spill.cc
  bool input_full() const;
  bool must_wait();
  bool can_spill() const;
  void spill();
  std::span<std::byte> spill_room();
  protocol::Payload spilled(std::size_t n);
  asio::awaitable<void> unspill();
  void unspill_ended();
  asio::awaitable<void> consume_copy(std::span<const std::byte> bytes);

  const std::unique_ptr<Transport> transport_;
  const asio::any_io_executor executor_;  // the strand
  const Environment& environment_;
  const config::ServerOptions& options_;
  const SessionLog log_;
  const std::shared_ptr<SessionStatus> status_;
  std::function<void()> ended_callback_;
  const Clock::time_point began_ = Clock::now();
  Signal changed_;  // any of the state below, the outbox or the worker
  asio::steady_timer watch_timer_;

  protocol::MessageBuffer buffer_;
  Dialogue dialogue_;
  std::shared_ptr<Outbox> outbox_;
  Memory::Share pending_memory_;                // of the partly received message
  std::unique_ptr<ComputePool::Ticket> place_;  // held while the worker runs
  std::shared_ptr<ScanMeter> meter_;            // of the worker's scan
  std::unique_ptr<Worker> worker_;
  // While this is set, the next message may still replace the worker: the client hears neither its texts nor that it
  // has failed.
  std::optional<Clock::time_point> trial_until_;

  std::shared_ptr<Capture> capture_;  // from the first byte on
  bool capture_told_ = false;         // that it has stopped

  // While this is set, what comes goes to the capture only, and the buffer gets it from there.
  bool spilling_ = false;
  std::optional<ScanRequest> waiting_scan_;       // for its place; nothing is taken from the buffer until then
  std::uint64_t parsed_ = 0;                      // bytes of the capture that the buffer has got
  std::shared_ptr<std::vector<std::byte>> slab_;  // of what is being spilled
  std::size_t slab_used_ = 0;

  // How the session ends. Data stops being taken once any of these is set.
  bool closed_ = false;                   // the client's CLOSE has come
  bool broken_off_ = false;               // EOF before CLOSE
  std::optional<protocol::Error> error_;  // fatal
  bool gone_ = false;                     // the peer can no longer be reached
  bool ending() const { return closed_ || broken_off_ || error_ || gone_; }

  bool reader_done_ = false, writer_done_ = false, watch_done_ = false;
  bool eof_ = false;
  bool parting_ = false;  // the last message is queued
  int peer_texts_ = 0;

  // What the watchdog looks at.
  bool reading_ = false;    // not set while we hold the socket back ourselves
  bool held_back_ = false;  // we do
  Clock::time_point idle_since_ = began_;
  // A transfer must move enough bytes in each period of its timeout; this is the period's beginning.
  struct Period {
    Clock::time_point began;
    std::uint64_t bytes = 0;
  };
  static bool stalled(Period& period, Clock::time_point now, double timeout_s, std::uint64_t bytes);
  Period message_{began_};
  std::optional<Period> write_;
  std::uint64_t written_ = 0;                                     // of the write under way
  bool opened_ = false;                                           // bytes may be exchanged
  std::optional<Clock::time_point> waiting_since_, place_until_;  // while waiting for one
  std::uint64_t readouts_ = 0;
  std::size_t batch_readouts_ = 0;  // of the last read
  std::optional<Clock::time_point> drain_until_;
  bool drain_over_ = false;
  std::uint64_t drained_bytes_ = 0;

  ScanSummary summary_;
};

}  // namespace echotrain::server
