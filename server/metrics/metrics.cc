#include "server/metrics/metrics.h"

#include <prometheus/text_serializer.h>

#include <iterator>
#include <utility>

#include "server/metrics/metrics_counts.h"

namespace echotrain::server {

namespace {

// The buckets go from a tenth of a millisecond, below which nothing on a network matters, to longer than anybody waits
// [s].
const prometheus::Histogram::BucketBoundaries kSeconds{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02,
                                                       0.05,   0.1,    0.2,    0.5,   1,     2,     5,    10};

Counters& counter(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

Histograms& histogram(prometheus::Registry& registry, const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

/// Returns the outcome, in which all error codes are one; echotrain_errors_total tells them apart.
std::string outcome_of(const SessionStatus& status, const ScanSummary& summary, std::string_view error_code) {
  if (!error_code.empty()) return "error";
  if (summary.outcome == "peer gone") return "peer_gone";
  return status.pipeline().empty() ? "no_scan" : summary.outcome;
}

}  // namespace

Metrics::Counts::Counts()
    : sessions(counter(registry, "echotrain_sessions_total",
                       "Sessions that have ended, by outcome: complete, incomplete (no CLOSE came), peer_gone, error "
                       "(see echotrain_errors_total), no_scan (closed before a scan was begun).")),
      scans(counter(registry, "echotrain_scans_total",
                    "Scans that have ended, by pipeline ('inline': the client sent its own), backend and outcome.")),
      errors(counter(registry, "echotrain_errors_total",
                     "Sessions that ended with an error that the client was told, by its code.")),
      readouts(counter(registry, "echotrain_readouts_total", "Readouts received, by pipeline.")),
      waveforms(counter(registry, "echotrain_waveforms_total", "Waveforms received, by pipeline.")),
      images_in(counter(registry, "echotrain_images_received_total", "Images received, by pipeline.")),
      images(counter(registry, "echotrain_images_total", "Images made and queued for sending, by pipeline.")),
      odd_images(counter(registry, "echotrain_odd_images_total",
                         "Images with pixels that are not finite (kind not_finite) or cut to what their type holds "
                         "(saturated), and images that are zero everywhere (all_zero).")),
      skipped(counter(registry, "echotrain_skipped_total",
                      "Readouts and other messages that were left out of a reconstruction, by kind of reason.")),
      total(histogram(registry, "echotrain_image_latency_seconds",
                      "From the receipt of an image's last readout until the image's last byte is sent.")),
      queue(histogram(registry, "echotrain_image_queue_seconds",
                      "The first part of the latency: until the pipeline takes the last readout.")),
      compute(histogram(registry, "echotrain_image_compute_seconds",
                        "The second part of the latency: until the image is computed.")),
      copy(histogram(registry, "echotrain_image_copy_seconds",
                     "The third part of the latency: until the image is converted and in host memory.")),
      send(histogram(registry, "echotrain_image_send_seconds",
                     "The last part of the latency: until the image's last byte is given to the network.")),
      bytes_in(counter(registry, "echotrain_received_bytes_total", "Bytes received from clients.").Add({})),
      bytes_out(counter(registry, "echotrain_sent_bytes_total", "Bytes sent to clients.").Add({})) {
  // Every series begins at 0, so that rates see its first increase.
  for (const char* outcome : {"complete", "incomplete", "peer_gone", "error", "no_scan"})
    sessions.Add({{"outcome", outcome}});
  for (const char* kind : {"not_finite", "saturated", "all_zero"}) odd_images.Add({{"kind", kind}});
}

Metrics::Metrics() : counts_(std::make_unique<Counts>()) {}
Metrics::~Metrics() = default;

void Metrics::add_bytes_in(std::uint64_t bytes) { counts_->bytes_in.Increment(static_cast<double>(bytes)); }
void Metrics::add_bytes_out(std::uint64_t bytes) { counts_->bytes_out.Increment(static_cast<double>(bytes)); }

void Metrics::add_session(const SessionStatus& status, const ScanSummary& summary, std::string_view error_code) {
  const std::string outcome = outcome_of(status, summary, error_code);
  const std::string pipeline = status.pipeline(), backend = status.backend();
  counts_->sessions.Add({{"outcome", outcome}}).Increment();
  if (!pipeline.empty())
    counts_->scans.Add({{"pipeline", pipeline}, {"backend", backend.empty() ? "none" : backend}, {"outcome", outcome}})
        .Increment();
  if (!error_code.empty()) counts_->errors.Add({{"code", std::string(error_code)}}).Increment();
}

std::shared_ptr<ScanMeter> Metrics::scan(std::string_view pipeline, std::shared_ptr<SessionStatus> status) {
  return std::shared_ptr<ScanMeter>(new ScanMeter(*counts_, pipeline, std::move(status)));
}

std::chrono::system_clock::time_point Metrics::began() const { return counts_->began; }

std::string Metrics::text(std::vector<prometheus::MetricFamily> present) const {
  std::vector<prometheus::MetricFamily> families = counts_->registry.Collect();
  families.insert(families.end(), std::make_move_iterator(present.begin()), std::make_move_iterator(present.end()));
  return prometheus::TextSerializer().Serialize(families);
}

ScanMeter::ScanMeter(Metrics::Counts& counts, std::string_view pipeline, std::shared_ptr<SessionStatus> status)
    : counts_(&counts), pipeline_(pipeline), status_(std::move(status)) {
  const prometheus::Labels labels{{"pipeline", pipeline_}};
  readouts_ = &counts.readouts.Add(labels);
  waveforms_ = &counts.waveforms.Add(labels);
  images_in_ = &counts.images_in.Add(labels);
  images_ = &counts.images.Add(labels);
  total_ = &counts.total.Add(labels, kSeconds);
  queue_ = &counts.queue.Add(labels, kSeconds);
  compute_ = &counts.compute.Add(labels, kSeconds);
  copy_ = &counts.copy.Add(labels, kSeconds);
  send_ = &counts.send.Add(labels, kSeconds);
  status_->set_pipeline(pipeline_, "");
}

void ScanMeter::progress(const ScanCounts& so_far) {
  const auto add = [](prometheus::Counter* counter, std::uint64_t now, std::uint64_t& counted) {
    if (now != counted) counter->Increment(static_cast<double>(now - std::exchange(counted, now)));
  };
  status_->readouts += so_far.readouts - counted_.readouts;
  add(readouts_, so_far.readouts, counted_.readouts);
  add(waveforms_, so_far.waveforms, counted_.waveforms);
  add(images_in_, so_far.images_in, counted_.images_in);
  const auto add_odd = [&](const char* kind, std::uint64_t now, std::uint64_t& counted) {
    if (now != counted) add(&counts_->odd_images.Add({{"kind", kind}}), now, counted);
  };
  add_odd("not_finite", so_far.work.images_not_finite, counted_.work.images_not_finite);
  add_odd("saturated", so_far.work.images_saturated, counted_.work.images_saturated);
  add_odd("all_zero", so_far.work.images_all_zero, counted_.work.images_all_zero);
  for (const auto& [kind, count] : so_far.skipped) {
    std::uint64_t& counted = counted_.skipped[kind];
    if (count != counted) add(&counts_->skipped.Add({{"kind", kind}}), count, counted);
  }
}

void ScanMeter::image() {
  images_->Increment();
  ++status_->images;
}

void ScanMeter::sent(const ImageLatency& latency) {
  const auto observe = [](prometheus::Histogram* histogram, float ms) {
    histogram->Observe(1e-3 * static_cast<double>(ms));
  };
  observe(total_, latency.until_sent());
  observe(queue_, latency.queue);
  observe(compute_, latency.compute);
  observe(copy_, latency.copy);
  observe(send_, latency.send);
}

}  // namespace echotrain::server
