#include "clients/cpp/simulate/subject/physiology.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numbers>
#include <sstream>
#include <string>
#include <utility>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/subject/coils.h"

namespace echotrain::client {
namespace {

constexpr double kShortestIntervalMs = 20;

// Reads one line into `to`. Returns what is wrong with it, or nothing.
std::string read_line(const std::string& line, Physiology& to) {
  std::istringstream words(line);
  std::string kind, more;
  double ms = 0, depth = 0;
  if (!(words >> kind)) return "";
  const bool beat = kind == "r", known = beat || kind == "b";
  if (!known || !(words >> ms) || (!beat && !(words >> depth)) || words >> more)
    return fmt::format("'{}' is neither `r MS` (an R wave) nor `b MS DEPTH` (breathing)", line);
  if (!std::isfinite(ms) || ms < 0) return "times are milliseconds from the scan's beginning, 0 or more";
  if (beat) {
    if (!to.beats_ms.empty() && ms < to.beats_ms.back() + kShortestIntervalMs)
      return fmt::format("an R wave {:g} ms after the one before; R waves ascend, and are {:g} ms apart or more",
                         ms - to.beats_ms.back(), kShortestIntervalMs);
    to.beats_ms.push_back(ms);
    return "";
  }
  if (!to.breathing.empty() && ms <= to.breathing.back().ms) return "times of breathing have to ascend";
  if (!(depth >= 0 && depth <= 1)) return "the depth of a breath lies between 0 (expiration) and 1 (inspiration)";
  to.breathing.push_back({ms, depth});
  return "";
}

}  // namespace

Physiology read_physiology(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw UsageError(fmt::format("--physiology {}: the file cannot be read", file.string()));
  Physiology out;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string wrong = read_line(line.substr(0, line.find('#')), out);
    if (!wrong.empty()) throw UsageError(fmt::format("--physiology {}:{}: {}", file.string(), number, wrong));
  }
  if (out.beats_ms.size() < 3 || out.breathing.size() == 1)
    throw UsageError(
        fmt::format("--physiology {}: {} R waves and {} points of breathing; three R waves or more are needed, and no "
                    "breathing or two points or more",
                    file.string(), out.beats_ms.size(), out.breathing.size()));
  return out;
}

Breathing::Breathing(double rate, double jitter, std::uint64_t seed) : rate_(rate), jitter_(jitter), seed_(seed) {
  begins_.push_back(0);
}

Breathing::Breathing(std::vector<Physiology::Breath> trace) : trace_(std::move(trace)) {
  constexpr double kHalf = 0.5;
  for (std::size_t i = 1; i < trace_.size(); ++i) {
    const auto &a = trace_[i - 1], &b = trace_[i];
    if (a.depth < kHalf && b.depth >= kHalf)
      begins_.push_back(a.ms + (b.ms - a.ms) * (kHalf - a.depth) / (b.depth - a.depth));
  }
}

double Breathing::breath_ms(std::size_t i) {
  while (begins_.size() <= i) {
    NoiseSource random(seed_ ^ (0xd1b54a32d192ed03ull * begins_.size()), 1, 1, false);
    const double deviate = std::clamp(random.normal(), -3.0, 3.0);
    begins_.push_back(begins_.back() + 60000 / rate_ * (1 + jitter_ * deviate));
  }
  return begins_[i];
}

std::size_t Breathing::begun(double ms) {
  while (trace_.empty() && begins_.back() <= ms) breath_ms(begins_.size());
  return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), ms) - begins_.begin());
}

double Breathing::depth(double ms) {
  if (trace_.empty()) {
    const std::size_t now = begun(ms);
    const double begin = breath_ms(now - 1),
                 sine = std::sin(std::numbers::pi * (ms - begin) / (breath_ms(now) - begin));
    return sine * sine * sine * sine;
  }
  const auto after =
      std::upper_bound(trace_.begin(), trace_.end(), ms, [](double t, const auto& each) { return t < each.ms; });
  if (after == trace_.begin()) return trace_.front().depth;
  if (after == trace_.end()) return trace_.back().depth;
  const auto before = std::prev(after);
  return before->depth + (after->depth - before->depth) * (ms - before->ms) / (after->ms - before->ms);
}

double Breathing::since_ms(double ms) {
  const std::size_t now = begun(ms);
  return now == 0 ? -1 : ms - begins_[now - 1];
}

}  // namespace echotrain::client
