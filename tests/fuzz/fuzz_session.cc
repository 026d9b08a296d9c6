// A whole session without its sockets: messages, state machine, pipeline and what it sends. Whatever a client sends,
// the scan ends, and it never ends with an error that nobody foresaw.
#include <condition_variable>
#include <mutex>

#include "protocol/files/stream_file.h"
#include "server/scan/worker.h"
#include "server/session/dialogue.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scan_session.h"
#include "tests/fuzz/stream_mutator.h"

namespace echotrain::fuzz {
namespace {

constexpr std::uint64_t kMemory = 64 << 20;  // [bytes]

config::ServerOptions options() {
  config::ServerOptions options;
  options.backend = config::BackendChoice::cpu;
  options.session_memory_mib = kMemory >> 20;
  options.queue_mib = 64;  // never full: nobody empties the output while the scan runs
  return options;
}

class Scan {
 public:
  void take(std::span<const std::byte> bytes) {
    protocol::MessageBuffer buffer(limits_);
    while (!bytes.empty() && !over_) {
      const auto room = buffer.prepare();
      const std::size_t n = std::min(room.size(), bytes.size());
      std::copy_n(bytes.begin(), n, room.begin());
      buffer.commit(n);
      bytes = bytes.subspan(n);
      while (!over_) {
        auto message = buffer.next();
        over_ = !message;
        if (!message || !*message) break;
        act_on(std::move(**message));
      }
    }
    flush();
    if (!worker_) return;
    worker_->confirm();
    worker_->finish(closed_ ? End::complete : End::truncated);
    wait();
    const auto& failure = worker_->failure();
    if (failure && failure->code == "recon-failed") {
      std::fprintf(stderr, "recon-failed: %s\n", failure->message.c_str());
      require(false, "a reconstruction fails in a way that nobody foresaw");
    }
    server::ScanSummary summary;
    worker_->report(summary);
    worker_.reset();
    check_output();
  }

 private:
  void act_on(protocol::Message message) {
    server::Step step = dialogue_.handle(message);
    if (step.fatal || step.closed) over_ = true;
    closed_ = step.closed;
    if (step.start) {
      flush();
      worker_ = std::make_unique<server::Worker>(
          std::move(*step.start), server::ScanPlace{}, options_, limits_, resources(), status_->queues, outbox_,
          server::SessionLog(1), metrics_.scan(server::Metrics::kInline, status_), readiness_, [this] { wake(); });
    }
    if (!step.data) return;
    if (auto* acquisition = std::get_if<protocol::Acquisition>(&message)) {
      batch_.push_back(std::move(*acquisition));
      return;
    }
    flush();
    if (auto* image = std::get_if<protocol::Image>(&message)) worker_->push(std::move(*image));
    if (auto* waveform = std::get_if<protocol::Waveform>(&message)) worker_->push(std::move(*waveform));
  }

  void flush() {
    if (batch_.empty()) return;
    worker_->push(std::exchange(batch_, {}));
  }

  void wake() {
    { const std::scoped_lock lock(mutex_); }
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return worker_->done(); });
  }

  void check_output() {
    outbox_->close();
    std::vector<server::Outgoing> sent;
    outbox_->take(sent, static_cast<std::size_t>(-1));
    for (const auto& message : sent) {
      auto bytes = std::make_shared<protocol::Buffer>(message.head);
      bytes->insert(bytes->end(), message.pixels.bytes.begin(), message.pixels.bytes.end());
      require(static_cast<bool>(protocol::decode(*bytes, bytes, protocol::Limits{})),
              "a client cannot read the answer");
    }
  }

  const protocol::Limits limits_ = small_limits();
  const config::ServerOptions options_ = options();
  const std::shared_ptr<server::Memory> memory_ = std::make_shared<server::Memory>(4 * kMemory);
  const std::shared_ptr<server::Outbox> outbox_ = std::make_shared<server::Outbox>(
      1 << 30, [] {}, memory_);
  server::Dialogue dialogue_{shipped_pipelines(), limits_, *resources()};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<protocol::Acquisition> batch_;
  bool over_ = false;
  bool closed_ = false;
  server::Metrics metrics_;
  const std::shared_ptr<server::Readiness> readiness_ = std::make_shared<server::Readiness>();
  const std::shared_ptr<server::SessionStatus> status_ =
      std::make_shared<server::SessionStatus>(1, "fuzz", memory_->account()->budget());
  std::unique_ptr<server::Worker> worker_;  // last: it uses what is above
};

}  // namespace
}  // namespace echotrain::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  echotrain::fuzz::set_up_process();
  echotrain::fuzz::shipped_pipelines();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  echotrain::fuzz::Scan().take(echotrain::fuzz::as_bytes(data, size));
  return 0;
}
