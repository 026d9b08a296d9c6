#include "gadgets/readouts/gating/phase_drift.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <utility>

namespace echotrain {
namespace {

constexpr std::int64_t kHalf = 10;  // bins to either side
constexpr std::int64_t kWidth = 2 * kHalf + 1;
constexpr std::size_t kWindowsKept = 4;

}  // namespace

PhaseDrift::PhaseDrift(double window_ms) : bin_ms_(window_ms / static_cast<double>(kWidth)) {}

std::int64_t PhaseDrift::bin_at(double time_ms) const {
  return static_cast<std::int64_t>(std::floor(time_ms / bin_ms_));
}

void PhaseDrift::add(double time_ms, std::span<const std::complex<float>> centre) {
  const std::int64_t at = std::max(bin_at(time_ms), next_);  // a late sample counts if its bin is still open
  if (!begun_) {
    next_ = at;
    first_ms_ = time_ms;
  }
  begun_ = true;
  Bin& bin = bins_[at];
  bin.sum.resize(centre.size());
  for (std::size_t c = 0; c < centre.size(); ++c) bin.sum[c] += std::complex<double>(centre[c]);
  ++bin.count;
}

bool PhaseDrift::ready(double now_ms) const {
  return begun_ && static_cast<double>(next_ + kHalf + 1) * bin_ms_ <= now_ms;
}

/// Finds the phase of bins below `before`.
void PhaseDrift::unwrap(std::int64_t before) {
  using std::numbers::pi;
  auto it = unwrapped_ ? bins_.upper_bound(*unwrapped_) : bins_.begin();
  for (; it != bins_.end() && it->first < before; ++it) {
    Bin& bin = it->second;
    if (reference_.empty()) {
      reference_ = bin.sum;
      for (auto& value : reference_) value /= bin.count;
    }
    std::complex<double> product = 0;
    for (std::size_t c = 0; c < bin.sum.size(); ++c) product += bin.sum[c] * std::conj(reference_[c]);
    bin.sum = {};
    bin.weight = std::abs(product);
    if (bin.weight > 0) last_phase_ += std::remainder(std::arg(product) - last_phase_, 2 * pi);
    bin.phase = last_phase_;
    unwrapped_ = it->first;
  }
}

PhaseDrift::Line PhaseDrift::fit(std::int64_t bin) const {
  double weights = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (auto it = bins_.lower_bound(bin - kHalf); it != bins_.end() && it->first <= bin + kHalf; ++it) {
    const auto at = static_cast<double>(it->first - bin);
    const double weight = it->second.weight;
    weights += weight;
    x += weight * at;
    y += weight * it->second.phase;
    xx += weight * at * at;
    xy += weight * at * it->second.phase;
  }
  if (!(weights > 0)) return {lines_.empty() ? 0 : std::prev(lines_.end())->second.phase, 0};
  const double spread = xx - x * x / weights;
  const double slope = spread > 1e-9 * weights ? (xy - x * y / weights) / spread : 0;
  return {(y - slope * x) / weights, slope};
}

void PhaseDrift::judge(double now_ms) {
  while (lines_.size() > kWindowsKept * kWidth) lines_.erase(lines_.begin());
  while (ready(now_ms)) {
    unwrap(next_ + kHalf + 1);
    // Bins far from any sample are skipped, up to the next sample or, if there is none, to the first bin that is not
    // over.
    const auto near = bins_.lower_bound(next_ - kHalf);
    const std::int64_t first_open =
        std::isfinite(now_ms) ? bin_at(now_ms) - kHalf : std::numeric_limits<std::int64_t>::max() / 4;
    next_ = std::max(next_, near == bins_.end() ? first_open : near->first - kHalf);
    if (near == bins_.end() || !ready(now_ms)) break;
    unwrap(next_ + kHalf + 1);
    lines_[next_] = fit(next_);
    ++next_;
    bins_.erase(bins_.begin(), bins_.lower_bound(next_ - kHalf));
  }
}

std::optional<double> PhaseDrift::phase(double time_ms) const {
  const std::int64_t bin = bin_at(time_ms);
  if (begun_ && time_ms + window_ms() <= first_ms_) return 0;
  if (lines_.empty() || bin >= next_) return std::nullopt;
  auto line = lines_.lower_bound(bin);
  if (line == lines_.end() || (line->first != bin && line != lines_.begin())) line = std::prev(line);
  // The line is evaluated within its bin; beyond, at the bin's nearest end.
  const double from_middle = std::clamp(time_ms / bin_ms_ - static_cast<double>(line->first) - 0.5, -0.5, 0.5);
  return line->second.phase + line->second.slope * from_middle;
}

double PhaseDrift::window_ms() const { return bin_ms_ * static_cast<double>(kWidth); }

}  // namespace echotrain
