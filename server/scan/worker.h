// The worker is the thread on which a session's pipeline runs.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/server_options.h"
#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/core/progress.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "server/base/busy_polling.h"
#include "server/base/fair_scheduler.h"
#include "server/base/image_sink.h"
#include "server/base/log.h"
#include "server/base/queue_memory.h"
#include "server/health/canary.h"
#include "server/health/readiness.h"
#include "server/metrics/metrics.h"
#include "server/metrics/scan_counts.h"
#include "server/metrics/scan_summary.h"
#include "server/scan/inbox.h"
#include "server/scan/outbox.h"
#include "server/scan/scan_load.h"
#include "server/scan/scan_request.h"

namespace echotrain::server {

/// The place where a scan runs.
struct ScanPlace {
  numerics::Backend backend = numerics::Backend::cpu;
  int device = 0;
  std::vector<int> others;                           ///< GPUs that work with this one
  int yields = 0;                                    ///< steps of nice(2) by which the scan's thread yields to others
  std::shared_ptr<FairScheduler::Scan> scheduled{};  ///< takes turns with scans of other addresses; null: it takes none
  /// The thread pool counts scans with the same HelperTime as one; null: the scan counts for itself.
  std::shared_ptr<numerics::HelperTime> helped{};
  std::shared_ptr<BusyPolling> busy_polling{};  ///< the scan's thread spins while it waits; null: it sleeps
  std::shared_ptr<ScanLoad> load{};             ///< is told when the scan computes; may be null
  std::shared_ptr<Canary> canary{};             ///< is told whether the devices work; may be null
};

/// Returns how much a scan yields to those of other addresses (fair share), when `beside` others of its own address run
/// already: the scans of an address may have as many cores as there are; further ones yield by 1 to 5.
int yields(std::int64_t beside, int cores);

/// Runs one scan on a thread of its own, from construction on. An exception there is caught once and kept as
/// failure(). All members may be called from one other thread (the session's strand).
class Worker {
 public:
  /// `wake` is called, on the worker's thread, when the inbox has room again and when done() becomes true. It must stay
  /// valid until this is destroyed. The account of `queues` pays for the scan's memory; `readiness` learns of a lost
  /// device; `dicom`, where there is one, gets each image too.
  Worker(ScanRequest request, ScanPlace place, const config::ServerOptions& options, const protocol::Limits& limits,
         std::shared_ptr<numerics::Resources> resources, std::shared_ptr<QueueMemory> queues,
         std::shared_ptr<Outbox> outbox, SessionLog log, std::shared_ptr<ScanMeter> meter,
         std::shared_ptr<Readiness> readiness, std::shared_ptr<ImageSink> dicom, std::function<void()> wake);
  ~Worker();  ///< cancels and joins

  /// Says that the pipeline stays: the client may hear its texts. Until then they are held, and they are lost when the
  /// worker is destroyed.
  void confirm();
  void push(Work&& work) { inbox_.push(std::move(work)); }
  bool queue_exceeds_cache() { return inbox_.exceeds_cache(); }  ///< see Inbox
  bool full() const { return inbox_.full(); }
  bool notify_when_empty() { return inbox_.notify_when_empty(); }  ///< see Inbox
  std::size_t queued_bytes() const { return inbox_.bytes(); }
  std::size_t queued_payload_bytes() const { return inbox_.payload_bytes(); }
  /// Stops before the next piece of work, whatever is pushed, until resume(). False, and nothing changes, while there
  /// is something to do.
  bool pause() { return inbox_.pause(); }
  void resume() { inbox_.resume(); }
  /// True while a gadget has unrequested results (ScanEnvironment) that have not been asked for yet.
  bool has_results() const { return woken_; }
  /// Says that the scan has ended; what is queued is still reconstructed.
  void finish(End how) { inbox_.finish(how); }
  /// Stops within the operation that runs; nothing more is reconstructed, and that is no failure.
  void cancel();
  /// Returns what is left in the queue of a scan that does not need it any more; see Inbox.
  std::shared_ptr<void> hand_over_queue() { return inbox_.hand_over(); }

  numerics::Backend backend() const { return place_.backend; }
  /// Returns the thread's signs of life; any thread may ask for them.
  const std::shared_ptr<numerics::Progress>& progress() const { return progress_; }
  /// Returns the thread, for functions of server/base/priority.h; 0 before it runs.
  int thread() const { return runs_as_; }

  /// True when the thread has nothing left to do. The members below are valid from then on.
  bool done() const { return done_; }
  const std::optional<protocol::Error>& failure() const { return failure_; }
  /// Adds this scan's counts to `summary`.
  void report(ScanSummary& summary) const;

 private:
  void run();
  void work();
  std::string over_budget();
  void check_heap();
  void process(Pipeline& pipeline, Work&& work, std::int64_t waiting);
  void process(Pipeline& pipeline, std::vector<protocol::Acquisition>&& batch, std::int64_t waiting);
  void push(Pipeline& pipeline, std::vector<protocol::Acquisition>&& readouts, std::int64_t waiting);
  std::size_t expand(protocol::Acquisition& readout);
  void process(Pipeline& pipeline, protocol::Image&& image);
  void tolerate_version(std::uint16_t version);
  void note_skip(const protocol::SkipReason& reason);
  void say(protocol::Level level, const std::string& text);
  void send(protocol::Image&& image, const ImageTimes& times);
  void warn_when_late(const ImageTimes& times);

  const ScanRequest request_;
  const ScanPlace place_;
  const std::vector<int> devices_;  // all of the place's
  const config::ServerOptions& options_;
  const protocol::Limits& limits_;
  const std::shared_ptr<numerics::Resources> resources_;
  const std::shared_ptr<numerics::MemoryAccount> account_;
  numerics::HeapAccount heap_;  // of what gadgets allocate; outlives the thread and its chain
  const std::shared_ptr<Outbox> outbox_;
  const SessionLog log_;
  const std::shared_ptr<ScanMeter> meter_;
  const std::shared_ptr<Readiness> readiness_;
  const std::shared_ptr<ImageSink> dicom_;  // null: images go to the client only
  const std::function<void()> wake_;
  const std::shared_ptr<numerics::Progress> progress_ = std::make_shared<numerics::Progress>();
  Inbox inbox_;
  std::optional<protocol::AcquisitionCheck> check_;  // of the thread
  bool warned_version_ = false;
  bool warned_attributes_ = false;
  std::atomic<bool> warned_dicom_ = false;
  std::atomic<bool> warned_late_ = false;

  std::mutex texts_mutex_;
  bool confirmed_ = false;
  std::vector<std::pair<protocol::Level, std::string>> held_texts_;

  std::mutex mutex_;  // images may come from another thread
  std::exception_ptr send_error_;
  ScanCounts counts_;

  std::stop_source stop_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> done_ = false;
  std::atomic<bool> woken_ = false;
  std::atomic<int> runs_as_ = 0;   // the thread
  std::atomic<int> yielding_ = 0;  // the thread, while it yields to others
  std::optional<protocol::Error> failure_;
  std::thread thread_;  // last: everything else exists before it starts
};

}  // namespace echotrain::server
