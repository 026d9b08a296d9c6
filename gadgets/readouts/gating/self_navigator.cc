#include "gadgets/readouts/gating/self_navigator.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>
#include <utility>

#include "gadgets/readouts/gating/band_weights.h"

namespace echotrain {
namespace {

constexpr double kBinsPerBreath = 20;  // bins in the shortest breath
constexpr std::size_t kStretchesKept = 8;
constexpr std::size_t kMostCoils = 32;  // the most coils that are weighted: their eigenvectors cost the cube of it
constexpr double kLeastChange = 1e-14;  // share of the energy: float32 rounding changes more

/// Subtracts mean and slope from values at equal steps.
void detrend(std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double middle = (count - 1) / 2;
  double sum = 0, slope = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    sum += values[i];
    slope += x * values[i];
    squares += x * x;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] -= sum / count + (squares > 0 ? slope / squares * (static_cast<double>(i) - middle) : 0);
}

double energy_of(const std::vector<double>& values);

/// The coils with the largest share of the breath, in their order; all where there are few.
std::vector<std::size_t> telling(const Columns& band, const Columns& rest) {
  std::vector<std::size_t> coils(band.size());
  std::iota(coils.begin(), coils.end(), std::size_t{0});
  if (coils.size() <= kMostCoils) return coils;
  std::vector<double> share;
  for (std::size_t c = 0; c < band.size(); ++c) {
    const double within = energy_of(band[c]), all = within + energy_of(rest[c]);
    share.push_back(all > 0 ? within / all : 0);
  }
  std::stable_sort(coils.begin(), coils.end(), [&](std::size_t a, std::size_t b) { return share[a] > share[b]; });
  coils.resize(kMostCoils);
  std::sort(coils.begin(), coils.end());
  return coils;
}

double energy_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return sum;
}

}  // namespace

SelfNavigator::SelfNavigator(const numerics::ThreadPool& threads, const Options& options)
    : threads_(threads),
      bin_ms_(1000 / (kBinsPerBreath * options.high_hz)),
      half_(std::lround(1000 / options.low_hz / bin_ms_)),
      stretch_(std::max<std::int64_t>(1, half_ / 2)),
      widest_step_(kBinsPerBreath / 2) {
  using std::numbers::pi;
  const double bin_s = bin_ms_ / 1000;
  for (std::int64_t n = 0; n <= half_; ++n) {
    const double t = static_cast<double>(n) * bin_s;
    const double ideal =
        n == 0 ? 2 * (options.high_hz - options.low_hz)
               : (std::sin(2 * pi * options.high_hz * t) - std::sin(2 * pi * options.low_hz * t)) / (pi * t);
    const double hann = 0.5 * (1 + std::cos(pi * static_cast<double>(n) / static_cast<double>(half_ + 1)));
    taps_.push_back(bin_s * ideal * hann);
  }
}

std::int64_t SelfNavigator::bin_at(double time_ms) const {
  return static_cast<std::int64_t>(std::floor(time_ms / bin_ms_));
}

std::int64_t SelfNavigator::stretch_at(double time_ms) const { return bin_at(time_ms) / stretch_; }

void SelfNavigator::expect(double time_ms) {
  const std::int64_t stretch = stretch_at(time_ms);
  if (!states_.contains(stretch)) open_.insert(stretch);
}

void SelfNavigator::add(double time_ms, std::span<const std::complex<float>> centre) {
  Bin& bin = bins_[bin_at(time_ms)];
  bin.sum.resize(centre.size());
  for (std::size_t c = 0; c < centre.size(); ++c) bin.sum[c] += std::abs(std::complex<double>(centre[c]));
  ++bin.count;
}

bool SelfNavigator::ready(double now_ms) const {
  return !open_.empty() && static_cast<double>((*open_.begin() + 1) * stretch_ + half_) * bin_ms_ <= now_ms;
}

void SelfNavigator::judge(double now_ms) {
  while (states_.size() > kStretchesKept) states_.erase(states_.begin());
  while (ready(now_ms)) {
    judge_stretch(*open_.begin());
    open_.erase(open_.begin());
    bins_.erase(bins_.begin(), open_.empty() ? bins_.end() : bins_.lower_bound(*open_.begin() * stretch_ - half_));
  }
}

std::optional<SelfNavigator::State> SelfNavigator::state(double time_ms) const {
  const auto found = states_.find(stretch_at(time_ms));
  if (found == states_.end()) return std::nullopt;
  return found->second[static_cast<std::size_t>(bin_at(time_ms) % stretch_)];
}

