#include "gadgets/numerics/mri/parallel/line_unmixing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/parallel/line_unmixing_ops.h"

namespace echotrain::numerics {
namespace {

std::int64_t wrapped(std::int64_t i, std::int64_t n) { return (i % n + n) % n; }

/// Finds the acquired rows on the lattice that fit into the transform, if one step leads through them.
bool find_rows(const Lattice& lattice, const RowPlan& rows, std::int64_t padded, LineUnmixing& plan) {
  std::vector<std::int64_t> found;
  for (std::int64_t y = 0; y < rows.ny; ++y) {
    const std::int64_t k = y - rows.ny / 2;
    if (rows.at(y, 0) == RowPlan::on_lattice && k >= -(padded / 2) && k < (padded + 1) / 2) found.push_back(y);
  }
  if (found.empty()) return false;
  plan.first = found.front();
  plan.step = lattice.step_y;
  plan.count = static_cast<std::int64_t>(found.size());
  return found.back() == plan.first + (plan.count - 1) * plan.step;
}

void find_places(std::int64_t padded, LineUnmixing& plan) {
  const std::int64_t common = std::gcd(plan.step, padded), lines = plan.geometry.image[1];
  plan.points = padded / common;
  plan.folds = common;
  for (std::int64_t i = 0; i < lines; ++i) {
    const std::int64_t r = wrapped(i - lines / 2, padded);
    plan.place.push_back(
        static_cast<std::int32_t>(r / plan.points * plan.points + wrapped(plan.step / common * r, plan.points)));
  }
}

/// Finds partners, and returns the point between them.
double find_pairs(std::int64_t padded, LineUnmixing& plan) {
  std::map<std::int64_t, std::int32_t> at;  // rows by k modulo n
  for (std::size_t i = 0; i < plan.frequencies.size(); ++i)
    at[wrapped(plan.frequencies[i], padded)] = static_cast<std::int32_t>(i);
  std::int64_t best = 0;
  std::size_t most = 0;
  for (std::int64_t sum = 0; sum < padded; ++sum) {  // sum of two partners
    std::size_t with = 0;
    for (const auto& [k, row] : at) with += at.contains(wrapped(sum - k, padded)) ? 1 : 0;
    if (with > most) best = sum, most = with;
  }
  std::set<std::int32_t> taken;
  for (std::size_t i = 0; i < plan.frequencies.size(); ++i) {
    const auto row = static_cast<std::int32_t>(i);
    if (!taken.insert(row).second) continue;
    const auto partner = at.find(wrapped(best - plan.frequencies[i], padded));
    const bool pair = partner != at.end() && taken.insert(partner->second).second;
    plan.pairs.push_back({plan.frequencies[i] - static_cast<double>(best) / 2, row, pair ? partner->second : -1});
  }
  return static_cast<double>(best) / 2;
}

}  // namespace

std::uint64_t LineUnmixing::bytes() const {
  const std::int64_t floats = 2 * weights.size() + turns.size() + maps.size() + frequencies_there.size();
  return static_cast<std::uint64_t>(floats) * sizeof(float) +
         (place.size() + sources.size() + own.size() + terms.size() + frequencies.size()) * sizeof(std::int32_t) +
         pairs.size() * sizeof(Pair);
}

LineUnmixing plan_line_unmixing(Context& context, const Lattice& lattice, const RowPlan& rows,
                                const LineGeometry& geometry, const LineCorrections& corrections,
                                const Array<cfloat>& factors, float scale) {
  const Shape& image = geometry.image;
  const bool corrected = corrections.count() > 0;
  const std::int64_t maps = corrected ? 2 : 1;
  if (rows.nz != geometry.encoded[0] || rows.ny != geometry.encoded[1] || factors.shape().rank() != 4 ||
      factors.shape()[0] % maps != 0 || !(factors.shape() == Shape{factors.shape()[0], image[0], image[1], image[2]}))
    throw std::invalid_argument(fmt::format("unmixing of lines: weights {} and {} x {} rows do not fit {} -> {}",
                                            factors.shape().text(), rows.nz, rows.ny, geometry.encoded.text(),
                                            image.text()));
  LineUnmixing plan;
  plan.geometry = geometry;
  const std::int64_t padded = geometry.padded[1];
  const bool flat = geometry.encoded[0] == 1 && geometry.padded[0] == 1 && image[0] == 1;
  if (!flat || geometry.direction != Direction::inverse || image[1] > padded || !find_rows(lattice, rows, padded, plan))
    return {};
  find_places(padded, plan);
  for (const std::int32_t row : corrections.rows)
    plan.frequencies.push_back(row - static_cast<std::int32_t>(padded / 2));
  constexpr std::size_t kMostCorrected =
      256;  // no backend's unmixing_pays() takes more, and the search for pairs is slow
  if (plan.frequencies.size() > kMostCorrected) return {};
  const double middle = find_pairs(padded, plan);
  if (plan.count > plan.points || !ECHOTRAIN_DISPATCH(context, unmixing_pays(plan))) return {};
  plan.coils = factors.shape()[0] / maps;
  ECHOTRAIN_DISPATCH(context, keep_weights(context, factors, corrections, middle, scale, plan));
  return plan;
}

void unmix_lines(Context& context, const LineUnmixing& plan, const HybridKernels& hybrid,
                 const LineCorrections& corrections, DeviceView<const cfloat> half, DeviceView<cfloat> image) {
  const Shape &encoded = plan.geometry.encoded, &to = plan.geometry.image;
  const bool corrected = !plan.frequencies.empty();
  if (!plan.made() || !(half.shape() == Shape{plan.coils, encoded[0] * encoded[1], to[2]}) ||
      !(image.shape() == Shape{1, to[0], to[1], to[2]}) ||
      corrections.count() != static_cast<std::int64_t>(plan.frequencies.size()) ||
      (corrected && (hybrid.coils != plan.coils || hybrid.columns != to[2])))
    throw std::invalid_argument(fmt::format("unmixing of lines: {} -> {} is not what the plan is for",
                                            half.shape().text(), image.shape().text()));
  ECHOTRAIN_DISPATCH(context, unmix_lines(context, LineUnmixingWork{plan, hybrid, corrections, half, image.data()}));
}

}  // namespace echotrain::numerics
