#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "gadgets/numerics/mri/intensity/bias_field_ops.h"
#include "gadgets/numerics/mri/intensity/histogram_sharpening.h"
#include "gadgets/numerics/mri/intensity/spline_lattice.h"

namespace echotrain::numerics::cpu {
namespace {

/// The mean of exp(a - b) where there is signal, and its standard deviation over that mean.
struct Spread {
  double mean, relative;
};
Spread spread_of(const BiasSignal& signal, const std::vector<double>& a, const std::vector<double>* b) {
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

BiasFieldFacts fit_bias_field(Context& context, const Thinning& thin, const BiasSignal& signal,
                              const BiasFieldOptions& options, DeviceView<float> field) {
  const Extents extents = last_axes(field.shape(), 3);
  BiasFieldFacts facts;
  facts.voxels = static_cast<std::int64_t>(signal.at.size());
  if (signal.at.empty()) {
    std::fill_n(field.data(), field.size(), 1.0f);
    return facts;
  }
  HistogramSharpening histogram(kBiasBins, kBiasWidth, kBiasNoise);
  std::vector<double> logarithm(static_cast<std::size_t>(volume(thin.n)), 0.0), before, residual = logarithm, sharp,
                                                                                        inside = logarithm;
  for (const std::size_t v : signal.at) inside[v] = 1;
  SplineLattice spline(thin.n, std::move(inside));
  for (int level = 0; level < options.levels; ++level) {
    if (level > 0) spline.refine();
    double change = 2 * options.least_change;
    for (int i = 0; i < options.iterations && change > options.least_change; ++i, ++facts.iterations) {
      context.check_stop();
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
  context.threads().parallel_for(extents[0], kPlanes, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> part;
    for (std::int64_t z = begin, next = 0; z < end; z = next) {
      next = std::min(end, z + kPlanes);
      const auto of = [&](std::int64_t i) {
        return (static_cast<double>(i) - static_cast<double>(thin.first[0])) / static_cast<double>(thin.step[0]);
      };
      spline.evaluate({next - z, extents[1], extents[2]}, {{{of(z), of(next - 1)}, at[1], at[2]}}, part);
      for (std::size_t v = 0; v < part.size(); ++v)
        field.data()[z * plane + static_cast<std::int64_t>(v)] = static_cast<float>(std::exp(part[v]) / spread.mean);
    }
  });
  return facts;
}

}  // namespace echotrain::numerics::cpu
