// A session scan is a server's session without its sockets: messages, state machine, worker, pipeline, and what leaves.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/wire/message_buffer.h"
#include "server/memory/memory_estimate.h"
#include "server/scan/worker.h"
#include "server/session/protocol_state_machine.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scan_session.h"

namespace echotrain::fuzz {

struct SessionSetting {
  protocol::Limits limits;
  std::shared_ptr<numerics::Resources> resources;
  std::shared_ptr<numerics::MemoryBudget> budget;
  int session_mib = 64;
  std::chrono::milliseconds patience{60000};  ///< a scan that computes for longer after its last byte is stopped
};

/// Takes a client's bytes. Holds, whatever they are: the scan ends, soon after it was stopped if it was; it never ends
/// with an error that nobody foresaw; a client can read every answer.
class SessionScan {
 public:
  /// Called for each message that leaves, with the scan that it belongs to.
  using OnAnswer = std::function<void(const server::ScanRequest&, const protocol::Message&)>;

  explicit SessionScan(SessionSetting setting, OnAnswer on_answer = nullptr)
      : setting_(std::move(setting)), options_(options_of(setting_)), on_answer_(std::move(on_answer)) {}

  /// All readouts that these bytes bring without another message between them are one batch.
  void take(std::span<const std::byte> bytes) {
    while (!bytes.empty() && !over_) {
      const auto room = buffer_.prepare();
      const std::size_t n = std::min(room.size(), bytes.size());
      std::copy_n(bytes.begin(), n, room.begin());
      buffer_.commit(n);
      bytes = bytes.subspan(n);
      while (!over_) {
        auto message = buffer_.next();
        if (!message) fail(message.error());
        if (!message || !*message) break;
        act_on(std::move(**message));
      }
    }
    flush();
  }

  /// No more bytes come.
  void end() {
    if (!worker_) return;
    worker_->confirm();
    worker_->finish(closed_ ? End::complete : End::truncated);
    wait();
    if (const auto& failure = worker_->failure()) {
      if (failure->code == "recon-failed") {
        std::fprintf(stderr, "recon-failed: %s\n", failure->message.c_str());
        require(false, "a reconstruction fails in a way that nobody foresaw");
      }
      fail(*failure);
    }
    server::ScanSummary summary;
    worker_->report(summary);
    worker_.reset();
    outbox_->close();
    give_answers();
  }

  /// Returns why the session ended before its client's CLOSE.
  const std::optional<protocol::Error>& error() const { return error_; }
  bool stopped() const { return stopped_; }

 private:
  using Clock = std::chrono::steady_clock;
  // With sanitizers, on a busy machine; -timeout ends an input after 60 s.
  static constexpr std::chrono::seconds kStops{25};

  static config::ServerOptions options_of(const SessionSetting& setting) {
    config::ServerOptions options;
    options.backend = config::BackendChoice::cpu;
    options.session_memory_mib = setting.session_mib;
    options.queue_mib = setting.session_mib;
    return options;
  }

  void fail(const protocol::Error& error) {
    over_ = true;
    if (!error_) error_ = error;
  }

  void act_on(protocol::Message message) {
    server::SessionAction step = state_machine_.handle(message);
    if (step.fatal) fail(*step.fatal);
    closed_ = step.closed;
    over_ = over_ || closed_;
    if (step.start) start(std::move(*step.start));
    if (!step.data || !worker_) return;
    if (auto* acquisition = std::get_if<protocol::Acquisition>(&message)) {
      batch_.push_back(std::move(*acquisition));
      return;
    }
    flush();
    if (auto* image = std::get_if<protocol::Image>(&message)) worker_->push(std::move(*image));
    if (auto* waveform = std::get_if<protocol::Waveform>(&message)) worker_->push(std::move(*waveform));
  }

  void start(server::ScanRequest request) {
    flush();
    worker_.reset();
    const std::uint64_t estimate = server::memory_estimate(*request.header, *request.plan, numerics::Backend::cpu);
    status_->account->reserve(0);
    if (!status_->account->reserve(std::min(estimate, setting_.budget->bound() / 2)))
      return fail({"busy", "the memory that this scan needs is not free"});
    scan_ = request;
    worker_ = std::make_unique<server::Worker>(std::move(request), server::ScanPlace{}, options_, setting_.limits,
                                               setting_.resources, status_->queues, outbox_, server::SessionLog(1),
                                               metrics_.scan(server::Metrics::kInline, status_), readiness_, nullptr,
                                               [this] { wake(); });
  }

  void flush() {
    if (batch_.empty()) return;
    if (worker_) worker_->push(std::exchange(batch_, {}));
    batch_.clear();
  }

  void wake() {
    {
      const std::scoped_lock lock(mutex_);
      woken_ = true;
    }
    changed_.notify_all();
  }

  // Takes what leaves meanwhile, as a session's writer does.
  void wait() {
    auto deadline = Clock::now() + setting_.patience;
    while (!worker_->done()) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait_until(lock, deadline, [this] { return woken_ || worker_->done(); });
        woken_ = false;
      }
      give_answers();
      if (worker_->done() || Clock::now() < deadline) continue;
      require(!stopped_, "a scan that was stopped works on");
      stopped_ = true;
      deadline = Clock::now() + kStops;
      worker_->cancel();
    }
  }

  void give_answers() {
    std::vector<server::Outgoing> sent;
    outbox_->take(sent, static_cast<std::size_t>(-1));
    for (const auto& message : sent) {
      auto bytes = std::make_shared<protocol::Buffer>(message.head);
      bytes->insert(bytes->end(), message.pixels.bytes.begin(), message.pixels.bytes.end());
      const auto answer = protocol::decode(*bytes, bytes, protocol::Limits{});
      require(static_cast<bool>(answer), "a client cannot read the answer");
      if (on_answer_) on_answer_(*scan_, *answer);
    }
    outbox_->sent(sent);
  }

  const SessionSetting setting_;
  const config::ServerOptions options_;
  const OnAnswer on_answer_;
  const std::shared_ptr<server::SessionStatus> status_ =
      std::make_shared<server::SessionStatus>(1, "fuzz", setting_.budget);
  const std::shared_ptr<server::Outbox> outbox_ = std::make_shared<server::Outbox>(
      static_cast<std::size_t>(options_.queue_mib) << 20, [this] { wake(); }, status_->queues);
  protocol::MessageBuffer buffer_{setting_.limits};
  server::ProtocolStateMachine state_machine_{shipped_pipelines(), setting_.limits, *setting_.resources};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::vector<protocol::Acquisition> batch_;
  std::optional<server::ScanRequest> scan_;
  std::optional<protocol::Error> error_;
  bool over_ = false, closed_ = false, stopped_ = false;
  server::Metrics metrics_;
  const std::shared_ptr<server::Readiness> readiness_ = std::make_shared<server::Readiness>();
  std::unique_ptr<server::Worker> worker_;  // last: it uses what is above
};

}  // namespace echotrain::fuzz
