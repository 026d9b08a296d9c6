#include "server/console/admin/metrics_present.h"

#include <prometheus/metric_family.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/device_memory.h"
#include "gadgets/shared/cache/operator_cache.h"
#include "gadgets/shared/cache/plan_cache.h"
#include "server/detached/detached_store.h"
#include "server/dicom/dicom_output.h"
#include "server/scan/queries.h"

namespace echotrain::server {

namespace {

using Labels = std::vector<prometheus::ClientMetric::Label>;

/// Families in the order in which they are named.
class Families {
 public:
  void gauge(const char* name, const char* help, Labels labels, double value) {
    add(name, help, prometheus::MetricType::Gauge, std::move(labels)).gauge.value = value;
  }
  void counter(const char* name, const char* help, Labels labels, double value) {
    add(name, help, prometheus::MetricType::Counter, std::move(labels)).counter.value = value;
  }
  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& add(const char* name, const char* help, prometheus::MetricType type, Labels labels) {
    prometheus::MetricFamily* family = nullptr;
    for (prometheus::MetricFamily& known : families_)
      if (known.name == name) family = &known;
    if (family == nullptr) {
      family = &families_.emplace_back();
      family->name = name;
      family->help = help;
      family->type = type;
    }
    prometheus::ClientMetric& metric = family->metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::vector<prometheus::MetricFamily> families_;
};

void add_sessions(Families& families, const SessionRegistry& registry) {
  constexpr SessionState kStates[] = {SessionState::connecting, SessionState::waiting, SessionState::refused,
                                      SessionState::scanning,   SessionState::paused,  SessionState::finishing,
                                      SessionState::closing,    SessionState::stuck};
  std::map<SessionState, double> counts;
  double queued = 0;
  for (const auto& session : registry.list()) {
    ++counts[session->state];
    queued += static_cast<double>(session->queues->used());
  }
  for (const SessionState state : kStates)
    families.gauge("echotrain_sessions", "Current sessions, by state.", {{"state", std::string(to_string(state))}},
                   counts[state]);
  families.gauge("echotrain_queue_bytes", "Bytes in the sessions' queues, received and to be sent.", {}, queued);
}

void add_places(Families& families, const ComputePool& compute) {
  for (const Place& place : compute.places()) {
    const Labels labels{{"backend", numerics::to_string(place.backend)}, {"device", std::to_string(place.device)}};
    families.gauge("echotrain_place_scans", "Scans that hold a place on a GPU or the CPU.", labels,
                   static_cast<double>(place.scans));
    const bool bounded = place.capacity < std::numeric_limits<std::int64_t>::max();
    families.gauge("echotrain_place_capacity_scans", "Scans that may hold a place on a GPU or the CPU at a time.",
                   labels, bounded ? static_cast<double>(place.capacity) : std::numeric_limits<double>::infinity());
    if (place.most > 0)
      families.gauge("echotrain_gpu_scan_load",
                     "What the scans on a GPU compute, added up: one that does so all the time counts 1.", labels,
                     place.load);
  }
}

void add_progress(Families& families, const Environment& environment) {
  for (const numerics::Backend backend : {numerics::Backend::cpu, numerics::Backend::cuda}) {
    const Labels labels{{"backend", numerics::to_string(backend)}};
    double longest = 0;
    for (const auto& session : environment.session_registry->list())
      if (session->state != SessionState::stuck && session->backend() == numerics::to_string(backend))
        longest = std::max(longest, session->step_s.load());
    families.gauge("echotrain_step_seconds", "How long a scan has computed without a sign of life, the longest one.",
                   labels, longest);
    families.gauge("echotrain_stuck_scans", "Scans that were given up because their threads do not come back.", labels,
                   static_cast<double>(environment.stuck->count(backend)));
  }
}

void add_cache(Families& families, const char* cache, const CacheCounts& counts) {
  const Labels labels{{"cache", cache}};
  families.counter("echotrain_cache_hits_total", "Plans and operators that were kept when a frame needed them.", labels,
                   static_cast<double>(counts.hits));
  families.counter("echotrain_cache_misses_total", "Plans and operators that had to be made.", labels,
                   static_cast<double>(counts.misses));
  families.gauge("echotrain_cache_bytes", "Memory that the kept plans and operators take.", labels,
                 static_cast<double>(counts.bytes));
  families.gauge("echotrain_cache_entries", "Plans and operators that are kept.", labels,
                 static_cast<double>(counts.entries));
}

void add_memory(Families& families, const Environment& environment) {
  double held = 0;
  for (const auto& session : environment.session_registry->list()) held += static_cast<double>(session->queues->held());
  families.gauge("echotrain_memory_bytes", "Memory that all sessions hold: queues and arrays, without the GPU's.", {},
                 held);
  families.gauge("echotrain_memory_taken_bytes",
                 "What of memory_mib is taken: by sessions and what is reserved for them, by caches, by spare memory.",
                 {}, static_cast<double>(environment.memory->used()));
  families.gauge("echotrain_memory_bound_bytes", "Memory that this server may take in all (memory_mib).", {},
                 static_cast<double>(environment.memory->bound()));
}

void add_detached(Families& families, const DetachedStore* store) {
  if (store == nullptr) return;
  const DetachedStore::Counts counts = store->counts();
  for (const auto& [state, scans] : counts.scans)
    families.gauge("echotrain_detached_scans", "Detached scans that are here, by state.", {{"state", state}},
                   static_cast<double>(scans));
  families.gauge("echotrain_detached_bytes", "Bytes of their journals and results.", {},
                 static_cast<double>(counts.bytes));
}

void add_dicom(Families& families, const DicomOutput* output) {
  if (output == nullptr) return;
  families.counter("echotrain_dicom_dropped_total", "Images that could not be kept for a DICOM peer.", {},
                   static_cast<double>(output->dropped()));
  families.gauge("echotrain_dicom_queue_bytes", "Images that wait in memory to be written to the spool.", {},
                 static_cast<double>(output->queued_bytes()));
  for (const DicomPeerStatus& one : output->status()) {
    const Labels labels{{"peer", one.peer.name}};
    families.gauge("echotrain_dicom_reachable", "1 while a DICOM peer answers.", labels,
                   one.reachable.value_or(false) ? 1 : 0);
    families.counter("echotrain_dicom_sent_total", "Images that a DICOM peer has taken.", labels,
                     static_cast<double>(one.sent));
    families.counter("echotrain_dicom_refused_total", "Images that a DICOM peer has refused for good.", labels,
                     static_cast<double>(one.refused));
    families.counter("echotrain_dicom_failures_total", "Exchanges with a DICOM peer that failed.", labels,
                     static_cast<double>(one.failures));
    families.counter("echotrain_dicom_given_up_total",
                     "Images that a DICOM peer did not take in so many tries (dicom.tries), put aside.", labels,
                     static_cast<double>(one.given_up));
    families.counter("echotrain_dicom_removed_total", "Images put aside for a DICOM peer that were removed since.",
                     labels, static_cast<double>(one.removed));
    families.gauge("echotrain_dicom_failing_files", "Images that wait and that a DICOM peer has not taken.", labels,
                   static_cast<double>(one.failing));
    families.gauge("echotrain_dicom_spool_files", "Images that wait on the disk for a DICOM peer.", labels,
                   static_cast<double>(one.waiting.files));
    families.gauge("echotrain_dicom_spool_bytes", "Bytes of images that wait on the disk for a DICOM peer.", labels,
                   static_cast<double>(one.waiting.bytes));
  }
}

void add_devices(Families& families) {
  for (const numerics::DeviceMemory& memory : numerics::device_memory()) {
    const Labels labels{{"device", std::to_string(memory.device)}};
    families.gauge("echotrain_gpu_memory_total_bytes", "Memory of a GPU that this server uses.", labels,
                   static_cast<double>(memory.total));
    families.gauge("echotrain_gpu_memory_used_bytes", "Memory of a GPU in use by all programs.", labels,
                   static_cast<double>(memory.used));
    families.gauge("echotrain_gpu_pool_reserved_bytes", "Memory of a GPU that this server holds for arrays.", labels,
                   static_cast<double>(memory.pool_reserved));
    families.gauge("echotrain_gpu_pool_used_bytes", "Memory of a GPU that this server's arrays take.", labels,
                   static_cast<double>(memory.pool_used));
  }
}

// These have the names that every Prometheus client library gives them.
void add_process(Families& families) {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    families.counter("process_cpu_seconds_total", "CPU time of this process.", {},
                     seconds(usage.ru_utime) + seconds(usage.ru_stime));
  }
  std::uint64_t pages = 0, resident = 0;
  if (std::ifstream("/proc/self/statm") >> pages >> resident)
    families.gauge("process_resident_memory_bytes", "Memory of this process that is in RAM.", {},
                   static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
  std::error_code error;
  double descriptors = 0;
  for (std::filesystem::directory_iterator file("/proc/self/fd", error), end; !error && file != end;
       file.increment(error))
    ++descriptors;
  if (!error) families.gauge("process_open_fds", "Open file descriptors of this process.", {}, descriptors);
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) == 0)
    families.gauge("process_max_fds", "File descriptors that this process may open.", {},
                   static_cast<double>(most.rlim_cur));
}

std::vector<prometheus::MetricFamily> present_values(const Environment& environment,
                                                     std::chrono::system_clock::time_point began) {
  Families families;
  families.gauge("echotrain_build_info", "Always 1; the label says which version runs.",
                 {{"version", std::string(version())}}, 1);
  families.gauge("echotrain_start_time_seconds", "When the server was started, in seconds since 1970.", {},
                 std::chrono::duration<double>(began.time_since_epoch()).count());
  families.gauge("echotrain_ready", "1 while the server takes new scans.", {},
                 environment.readiness->state() == Readiness::State::ready ? 1 : 0);
  families.counter("echotrain_log_suppressed_total",
                   "Lines about clients that were left out of the log, because they were too many.", {},
                   static_cast<double>(environment.log_bounds->left_out()));
  add_sessions(families, *environment.session_registry);
  add_places(families, *environment.compute);
  add_progress(families, environment);
  add_memory(families, environment);
  add_cache(families, "plan", environment.resources->get<PlanCache>().counts());
  add_cache(families, "operator", environment.resources->get<OperatorCache>().counts());
  add_detached(families, environment.detached.get());
  add_dicom(families, environment.dicom.get());
  add_devices(families);
  add_process(families);
  return families.take();
}

}  // namespace

std::string metrics_text(const Environment& environment) {
  return environment.metrics->text(present_values(environment, environment.metrics->began()));
}

}  // namespace echotrain::server