void SelfNavigator::judge_stretch(std::int64_t stretch) {
  Signal signal;
  const Verdict verdict = find_signal(bins_.lower_bound(stretch * stretch_ - half_),
                                      bins_.lower_bound((stretch + 1) * stretch_ + half_), signal);
  std::vector<State>& states = states_[stretch];
  states.assign(static_cast<std::size_t>(stretch_), {.verdict = verdict});
  if (verdict != Verdict::told) return;
  std::vector<double> ranked = signal.values;
  std::sort(ranked.begin(), ranked.end());
  const auto count = static_cast<double>(ranked.size());
  const double deviation = std::sqrt(energy_of(ranked) / count);
  for (std::int64_t i = 0; i < stretch_; ++i) {
    // The first and the last readouts of a scan may not pass the centre: they get the nearest moment that does.
    const std::int64_t at = std::clamp<std::int64_t>(stretch * stretch_ + i - signal.first, 0,
                                                     static_cast<std::int64_t>(signal.values.size()) - 1);
    const double value = signal.values[static_cast<std::size_t>(at)];
    const auto below = std::lower_bound(ranked.begin(), ranked.end(), value) - ranked.begin();
    State& state = states[static_cast<std::size_t>(i)];
    state.signal = value / deviation;
    state.position = (static_cast<double>(below) + 0.5) / count;
  }
  last_ = std::move(signal);
}

/// Finds the signal from the first bin to the last that hold samples.
SelfNavigator::Verdict SelfNavigator::find_signal(Bins::const_iterator from, Bins::const_iterator to,
                                                  Signal& signal) const {
  if (from == to) return Verdict::without_centre;
  signal.first = from->first;
  const std::int64_t last = std::prev(to)->first, span = last - signal.first;
  if (span < half_) return Verdict::too_short;
  if (static_cast<double>(span) > widest_step_ * static_cast<double>(std::distance(from, to) - 1))
    return Verdict::too_seldom;

  const std::size_t coils = from->second.sum.size();
  Columns all, band, rest;
  double energy = 0;
  for (std::size_t c = 0; c < coils; ++c) {
    threads_.check_stop();
    all.push_back(column(from, to, c));
    energy += energy_of(all[c]);
    detrend(all[c]);
    band.push_back(band_passed(all[c]));
    std::vector<double>& others = rest.emplace_back(all[c]);
    for (std::size_t i = 0; i < others.size(); ++i) others[i] -= band[c][i];
  }
  double change = 0;
  for (const auto& values : band) change += energy_of(values);
  const auto chosen = telling(band, rest);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    for (Columns* columns : {&all, &band, &rest})
      if (chosen[i] != i) (*columns)[i] = std::move((*columns)[chosen[i]]);
  for (Columns* columns : {&all, &band, &rest}) columns->resize(chosen.size());
  if (!(change > kLeastChange * energy)) return Verdict::unchanging;  // also if it is not finite
  signal.values = weighted_sum(band, band_weights(threads_, band, rest));
  // The weights suppress everything beside the breath; the energy that each coil has of it shows its course best.
  std::vector<double> seen;
  for (const auto& values : band)
    seen.push_back(std::inner_product(values.begin(), values.end(), signal.values.begin(), 0.0));
  orient(signal, weighted_sum(all, seen));
  return Verdict::told;
}

/// The means of the bins; bins without samples are interpolated.
std::vector<double> SelfNavigator::column(Bins::const_iterator from, Bins::const_iterator to, std::size_t coil) const {
  const auto mean = [coil](const Bin& bin) { return bin.sum[coil] / static_cast<double>(bin.count); };
  std::vector<double> values{mean(from->second)};
  for (auto bin = from, next = std::next(from); next != to; bin = next++) {
    const std::int64_t steps = next->first - bin->first;
    const double before = values.back(), after = mean(next->second);
    for (std::int64_t i = 1; i <= steps; ++i)
      values.push_back(before + (after - before) * static_cast<double>(i) / static_cast<double>(steps));
  }
  return values;
}

/// Applies the band-pass. Beyond their ends, values are mirrored; there are more than half_ of them.
std::vector<double> SelfNavigator::band_passed(const std::vector<double>& values) const {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<double> padded;
  for (std::int64_t i = -half_; i < count + half_; ++i) {
    const std::int64_t within = i < 0 ? -i : i < count ? i : 2 * (count - 1) - i;
    padded.push_back(values[static_cast<std::size_t>(within)]);
  }
  std::vector<double> out;
  for (std::int64_t i = 0; i < count; ++i) {
    const double* at = padded.data() + i + half_;
    double sum = taps_[0] * *at;
    for (std::int64_t n = 1; n <= half_; ++n) sum += taps_[static_cast<std::size_t>(n)] * (at[-n] + at[n]);
    out.push_back(sum);
  }
  return out;
}

/// Weights have no sign of their own. People linger at the end of expiration, so the signal's third moment tells its
/// sign. `unfiltered`: the signal before the band-pass, which would remove the sharp ends of breaths.
void SelfNavigator::orient(Signal& signal, const std::vector<double>& unfiltered) const {
  const double mean =
      std::accumulate(signal.values.begin(), signal.values.end(), 0.0) / static_cast<double>(signal.values.size());
  double direction = 0, lingering = 0;
  for (std::size_t i = 0; i < signal.values.size(); ++i) {
    double& value = signal.values[i];
    value -= mean;
    lingering += unfiltered[i] * unfiltered[i] * unfiltered[i];
    const std::int64_t before = signal.first + static_cast<std::int64_t>(i) - last_.first;
    if (before >= 0 && before < static_cast<std::int64_t>(last_.values.size()))
      direction += value * last_.values[static_cast<std::size_t>(before)];
  }
  if ((direction != 0 ? direction : lingering) < 0)
    for (double& value : signal.values) value = -value;
}

}  // namespace echotrain
