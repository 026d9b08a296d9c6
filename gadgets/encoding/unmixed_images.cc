#include "gadgets/encoding/unmixed_images.h"

#include <utility>
#include <vector>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/inverse/operators/map_products.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain {
namespace {

using numerics::Context;
using numerics::DeviceView;
using numerics::Direction;
using numerics::LineGeometry;
using numerics::Shape;

/// Transforms along x, cut to the image: [coil, z * y, image x].
Array<cfloat> half_of(Context& context, const Weights& weights, const AcquiredRows& rows) {
  if (rows.half) return rows.half;
  const LineGeometry& g = weights.geometry;
  Array<cfloat> half = context.allocate<cfloat>({weights.coils, g.encoded[0] * g.encoded[1], g.image[2]});
  numerics::centered_fft(context,
                         rows.kspace.view().reshaped({weights.coils, g.encoded[0] * g.encoded[1], g.encoded[2]}),
                         half.view(), {g.padded[2]}, 1, Direction::inverse, 1);
  return half;
}

void keep_lattice(Context& context, const Weights& weights, DeviceView<cfloat> rows) {
  if (weights.on_lattice.empty()) return;
  const auto count = static_cast<std::int64_t>(weights.on_lattice.size());
  numerics::scale_lines(context, {weights.on_lattice.data(), {count}}, rows);
}

/// Puts the rows of corrections or fillings, [coil, row, image x], into a matrix of `planes` x `lines`, with zeros
/// elsewhere: [coil, z * y, image x]. On CUDA they are samples along x, as there all axes are transformed together.
Array<cfloat> rows_on_grid(Context& context, const Weights& weights, DeviceView<const cfloat> half, std::int64_t planes,
                           std::int64_t lines) {
  const std::int64_t coils = weights.coils, count = weights.rows.count(), width = weights.geometry.image[2];
  Array<cfloat> e = context.allocate<cfloat>({coils, count, width});
  numerics::correct_lines(context, weights.hybrid, weights.rows, half, e.view());
  if (context.cuda()) {
    Array<cfloat> samples = context.allocate<cfloat>(e.shape());
    numerics::centered_fft(context, e.view(), samples.view(), {width}, 1, Direction::forward,
                           1.0f / static_cast<float>(width));
    e = samples;
  }
  Array<cfloat> grid = context.zeros<cfloat>({coils, planes * lines, width});
  std::vector<std::int32_t> to;  // rows as if they were of one coil
  to.reserve(static_cast<std::size_t>(coils * count));
  for (std::int64_t c = 0; c < coils; ++c)
    for (const std::int32_t row : weights.rows.rows) to.push_back(static_cast<std::int32_t>(c * planes * lines) + row);
  numerics::add_lines(context, e.view().reshaped({coils * count, 1, width}), {to.data(), {coils * count}},
                      {0, width, 0}, grid.view().reshaped({1, coils * planes * lines, width}));
  return grid;
}

/// Makes images of rows_on_grid(), on CUDA.
void transform_grid(Context& context, const Array<cfloat>& grid, std::int64_t planes, std::int64_t lines,
                    const Weights& weights, DeviceView<cfloat> to) {
  const LineGeometry& g = weights.geometry;
  numerics::centered_fft(context, grid.view().reshaped({weights.coils, planes, lines, g.image[2]}), to,
                         {g.padded[0], g.padded[1], g.image[2]}, 3, Direction::inverse, weights.scale());
}

Array<cfloat> image_on_cpu(Context& context, const Weights& weights, Array<cfloat> half) {
  const LineGeometry& g = weights.geometry;
  const Shape coils{weights.coils, g.image[0], g.image[1], g.image[2]};
  Array<cfloat> image = context.allocate<cfloat>({1, g.image[0], g.image[1], g.image[2]}), grid;
  const LineGeometry padded{g.padded, g.padded, g.image, g.direction};
  if (weights.corrected()) grid = rows_on_grid(context, weights, half.view(), g.padded[0], g.padded[1]);
  keep_lattice(context, weights, half.view());
  const auto factors = weights.factors.view();
  numerics::joined_image_from_lines(context, g, half.view(), factors.part(0, coils), weights.scale(), false,
                                    image.view());
  if (weights.corrected())
    numerics::joined_image_from_lines(context, padded, grid.view(), factors.part(coils.size(), coils), weights.scale(),
                                      true, image.view());
  return image;
}

Array<cfloat> image_on_cuda(Context& context, const Weights& weights, Array<cfloat> kspace) {
  const LineGeometry& g = weights.geometry;
  const Shape coils{weights.coils, g.image[0], g.image[1], g.image[2]};
  // Images of the lattice come first, then those of the corrections, as in `factors`.
  Array<cfloat> images = context.allocate<cfloat>(weights.factors.shape());
  if (weights.corrected()) {
    const Array<cfloat> half = half_of(context, weights, {kspace, {}});
    const Array<cfloat> grid = rows_on_grid(context, weights, half.view(), g.padded[0], g.padded[1]);
    transform_grid(context, grid, g.padded[0], g.padded[1], weights, images.view().part(coils.size(), coils));
  }
  keep_lattice(context, weights, kspace.view().reshaped({weights.coils, g.encoded[0] * g.encoded[1], g.encoded[2]}));
  numerics::centered_fft(context, kspace.view(), images.view().part(0, coils), g.padded, 3, Direction::inverse,
                         weights.scale());
  Array<cfloat> image = context.allocate<cfloat>({1, g.image[0], g.image[1], g.image[2]});
  numerics::combine(context, weights.factors.view(), images.view(), image.view(), /*divide=*/false);
  return image;
}

/// The image of one set of maps.
Array<cfloat> image_of_set(Context& context, const Weights& weights, const AcquiredRows& rows) {
  const Shape& n = weights.geometry.image;
  if (context.cuda() && !weights.lines.made()) return image_on_cuda(context, weights, rows.kspace);
  Array<cfloat> half = half_of(context, weights, rows);
  if (!weights.lines.made()) return image_on_cpu(context, weights, std::move(half));
  Array<cfloat> image = context.allocate<cfloat>({1, n[0], n[1], n[2]});
  numerics::unmix_lines(context, weights.lines, weights.hybrid, weights.rows, half.view(), image.view());
  return image;
}

}  // namespace

