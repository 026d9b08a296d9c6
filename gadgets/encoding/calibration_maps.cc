#include "gadgets/encoding/calibration_maps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/mri/coils/coil_regions.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "gadgets/shared/cache/espirit_map_cache.h"

namespace echotrain {
namespace {

using numerics::Context;
using numerics::Shape;

/// The part of an axis of the block that is used: samples about the centre of k-space, or all where the centre is not
/// inside.
struct Stretch {
  std::int64_t first, count;
  bool about_centre;
};

constexpr std::int64_t kMostToEachSide = 32;  // few, as sensitivities are smooth

Stretch stretch_of(std::int64_t count, std::int64_t centre) {
  const std::int64_t room = std::min(centre, count - 1 - centre);
  if (room < 0 || 2 * std::min(room, kMostToEachSide) + 1 < std::min(count, kMostToEachSide) / 2)
    return {0, count, false};
  const std::int64_t side = std::min(room, kMostToEachSide);
  return {centre - side, 2 * side + 1, true};
}

/// A Hann window, which does not ring.
double window(std::int64_t i, std::int64_t count) {
  const double at = static_cast<double>(2 * i - (count - 1)) / static_cast<double>(count + 1);
  return 0.5 + 0.5 * std::cos(std::numbers::pi * at);
}

/// Cuts the middle out of the block, windowed if asked: [coil, z, y, x].
Array<cfloat> middle_of(Context& context, const Calibration& calibration, bool windowed) {
  const Shape& n = calibration.data.shape();
  std::array<Stretch, 3> used{};  // z, y, x
  for (std::size_t a = 0; a < 3; ++a)
    used[a] = stretch_of(n[a + 1], calibration.matrix[2 - a] / 2 - calibration.first[2 - a]);
  std::array<std::vector<double>, 3> factors;
  for (std::size_t a = 0; a < 3; ++a)
    for (std::int64_t i = 0; i < used[a].count; ++i) factors[a].push_back(windowed ? window(i, used[a].count) : 1.0);
  Array<cfloat> to = context.allocate<cfloat>({n[0], used[0].count, used[1].count, used[2].count});
  numerics::cut_region(context, calibration.data.view(), {used[0].first, used[1].first, used[2].first}, factors,
                       to.view());
  return to;
}

/// Cuts the middle out of maps [coil, z, y, x], divided by their root sum of squares.
Array<cfloat> cut_and_normalized(Context& context, const Array<cfloat>& maps, const Shape& image) {
  Array<cfloat> to = context.allocate<cfloat>({maps.shape()[0], image[0], image[1], image[2]});
  numerics::unit_maps(context, maps.view(), to.view());
  return to;
}

}  // namespace

Array<cfloat> adaptive_maps_of(Context& context, const Calibration& calibration,
                               const numerics::LineGeometry& geometry) {
  constexpr int kBlock = 5;
  const Array<cfloat> middle = middle_of(context, calibration, true);
  const Shape& m = middle.shape();
  Shape grid;
  for (std::size_t a = 0; a < 3; ++a)
    grid.push_back(m[a + 1] == 1 ? std::min<std::int64_t>(1, geometry.padded[a])
                                 : std::min(geometry.padded[a], numerics::fast_even_size(2 * m[a + 1])));
  const Shape on_grid{m[0], grid[0], grid[1], grid[2]};
  Array<cfloat> images = context.allocate<cfloat>(on_grid), maps = context.allocate<cfloat>(on_grid);
  numerics::centered_fft(context, middle.view(), images.view(), grid, 3, numerics::Direction::inverse, 1);
  numerics::adaptive_maps(context, images.view(), kBlock, maps.view());
  if (grid == geometry.padded) return cut_and_normalized(context, maps, geometry.image);
  numerics::centered_fft(context, maps.view(), images.view(), grid, 3, numerics::Direction::forward,
                         1.0f / static_cast<float>(grid.size()));
  Array<cfloat> fine = context.allocate<cfloat>({m[0], geometry.image[0], geometry.image[1], geometry.image[2]});
  numerics::centered_fft(context, images.view(), fine.view(), geometry.padded, 3, numerics::Direction::inverse, 1);
  return cut_and_normalized(context, fine, geometry.image);
}

Array<cfloat> espirit_maps_of(Context& context, const Calibration& calibration,
                              const numerics::LineGeometry& geometry) {
  const Shape& padded = geometry.padded;
  // espirit_maps() takes the middle of its input for the centre of k-space.
  const Array<cfloat> middle = middle_of(context, calibration, false);
  const Array<cfloat> maps =
      cached_espirit_maps(context, middle, {}, {calibration.data.shape()[0], padded[0], padded[1], padded[2]});
  return cut_and_normalized(context, maps, geometry.image);
}

}  // namespace echotrain
