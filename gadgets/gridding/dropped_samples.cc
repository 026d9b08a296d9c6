#include "gadgets/gridding/dropped_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

namespace echotrain {
namespace {

/// The unit in which the largest number would lie near the edge of k-space.
std::string likely_unit(double largest, const SampleSpace& space) {
  const auto dims = static_cast<std::ptrdiff_t>(space.dims);
  const double n = *std::max_element(space.matrix.begin(), space.matrix.begin() + dims);
  const double pixel_m = *std::min_element(space.pixel_m.begin(), space.pixel_m.begin() + dims);
  std::vector<std::pair<double, std::string>> edges = {
      {std::numbers::pi, "radians_per_pixel"}, {0.5 * n, "cycles_per_fov"}, {0.5 / pixel_m, "cycles_per_m"}};
  std::sort(edges.begin(), edges.end());
  for (const auto& [edge, unit] : edges)
    if (largest <= 1.01 * edge) return unit;
  return edges.back().second;
}

}  // namespace

void DroppedSamples::judge(std::int64_t dropped, std::int64_t total, double largest, const SampleSpace& space) {
  if (2 * dropped > total)
    throw ClientError(fmt::format(
        "{} of {} samples lie beyond 0.5 cycles/pixel (largest {:.4g} in the data's numbers): the trajectory "
        "is likely in {}; set the pipeline's trajectory_unit",
        dropped, total, largest, likely_unit(largest, space)));
  warn(dropped, total);
}

void DroppedSamples::warn(std::int64_t dropped, std::int64_t total) {
  if (dropped > 0 && !std::exchange(warned_, true))
    scan_->warn(fmt::format("{} of {} samples of a frame lie beyond 0.5 cycles/pixel and are dropped", dropped, total));
}

}  // namespace echotrain
