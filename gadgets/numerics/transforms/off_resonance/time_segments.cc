#include "gadgets/numerics/transforms/off_resonance/time_segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "gadgets/numerics/core/dense/hermitian_solve.h"
#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain::numerics {
namespace {

void ensure(bool good, const std::string& problem) {
  if (!good) throw std::invalid_argument("off-resonance: " + problem);
}

cdouble turn(double cycles) { return std::polar(1.0, 2 * std::numbers::pi * (cycles - std::nearbyint(cycles))); }

struct Span {
  double first, last;
  double length() const { return last - first; }
};
Span span_of(std::span<const double> values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {*least, *most};
}

/// Times that are equally far apart over `share` of the span.
std::vector<double> nodes(const Span& span, std::int64_t count, double share) {
  std::vector<double> out(static_cast<std::size_t>(count), 0.5 * (span.first + span.last));
  if (count == 1) return out;
  const double step = share * span.length() / static_cast<double>(count - 1);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] += (static_cast<double>(i) - 0.5 * static_cast<double>(count - 1)) * step;
  return out;
}

/// The mean of exp(2 pi i f t) over the voxels.
cdouble moment(const FieldHistogram& field, double t) {
  cdouble sum = 0;
  for (std::size_t k = 0; k < field.hz.size(); ++k) sum += field.share[k] * turn(field.hz[k] * t);
  return sum;
}

/// Computes weights of segments at `at` for `times`, and their mean square error there, by least squares over the
/// voxels: with m(t) the mean of exp(2 pi i f t), sum_l w_l m(at_l - at_j) = m(t - at_j) for all j.
TimeSegments fit(Context& context, const FieldHistogram& field, std::vector<double> at, std::span<const double> times) {
  const auto n = static_cast<std::int64_t>(at.size()), m = static_cast<std::int64_t>(times.size());
  HermitianSystem system(context, n, m);
  MemoryShare(context.account()).grow_to(2 * sizeof(cdouble) * static_cast<std::uint64_t>(m * n));  // makes room for it
  // W G = B: rows of W are times, G_lj = m(at_l - at_j), B_tj = m(t - at_j). A ridge of a rounding error keeps G
  // definite; it is far below the square of any error that may be asked for.
  constexpr double kRidge = 1e-13;
  std::vector<cdouble> gaps(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i)
    gaps[static_cast<std::size_t>(i)] = moment(field, at[static_cast<std::size_t>(i)] - at[0]);
  for (std::int64_t j = 0; j < n; ++j) {
    const auto column = system.column(j);
    for (std::int64_t i = j; i < n; ++i) {
      const cdouble value = gaps[static_cast<std::size_t>(i - j)];
      column.re[i] = value.real() + (i == j ? kRidge * static_cast<double>(n) : 0);
      column.im[i] = value.imag();
    }
  }
  TimeSegments out;
  out.weights.resize(static_cast<std::size_t>(m * n));
  std::vector<cdouble> wanted(static_cast<std::size_t>(m * n));
  // m(t - at_j) is the sum over frequencies of share exp(2 pi i f t) conj(exp(2 pi i f at_j)).
  const std::size_t bins = field.hz.size();
  std::vector<cdouble> back;
  back.reserve(static_cast<std::size_t>(n) * bins);
  for (const double t : at)
    for (std::size_t k = 0; k < bins; ++k) back.push_back(field.share[k] * std::conj(turn(field.hz[k] * t)));
  context.threads().parallel_for(m, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<cdouble> there(bins);
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::size_t k = 0; k < bins; ++k) there[k] = turn(field.hz[k] * times[static_cast<std::size_t>(t)]);
      for (std::int64_t j = 0; j < n; ++j) {
        const cdouble* from = back.data() + static_cast<std::size_t>(j) * bins;
        double re = 0, im = 0;
        for (std::size_t k = 0; k < bins; ++k) {
          re += there[k].real() * from[k].real() - there[k].imag() * from[k].imag();
          im += there[k].real() * from[k].imag() + there[k].imag() * from[k].real();
        }
        wanted[static_cast<std::size_t>(t * n + j)] = {re, im};
      }
    }
  });
  for (std::int64_t j = 0; j < n; ++j) {
    const auto column = system.column(j).at(system.first_right());
    for (std::int64_t t = 0; t < m; ++t) {
      column.re[t] = wanted[static_cast<std::size_t>(t * n + j)].real();
      column.im[t] = wanted[static_cast<std::size_t>(t * n + j)].imag();
    }
  }
  system.solve(context.threads());
  double left = 0;
  for (std::int64_t t = 0; t < m; ++t) {
    // The mean of |e - sum|^2 is 1 - Re sum_j w_j conj(B_tj) at the solution.
    double met = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto column = system.column(j).at(system.first_right());
      const cdouble w(column.re[t], column.im[t]);
      out.weights[static_cast<std::size_t>(t * n + j)] = w;
      met += (w * std::conj(wanted[static_cast<std::size_t>(t * n + j)])).real();
    }
    left += std::max(0.0, 1 - met);
  }
  out.at_s = std::move(at);
  out.error = std::sqrt(left / static_cast<double>(m));
  return out;
}

}  // namespace

