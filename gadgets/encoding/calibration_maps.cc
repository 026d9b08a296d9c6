#include "gadgets/encoding/calibration_maps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/mri/coils/coil_regions.h"
#include "gadgets/numerics/mri/coils/compression.h"
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

/// The matrix [kept, coil] of the virtual coils that hold the most of the data, [coil, z, y, x].
std::vector<cfloat> virtual_coils_of(Context& context, const Array<cfloat>& data, std::int64_t kept) {
  const std::int64_t coils = data.shape()[0], samples = data.size() / coils;
  Array<numerics::cdouble> gram = context.zeros<numerics::cdouble>({coils, coils});
  numerics::add_coil_gram(context, data.cview().reshaped({1, coils, samples}), 0, samples, gram.view());
  const auto sums = context.download<numerics::cdouble>(gram.view());
  return numerics::compression_by_pca(context.threads(), {sums.data(), sums.data() + sums.size()}, coils,
                                      {.channels = kept})
      .matrix;
}

/// matrix [rest, coil] times data [coil, z, y, x].
Array<cfloat> compressed(Context& context, const std::vector<cfloat>& matrix, std::int64_t coils,
                         numerics::DeviceView<const cfloat> data) {
  const Shape& n = data.shape();
  const std::int64_t rows = static_cast<std::int64_t>(matrix.size()) / coils, samples = data.size() / coils;
  const Array<cfloat> there = context.upload<cfloat>({matrix.data(), {rows, coils}});
  Array<cfloat> to = context.allocate<cfloat>({rows, n[1], n[2], n[3]});
  numerics::compress(context, there.cview(), data.reshaped({1, coils, samples}),
                     to.view().reshaped({1, rows, samples}));
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

Array<cfloat> espirit_maps_of(Context& context, const Calibration& calibration, const numerics::LineGeometry& geometry,
                              std::int64_t sets) {
  const Shape &padded = geometry.padded, &image = geometry.image;
  // espirit_maps() takes the middle of its input for the centre of k-space.
  Array<cfloat> middle = middle_of(context, calibration, false);
  const std::int64_t coils = middle.shape()[0];
  const std::int64_t kept = std::min(coils, geometry.encoded[0] > 1 ? kMostEspirit3D : kMostEspirit2D);
  std::vector<cfloat> virtual_coils;  // [kept, coil]
  if (kept < coils) {
    virtual_coils = virtual_coils_of(context, middle, kept);
    middle = compressed(context, virtual_coils, coils, middle.cview());
  }
  numerics::EspiritOptions options;
  options.sets = sets;
  const Array<cfloat> found = cached_espirit_maps(context, middle, options, padded);
  std::vector<cfloat> back(virtual_coils.size());  // [coil, kept]
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(back.size()); ++i)
    back[static_cast<std::size_t>(i)] = std::conj(virtual_coils[static_cast<std::size_t>(i % kept * coils + i / kept)]);
  const std::int64_t made = found.shape()[0] / kept;
  Array<cfloat> maps = context.allocate<cfloat>({made * coils, image[0], image[1], image[2]});
  const Shape of_set{coils, image[0], image[1], image[2]};
  for (std::int64_t i = 0; i < made; ++i) {
    const Shape of_found{kept, padded[0], padded[1], padded[2]};
    const auto set = found.cview().part(i * of_found.size(), of_found);
    const auto to = maps.view().part(i * of_set.size(), of_set);
    if (kept == coils)
      numerics::unit_maps(context, set, to);
    else
      numerics::unit_maps(context, compressed(context, back, kept, set).cview(), to);
  }
  return maps;
}

}  // namespace echotrain
