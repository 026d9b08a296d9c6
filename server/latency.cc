#include "server/latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace echotrain::server {
namespace {

float ms_between(Instant from, Instant to) { return std::chrono::duration<float, std::milli>(to - from).count(); }

/// The value that a fraction `q` of the sorted values do not exceed (nearest rank).
float quantile(const std::vector<float>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

template <class Part>
std::string spread(const std::vector<ImageLatency>& latencies, std::vector<float>& scratch, const Part& part) {
  scratch.clear();
  for (const ImageLatency& latency : latencies) scratch.push_back(part(latency));
  std::sort(scratch.begin(), scratch.end());
  return fmt::format("{:.2f}/{:.2f}/{:.2f}", quantile(scratch, 0.5), quantile(scratch, 0.99), scratch.back());
}

}  // namespace

std::optional<ImageLatency> latency_of(const ImageTimes& times, Instant sent) {
  const Arrival& arrival = times.arrival;
  if (arrival.received == Instant{} || times.copied == Instant{}) return std::nullopt;
  return ImageLatency{ms_between(arrival.received, arrival.taken), ms_between(arrival.taken, times.computed),
                      ms_between(times.computed, times.copied),
                      sent == Instant{} ? 0.0f : ms_between(times.copied, sent)};
}

void add_latency(std::string& attributes, const ImageLatency& latency, std::optional<float> last_send_ms) {
  const std::size_t end = attributes.rfind("</ismrmrdMeta>");
  if (end == std::string::npos) return;
  std::string added;
  const auto add = [&added](std::string_view name, float ms) {
    added += fmt::format("<meta><name>{}</name><value>{:.3f}</value></meta>\n", name, ms);
  };
  add("echotrain_latency_ms", latency.until_ready());
  add("echotrain_queue_ms", latency.queue);
  add("echotrain_compute_ms", latency.compute);
  add("echotrain_copy_ms", latency.copy);
  if (last_send_ms) add("echotrain_last_send_ms", *last_send_ms);
  attributes.insert(end, added);
}

std::string latency_text(const std::vector<ImageLatency>& latencies) {
  if (latencies.empty()) return "";
  std::vector<float> scratch;
  scratch.reserve(latencies.size());
  const auto of = [&](const auto& part) { return spread(latencies, scratch, part); };
  return fmt::format(
      " after_last_readout_ms={} queue_ms={} compute_ms={} copy_ms={} send_ms={} (median/p99/max)",
      of([](const ImageLatency& l) { return l.until_sent(); }), of([](const ImageLatency& l) { return l.queue; }),
      of([](const ImageLatency& l) { return l.compute; }), of([](const ImageLatency& l) { return l.copy; }),
      of([](const ImageLatency& l) { return l.send; }));
}

}  // namespace echotrain::server