FieldHistogram field_histogram(HostView<const float> field_hz, double duration_s) {
  ensure(field_hz.size() > 0, "the field map is empty");
  double least = field_hz[0], most = field_hz[0];
  for (std::int64_t i = 0; i < field_hz.size(); ++i) {
    ensure(std::isfinite(field_hz[i]), "the field map holds values that are not finite numbers");
    least = std::min(least, static_cast<double>(field_hz[i]));
    most = std::max(most, static_cast<double>(field_hz[i]));
  }
  const double range = most - least, voxels = static_cast<double>(field_hz.size());
  if (range * duration_s < 1e-9) return {{0.5 * (least + most)}, {1}};
  constexpr double kBinsPerCycle = 16, kLeastBins = 64, kMostBins = 8192, kSpread = 0.05;
  const auto bins =
      static_cast<std::size_t>(std::clamp(std::ceil(kBinsPerCycle * range * duration_s), kLeastBins, kMostBins));
  const double width = range / static_cast<double>(bins);
  FieldHistogram out;
  out.share.assign(bins, kSpread / static_cast<double>(bins));
  for (std::size_t k = 0; k < bins; ++k) out.hz.push_back(least + (static_cast<double>(k) + 0.5) * width);
  for (std::int64_t i = 0; i < field_hz.size(); ++i) {
    const auto bin = static_cast<std::size_t>((static_cast<double>(field_hz[i]) - least) / width);
    out.share[std::min(bin, bins - 1)] += (1 - kSpread) / voxels;
  }
  return out;
}

FieldHistogram differences(const FieldHistogram& field) {
  const std::size_t n = field.hz.size();
  const double step = n > 1 ? (field.hz.back() - field.hz.front()) / static_cast<double>(n - 1) : 0;
  FieldHistogram out;
  for (std::size_t k = 0; k < 2 * n - 1; ++k) {
    const auto lag = static_cast<std::ptrdiff_t>(k) - static_cast<std::ptrdiff_t>(n - 1);
    out.hz.push_back(static_cast<double>(lag) * step);
    double sum = 0;
    for (std::size_t i = 0; i + static_cast<std::size_t>(std::abs(lag)) < n; ++i)
      sum += field.share[i] * field.share[i + static_cast<std::size_t>(std::abs(lag))];
    out.share.push_back(sum);
  }
  return out;
}

TimeSegments time_segments(Context& context, const FieldHistogram& field, std::span<const double> times_s,
                           double accuracy) {
  ensure(!times_s.empty() && !field.hz.empty() && field.hz.size() == field.share.size(),
         "there are no times or no frequencies");
  ensure(accuracy >= kLeastSegmentError,
         fmt::format("an accuracy of {:.1g} is below {:.1g}, the best there is", accuracy, kLeastSegmentError));
  ensure(std::all_of(times_s.begin(), times_s.end(), [](double t) { return std::isfinite(t); }),
         "times are not finite numbers");
  const Span times = span_of(times_s), hz = span_of(field.hz);
  const double cycles = times.length() * hz.length();
  const auto too_many = [&] {
    return std::invalid_argument(fmt::format(
        "off-resonance: {} segments are not enough: frequencies span {:.0f} Hz over {:.1f} ms, which is {:.0f} "
        "cycles; mask or smooth the field map, or check the time of a sample",
        kMostSegments, hz.length(), 1e3 * times.length(), cycles));
  };
  if (!(cycles <= static_cast<double>(kMostSegments))) throw too_many();
  // The number is found with a few times, at which the error is smooth; weights are then computed for all.
  std::vector<double> some(times_s.begin(), times_s.end());
  constexpr double kTimesPerCycle = 6, kLeastTimes = 48;
  const auto enough = static_cast<std::int64_t>(std::ceil(kLeastTimes + kTimesPerCycle * cycles));
  if (static_cast<std::int64_t>(some.size()) > enough) some = nodes(times, enough, 1);
  // Fewer segments than cycles cannot do. For short spans, segments that leave out a little at both ends are better.
  constexpr double kShares[] = {1, 0.95, 0.9};
  for (auto n = std::max<std::int64_t>(1, static_cast<std::int64_t>(cycles)); n <= kMostSegments; ++n) {
    context.check_stop();
    double best = 2, best_share = 1;
    for (const double share : kShares) {
      if (n == 1 && share < 1) continue;
      const double error = times.length() > 0 || n == 1 ? fit(context, field, nodes(times, n, share), some).error : 2;
      if (error < best) best_share = share;
      best = std::min(best, error);
    }
    if (best <= accuracy) return fit(context, field, nodes(times, n, best_share), times_s);
  }
  throw too_many();
}

}  // namespace echotrain::numerics
