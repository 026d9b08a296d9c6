// The environment is what all sessions of a server share.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "config/pipeline_spec.h"
#include "config/server_options.h"
#include "gadgets/numerics/core/resources.h"
#include "protocol/data/limits.h"
#include "server/base/busy_polling.h"
#include "server/base/fair_scheduler.h"
#include "server/base/heap_trimmer.h"
#include "server/base/image_sink.h"
#include "server/base/log.h"
#include "server/base/offload.h"
#include "server/base/queue_memory.h"
#include "server/base/read_limiter.h"
#include "server/capture/capture.h"
#include "server/health/canary.h"
#include "server/health/readiness.h"
#include "server/memory/memory_admission.h"
#include "server/metrics/metrics.h"
#include "server/metrics/scan_observer.h"
#include "server/metrics/session_status.h"
#include "server/net/allow_list.h"
#include "server/net/certificates.h"
#include "server/net/identity.h"
#include "server/net/tokens.h"
#include "server/scan/compute_pool.h"
#include "server/scan/pipeline_catalogue.h"
#include "server/scan/stuck_scans.h"

namespace echotrain::server {

class DetachedStore;
class DicomOutput;
class LiveScanRegistry;

/// Returns how many threads read long texts of clients.
int text_threads();

/// The options, pools and counters that all sessions use. It outlives them.
struct Environment {
  config::ServerOptions options;
  protocol::Limits limits;
  PipelineCatalogue catalogue;
  std::shared_ptr<numerics::Resources> resources;  ///< shared by all scans: CPU threads, caches, pools
  std::shared_ptr<numerics::MemoryBudget> memory;  ///< of the resources: all that this process takes of the machine's
  std::shared_ptr<MemoryAdmission> memory_admission;  ///< of that memory
  std::shared_ptr<ComputePool> compute;
  std::shared_ptr<FairScheduler> scheduler;      ///< of the addresses whose scans run
  std::shared_ptr<ReadLimiter> read_limiter;     ///< of the sessions that bring much at once
  std::shared_ptr<BusyPolling> busy_polling;     ///< null: all threads sleep while they wait
  std::shared_ptr<Certificates> certificates;    ///< null: no TLS
  std::shared_ptr<Tokens> tokens;                ///< null: no token is required
  std::shared_ptr<CaptureStore> captures;        ///< null: nothing is captured
  std::shared_ptr<DetachedStore> detached;       ///< null: no scan outlives its connection
  std::shared_ptr<DicomOutput> dicom;            ///< null: no DICOM peers
  std::shared_ptr<ImageSinks> sinks;             ///< the same
  std::shared_ptr<Tokens> admin_tokens;          ///< null: the admin port changes nothing
  std::shared_ptr<HeapTrimmer> heap_trimmer;     ///< gives back what sessions have freed
  std::shared_ptr<LiveScanRegistry> live;        ///< null: no live page
  std::shared_ptr<SessionObservers> observers;   ///< the same
  AllowList exempt;                              ///< per_address_exempt
  std::shared_ptr<const Identities> identities;  ///< of the option `share`
  std::shared_ptr<Metrics> metrics = std::make_shared<Metrics>();
  std::shared_ptr<SessionRegistry> session_registry = std::make_shared<SessionRegistry>();
  std::shared_ptr<Readiness> readiness = std::make_shared<Readiness>();
  std::shared_ptr<Canary> canary = std::make_shared<Canary>(readiness);  ///< tries GPUs on which scans fail
  std::shared_ptr<StuckScans> stuck;                                     ///< whose threads do not come back
  std::shared_ptr<LogBounds> log_bounds = std::make_shared<LogBounds>();
  /// Lets one long answer of an address wait to be read; the next ones are made after that.
  std::shared_ptr<AddressLimiters> long_answers = std::make_shared<AddressLimiters>(1);
  /// Threads that read clients' texts, while sessions go on: those that take long, and those of a few ms (TLS
  /// handshakes too).
  std::shared_ptr<FairQueue> long_texts = std::make_shared<FairQueue>(text_threads());
  std::shared_ptr<FairQueue> short_texts = std::make_shared<FairQueue>(2);
  /// Threads that look at the disk for detached scans: should it hang, nothing else waits for it. Null as `detached`.
  std::shared_ptr<FairQueue> detached_work = {};
  /// Ends those threads. It is called before the contexts of the sessions that have asked end.
  void end_texts() const {
    for (const auto& each : {long_texts, short_texts, detached_work})
      if (each) each->end();
  }
};

/// Returns how many threads move the sessions' bytes.
int io_threads(const config::ServerOptions& options);

/// Runs the handlers of `context` on this thread until none is left. With the option `latency`, no other thread may.
void run_context(asio::io_context& context, const Environment& environment);

/// Checks all pipelines, the backend and the options. Throws config::ConfigError (a pipeline file),
/// std::invalid_argument (an option), std::runtime_error (the backend, a certificate, the tokens, the captures'
/// folder, DICOM), each saying what to do. Pipelines may name the gadgets of `registry`, which outlives the
/// environment. `resources` must not be null; `disk` writes the captures.
Environment make_environment(const config::ServerOptions& options, config::PipelineLibrary library,
                             const Registry& registry, std::shared_ptr<numerics::Resources> resources, Disk disk = {});

}  // namespace echotrain::server
