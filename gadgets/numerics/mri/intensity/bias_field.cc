#include "gadgets/numerics/mri/intensity/bias_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/mri/intensity/histogram_sharpening.h"
#include "gadgets/numerics/mri/intensity/spline_lattice.h"

namespace echotrain::numerics {
namespace {

/// Each step-th voxel of an axis, from `first` on.
struct Thinning {
  Extents step{1, 1, 1}, first{}, n{};
};

Thinning thinning_of(const Extents& extents, const BiasFieldOptions& options) {
  Thinning out;
  const std::int64_t most = extents[0] > 1 ? options.most_voxels_3d : options.most_voxels_2d;
  for (;;) {
    for (std::size_t a = 0; a < 3; ++a) {
      out.first[a] = std::min(out.step[a] / 2, extents[a] - 1);
      out.n[a] = (extents[a] - out.first[a] + out.step[a] - 1) / out.step[a];
    }
    if (volume(out.n) <= most) return out;
    ++out.step[static_cast<std::size_t>(std::max_element(out.n.begin(), out.n.end()) - out.n.begin())];
  }
}

/// The voxels of a thinned image that have signal.
struct Signal {
  std::vector<std::size_t> at;  // in the thinned grid
  std::vector<double> logarithm, inside;
};

Signal signal_of(HostView<const float> magnitude, const Extents& extents, const Thinning& thin, double threshold) {
  std::vector<double> values;
  for (std::int64_t z = 0; z < thin.n[0]; ++z)
    for (std::int64_t y = 0; y < thin.n[1]; ++y)
      for (std::int64_t x = 0; x < thin.n[2]; ++x)
        values.push_back(
            magnitude[((thin.first[0] + z * thin.step[0]) * extents[1] + thin.first[1] + y * thin.step[1]) *
                          extents[2] +
                      thin.first[2] + x * thin.step[2]]);
  if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); }))
    throw std::invalid_argument("bias field: the image holds voxels that are not finite numbers");
  std::vector<double> sorted = values;
  const auto high = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(values.size() - 1, values.size() * 99 / 100));
  std::nth_element(sorted.begin(), high, sorted.end());
  const double strong = *high > 0 ? *high : *std::max_element(values.begin(), values.end());
  Signal out;
  out.inside.assign(values.size(), 0.0);
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (!(values[v] > 0 && values[v] >= threshold * strong)) continue;
    out.at.push_back(v);
    out.logarithm.push_back(std::log(values[v]));
    out.inside[v] = 1;
  }
  return out;
}

/// The mean of exp(a - b) where there is signal, and its standard deviation over that mean.
struct Spread {
  double mean, relative;
};
Spread spread_of(const Signal& signal, const std::vector<double>& a, const std::vector<double>* b) {
  double sum = 0, squares = 0;
  for (const std::size_t v : signal.at) {
    const double ratio = std::exp(a[v] - (b ? (*b)[v] : 0));
    sum += ratio;
    squares += ratio * ratio;
  }
  const auto count = static_cast<double>(signal.at.size());
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(0.0, squares / count - mean * mean)) / mean};
}

}  // namespace

BiasFieldFacts bias_field(ThreadPool& threads, HostView<const float> magnitude, const BiasFieldOptions& options,
                          HostView<float> field) {
  if (magnitude.shape().rank() != 3 || !(magnitude.shape() == field.shape()) || magnitude.size() == 0)
    throw std::invalid_argument(
        fmt::format("bias field: {} and {} are not one volume", magnitude.shape().text(), field.shape().text()));
  const Extents extents = last_axes(magnitude.shape(), 3);
  const Thinning thin = thinning_of(extents, options);
  const Signal signal = signal_of(magnitude, extents, thin, options.threshold);
  BiasFieldFacts facts;
  facts.voxels = static_cast<std::int64_t>(signal.at.size());
  if (signal.at.empty()) {
    std::fill_n(field.data(), field.size(), 1.0f);
    return facts;
  }
  HistogramSharpening histogram(200, 0.15, 0.01);
  SplineLattice spline(thin.n, signal.inside);
  std::vector<double> logarithm(signal.inside.size(), 0.0), before, residual(signal.inside.size(), 0.0), sharp;
  for (int level = 0; level < options.levels; ++level) {
    if (level > 0) spline.refine();
    double change = 2 * options.least_change;
    for (int i = 0; i < options.iterations && change > options.least_change; ++i, ++facts.iterations) {
      threads.check_stop();
      sharp = signal.logarithm;
      for (std::size_t v = 0; v < sharp.size(); ++v) sharp[v] -= logarithm[signal.at[v]];
      histogram.sharpen(sharp);
      for (std::size_t v = 0; v < sharp.size(); ++v)
        residual[signal.at[v]] = signal.logarithm[v] - logarithm[signal.at[v]] - sharp[v];
      spline.add_approximation(residual);
      before.swap(logarithm);
      spline.evaluate(logarithm);
      change = spread_of(signal, before, &logarithm).relative;
    }
  }
  const Spread spread = spread_of(signal, logarithm, nullptr);
  facts.spread = spread.relative;
  std::array<SplineLattice::Place, 3> at{};
  for (std::size_t a = 0; a < 3; ++a) {
    const auto step = static_cast<double>(thin.step[a]), first = static_cast<double>(thin.first[a]);
    at[a] = {-first / step, (static_cast<double>(extents[a] - 1) - first) / step};
  }
  constexpr std::int64_t kPlanes = 16;  // at a time, so that a volume needs no second one in float64
  const std::int64_t plane = extents[1] * extents[2];
  threads.parallel_for(extents[0], kPlanes, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> part;
    for (std::int64_t z = begin, next = 0; z < end; z = next) {
      next = std::min(end, z + kPlanes);
      const auto of = [&](std::int64_t i) {
        return (static_cast<double>(i) - static_cast<double>(thin.first[0])) / static_cast<double>(thin.step[0]);
      };
      spline.evaluate({next - z, extents[1], extents[2]}, {{{of(z), of(next - 1)}, at[1], at[2]}}, part);
      for (std::size_t v = 0; v < part.size(); ++v)
        field[z * plane + static_cast<std::int64_t>(v)] = static_cast<float>(std::exp(part[v]) / spread.mean);
    }
  });
  return facts;
}

}  // namespace echotrain::numerics
