// The metrics are what a server counts, in Prometheus' terms (prometheus.io/docs/concepts/metric_types).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/metrics/latency.h"
#include "server/metrics/scan_counts.h"
#include "server/metrics/scan_summary.h"
#include "server/metrics/session_status.h"

namespace prometheus {
class Counter;
class Histogram;
struct MetricFamily;
}  // namespace prometheus

namespace echotrain::server {

class ScanMeter;

/// The counters of one server. No label takes what a client wrote: pipelines go by the names the server gave them, and
/// texts that clients send are all `inline`; kinds and codes are the server's own words. Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void add_bytes_in(std::uint64_t bytes);
  void add_bytes_out(std::uint64_t bytes);
  /// Counts a session that has ended. `error_code` is what the client was told, or empty.
  void add_session(const SessionStatus& status, const ScanSummary& summary, std::string_view error_code);

  /// Returns the meter of one scan with this pipeline: a name of the server's, or kInline.
  std::shared_ptr<ScanMeter> scan(std::string_view pipeline, std::shared_ptr<SessionStatus> status);
  static constexpr std::string_view kInline = "inline";

  /// Returns the counters and then `present`, what is there at this moment, in Prometheus' text format 0.0.4.
  std::string text(std::vector<prometheus::MetricFamily> present) const;
  std::chrono::system_clock::time_point began() const;
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  friend class ScanMeter;
  struct Counts;
  const std::unique_ptr<Counts> counts_;
};

/// Counts one scan as it goes on. Outlived by its Metrics. progress() belongs to one thread, the others to any.
class ScanMeter {
 public:
  /// Adds what `so_far` has more than the last one had: readouts, waveforms, images from the client, odd images,
  /// skipped messages.
  void progress(const ScanCounts& so_far);
  /// Counts an image that was made.
  void image();
  /// Counts an image that was made from readouts and has been sent.
  void sent(const ImageLatency& latency);
  void set_backend(std::string_view backend) { status_->set_pipeline(pipeline_, backend); }

 private:
  friend class Metrics;
  ScanMeter(Metrics::Counts& counts, std::string_view pipeline, std::shared_ptr<SessionStatus> status);

  Metrics::Counts* counts_;
  std::string pipeline_;
  std::shared_ptr<SessionStatus> status_;
  prometheus::Counter *readouts_, *waveforms_, *images_in_, *images_;
  prometheus::Histogram *total_, *queue_, *compute_, *copy_, *send_;
  ScanCounts counted_;  // readouts, waveforms, images_in and skipped of the last progress(); the rest stays 0
};

}  // namespace echotrain::server