Array<cfloat> unmixed_image(Context& context, const Weights& weights, AcquiredRows rows) {
  if (!weights.second) return image_of_set(context, weights, rows);
  if (!context.cuda() || weights.lines.made()) rows = {{}, half_of(context, weights, rows)};
  const Shape& n = weights.geometry.image;
  Array<cfloat> images = context.allocate<cfloat>({2, n[0], n[1], n[2]});
  Array<cfloat> joined = context.allocate<cfloat>({1, n[0], n[1], n[2]});
  context.copy<cfloat>(image_of_set(context, weights, rows).cview(), images.view().part(0, joined.shape()));
  context.copy<cfloat>(image_of_set(context, *weights.second, rows).cview(),
                       images.view().part(joined.size(), joined.shape()));
  numerics::join_sets(context, images.cview(), joined.view());
  return joined;
}

Array<cfloat> filled_images(Context& context, const Weights& weights, const AcquiredRows& rows) {
  const LineGeometry& g = weights.geometry;
  Array<cfloat> images = context.allocate<cfloat>({weights.coils, g.image[0], g.image[1], g.image[2]});
  const Array<cfloat> half = half_of(context, weights, rows);
  const Array<cfloat> grid = rows_on_grid(context, weights, half.view(), g.encoded[0], g.encoded[1]);
  if (context.cuda())
    transform_grid(context, grid, g.encoded[0], g.encoded[1], weights, images.view());
  else
    numerics::images_from_lines(context, g, grid.view(), weights.scale(), false, images.view());
  return images;
}

}  // namespace echotrain
