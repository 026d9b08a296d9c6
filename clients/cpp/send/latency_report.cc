#include "clients/cpp/send/latency_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace echotrain::client {
namespace {

struct Part {
  std::string_view meta, title;
};
constexpr std::array<Part, 5> kPartNames = {{{"echotrain_queue_ms", "queue"},
                                             {"echotrain_compute_ms", "compute"},
                                             {"echotrain_copy_ms", "copy"},
                                             {"echotrain_latency_ms", "until ready to send"},
                                             {"echotrain_last_send_ms", "send (of all but the last)"}}};

constexpr std::array<double, 3> kSteps = {1, 2, 5};
constexpr int kSmallestStep = -9;  // 0.001 ms

/// Lower border of step `number`: 1, 2, 5, 10, ... for 0, 1, 2, 3, ...
double border(int number) {
  const int decade = static_cast<int>(std::floor(number / 3.0));
  const double step = kSteps[static_cast<std::size_t>(number - 3 * decade)];
  return decade < 0 ? step / std::pow(10.0, -decade) : step * std::pow(10.0, decade);
}

int step_of(double ms) {
  int number = kSmallestStep;
  while (ms >= border(number + 1)) ++number;
  return number;
}

}  // namespace

double quantile(const std::vector<double>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

std::string histogram(const std::vector<double>& values_ms) {
  if (values_ms.empty()) return "";
  const auto [least, most] = std::minmax_element(values_ms.begin(), values_ms.end());
  const int first = step_of(*least), last = step_of(*most);
  std::vector<std::size_t> counts(static_cast<std::size_t>(last - first) + 1);
  for (const double value : values_ms) ++counts[static_cast<std::size_t>(step_of(value) - first)];
  const std::size_t highest = *std::max_element(counts.begin(), counts.end());
  constexpr std::size_t kWidth = 50;
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const int step = first + static_cast<int>(i);
    // A bar is never empty where there are images.
    const std::size_t bar = (counts[i] * kWidth + highest - 1) / highest;
    const std::string line = fmt::format("  {:>7} - {:<7} ms {:>7}  {}", fmt::format("{:g}", border(step)),
                                         fmt::format("{:g}", border(step + 1)), counts[i], std::string(bar, '#'));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text;
}

void LatencyReport::add(std::optional<double> latency_ms, const Meta& meta) {
  if (!latency_ms) return;
  latencies_ms_.push_back(*latency_ms);
  for (const auto& [name, value] : meta) {
    for (std::size_t i = 0; i < kParts; ++i) {
      if (name != kPartNames[i].meta) continue;
      char* end = nullptr;
      const double ms = std::strtod(value.c_str(), &end);
      if (end != value.c_str() && std::isfinite(ms)) parts_ms_[i].push_back(ms);
    }
  }
}

std::string LatencyReport::text() const {
  std::string text = fmt::format("latency of {} images (last readout sent -> image received)\n", latencies_ms_.size());
  if (!latencies_ms_.empty()) {
    text += histogram(latencies_ms_);
    std::vector<double> sorted = latencies_ms_;
    std::sort(sorted.begin(), sorted.end());
    text += fmt::format("  p50 {:.3f} ms, p90 {:.3f} ms, p99 {:.3f} ms, max {:.3f} ms\n", quantile(sorted, 0.5),
                        quantile(sorted, 0.9), quantile(sorted, 0.99), sorted.back());
  }
  bool told = false;
  for (std::size_t i = 0; i < kParts; ++i) {
    std::vector<double> sorted = parts_ms_[i];
    if (sorted.empty()) continue;
    std::sort(sorted.begin(), sorted.end());
    if (!std::exchange(told, true)) text += "in the server [ms]                p50       p90       p99       max\n";
    text += fmt::format("  {:<26}{:>10.3f}{:>10.3f}{:>10.3f}{:>10.3f}\n", kPartNames[i].title, quantile(sorted, 0.5),
                        quantile(sorted, 0.9), quantile(sorted, 0.99), sorted.back());
  }
  if (!told) text += "the server said nothing of its own times\n";
  return text;
}

}  // namespace echotrain::client
