#include "server/metrics/latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace echotrain::server {
namespace {

float ms_between(Instant from, Instant to) { return std::chrono::duration<float, std::milli>(to - from).count(); }

/// Returns the value that a fraction `q` of the sorted values do not exceed (nearest rank).
float quantile(const std::vector<float>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

struct Spread {
  float median = 0, p99 = 0, max = 0;
};

/// Returns each part's name and spread; empty without images.
std::vector<std::pair<const char*, Spread>> spreads(const std::vector<ImageLatency>& latencies) {
  std::vector<std::pair<const char*, Spread>> all;
  if (latencies.empty()) return all;
  std::vector<float> sorted(latencies.size());
  const auto add = [&](const char* name, const auto& part) {
    std::transform(latencies.begin(), latencies.end(), sorted.begin(), part);
    std::sort(sorted.begin(), sorted.end());
    all.push_back({name, {quantile(sorted, 0.5), quantile(sorted, 0.99), sorted.back()}});
  };
  add("after_last_readout_ms", [](const ImageLatency& l) { return l.until_sent(); });
  add("queue_ms", [](const ImageLatency& l) { return l.queue; });
  add("compute_ms", [](const ImageLatency& l) { return l.compute; });
  add("copy_ms", [](const ImageLatency& l) { return l.copy; });
  add("send_ms", [](const ImageLatency& l) { return l.send; });
  return all;
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
  std::string text;
  for (const auto& [name, spread] : spreads(latencies))
    text += fmt::format(" {}={:.2f}/{:.2f}/{:.2f}", name, spread.median, spread.p99, spread.max);
  return text + " (median/p99/max)";
}

nlohmann::ordered_json latency_facts(const std::vector<ImageLatency>& latencies) {
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  for (const auto& [name, spread] : spreads(latencies))
    facts[name] = {{"median", spread.median}, {"p99", spread.p99}, {"max", spread.max}};
  return facts;
}

}  // namespace echotrain::server
