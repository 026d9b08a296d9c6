#include "server/session/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/cuda/completion_poller.h"
#include "gadgets/shared/store/noise_store.h"
#include "server/base/log.h"
#include "server/detached/detached_store.h"
#include "server/session/optional_parts.h"

namespace echotrain::server {

namespace {

/// Sockets need few threads: pipelines have their own. A thread copies some 4 GB/s.
constexpr int kFewIoThreads = 4, kMostIoThreads = 16;

void require(config::BackendChoice choice) {
  if (choice == config::BackendChoice::automatic) return;
  const auto backend = choice == config::BackendChoice::cuda ? numerics::Backend::cuda : numerics::Backend::cpu;
  std::string reason;
  if (!numerics::available(backend, &reason))
    throw std::runtime_error(fmt::format("--backend {} cannot run here: {}; --backend auto takes what works",
                                         numerics::to_string(backend), reason));
}

// A bound so low that one session's queues fill it would end scans that back-pressure should slow down.
void check_memory(const config::ServerOptions& options) {
  if (options.memory_mib == 0) return;
  const bool captures = !options.capture.directory.empty();
  const std::int64_t queues = 4 * options.queue_mib + (captures ? options.capture.queue_mib : 0);
  if (options.memory_mib < queues)
    throw std::invalid_argument(fmt::format(
        "memory_mib: {} MiB cannot hold the queues of even one session (up to 4 x queue_mib{} = {} MiB); "
        "raise memory_mib or lower queue_mib{}",
        options.memory_mib, captures ? " + capture.queue_mib" : "", queues, captures ? " or capture.queue_mib" : ""));
}

std::shared_ptr<Certificates> make_certificates(const config::TlsOptions& options) {
  if (!options.certificate.empty()) return std::make_shared<Certificates>(options);
  if (options.only || !options.key.empty() || !options.client_ca.empty())
    throw std::invalid_argument(
        "TLS needs a certificate and its key: give --tls-certificate FILE.pem and --tls-key FILE.pem");
  return nullptr;
}

std::shared_ptr<CaptureStore> make_captures(const config::CaptureOptions& options,
                                            const std::shared_ptr<numerics::MemoryBudget>& memory, Disk disk) {
  if (options.directory.empty()) return nullptr;
  std::signal(SIGXFSZ, SIG_IGN);  // the file size limit is an error of write(), not the end of the process
  const auto queues = std::make_shared<QueueMemory>(std::make_shared<numerics::MemoryAccount>(memory));
  return std::make_shared<CaptureStore>(options, queues, std::move(disk));
}

std::shared_ptr<DetachedStore> make_detached(const config::ServerOptions& options,
                                             const std::shared_ptr<numerics::MemoryBudget>& memory, Disk disk) {
  if (options.detached.directory.empty()) return nullptr;
  std::signal(SIGXFSZ, SIG_IGN);
  const auto queues = std::make_shared<QueueMemory>(std::make_shared<numerics::MemoryAccount>(memory));
  return std::make_shared<DetachedStore>(options.detached, queues, protocol::kServerLimits, std::move(disk));
}

void tell_of_former_noise(numerics::Resources& resources) {
  const std::size_t files = resources.get<NoiseStore>().former_files();
  if (files > 0)
    write_log(LogLevel::info,
              fmt::format("{} files of noise in the cache folder are of another version, which did not note whose they "
                          "are: they are not used",
                          files));
}

std::vector<std::string> names_of_peers(const config::DicomOptions& options) {
  const OptionalParts& parts = OptionalParts::built();
  if (parts.dicom_peers != nullptr) return parts.dicom_peers(options);
  if (!options.peers.empty()) throw std::invalid_argument(not_built("dicom.peers", "DICOM output"));
  return {};
}

}  // namespace

int text_threads() { return std::clamp(numerics::usable_cores(), 2, 4); }

// With `latency` there is one thread, which spins: a thread that sleeps beside it would wait for the sockets in its
// place.
int io_threads(const config::ServerOptions& options) {
  if (options.latency) return 1;
  const int cores = numerics::usable_cores();
  return std::clamp(cores / 2, std::min(cores, kFewIoThreads), kMostIoThreads);
}

// While scans run, one thread looks at sockets and at GPUs in turn, and so hands on what comes without being woken.
void run_context(asio::io_context& context, const Environment& environment) {
  if (!environment.busy_polling) {
    context.run();
    return;
  }
  BusyPolling& busy_polling = *environment.busy_polling;
  auto& completions = environment.resources->get<numerics::CompletionPoller>();
  busy_polling.on_begin([&context] { asio::post(context, [] {}); });  // this thread may sleep
  completions.will_poll();
  const auto core = busy_polling.cores().take();
  while (!context.stopped()) {
    // The flag is read first: a thread that has stopped waiting has left to the GPU what it left before that.
    const bool wanted = busy_polling.wanted();
    const bool more = completions.poll();
    if (!more && !wanted)
      context.run_one();
    else if (context.poll_one() == 0)  // one at a time: sockets that always have more do not hold up the images
      spin_once();
  }
}

Environment make_environment(const config::ServerOptions& options, config::PipelineLibrary library,
                             const Registry& registry, std::shared_ptr<numerics::Resources> resources, Disk disk) {
  require(options.backend);
  check_memory(options);
  tell_of_former_noise(*resources);
  const std::shared_ptr<numerics::MemoryBudget> memory = resources->memory();
  const int cores = resources->threads().size();
  auto heap_trimmer = std::make_shared<HeapTrimmer>(resources);
  std::shared_ptr<ComputePool> compute = make_compute_pool(options);
  Environment environment{
      options,
      protocol::kServerLimits,
      PipelineCatalogue(std::move(library), options.default_pipeline, registry, names_of_peers(options.dicom),
                        options.client_pipelines),
      std::move(resources),
      memory,
      std::make_shared<MemoryAdmission>(memory, options.max_waiting, seconds(options.pause_s)),
      std::move(compute),
      std::make_shared<FairScheduler>(cores),
      std::make_shared<ReadLimiter>(std::max(1, io_threads(options) - 1)),
      options.latency ? std::make_shared<BusyPolling>(numerics::usable_cores()) : nullptr,
      make_certificates(options.tls),
      options.token_file.empty() ? nullptr : std::make_shared<Tokens>(options.token_file),
      make_captures(options.capture, memory, disk),
      make_detached(options, memory, disk),
      /*dicom=*/nullptr,
      /*sinks=*/nullptr,
      options.admin.token_file.empty() ? nullptr : std::make_shared<Tokens>(options.admin.token_file),
      std::move(heap_trimmer),
      /*live=*/nullptr,
      /*onlookers=*/nullptr,
      AllowList(options.per_address_exempt, "per_address_exempt"),
      std::make_shared<const Identities>(options.share)};
  constexpr int kDetachedWork = 4;
  if (environment.detached) environment.detached_work = std::make_shared<FairQueue>(kDetachedWork);
  environment.stuck = std::make_shared<StuckScans>(environment.compute, environment.readiness);
  const OptionalParts& parts = OptionalParts::built();
  if (parts.dicom != nullptr) parts.dicom(environment);
  if (parts.live != nullptr) parts.live(environment);
  return environment;
}

}  // namespace echotrain::server
