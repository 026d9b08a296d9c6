// Images from Cartesian lines as they come: each line is transformed along x and cut to the image's columns at once, so
// that little is kept, and little is left to do after the last one. On the CPU only.
#pragma once

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::numerics {

/// Extents [z, y, x] as in centered_fft(): those of k-space, of the transform, and of the image cut from it.
struct LineGeometry {
  Shape encoded, padded, image;
  Direction direction = Direction::inverse;
};

/// half[coil, row, x] = transform along x of readouts[i, coil, placed samples], row = rows[i] = z * encoded y + y; with
/// repeated[i] it is added to the row. Readouts with rows[i] < 0 are left out, and no row comes twice. readouts:
/// [readout, coil, sample]; rows, repeated: [readout]; half: [coil, encoded z * y, image x]. Throws
/// std::invalid_argument for shapes that do not fit, and on CUDA.
void transform_lines(Context& context, const LineGeometry& geometry, DeviceView<const cfloat> readouts,
                     HostView<const std::int32_t> rows, HostView<const std::uint8_t> repeated,
                     const LinePlacement& placement, DeviceView<cfloat> half);

/// Transforms along y and z, times `scale`: after transform_lines(), `to` is what centered_fft() gives. With `combine`,
/// it is the coils' root_sum_of_squares() of that. to: [coil, z, y, x], with `combine` [1, z, y, x].
void images_from_lines(Context& context, const LineGeometry& geometry, DeviceView<const cfloat> half, float scale,
                       bool combine, DeviceView<cfloat> to);

/// Computes combine(maps, images, to, false) of these images without storing them: sum_c conj(M_c) I_c, the coils in
/// order; with `add`, added to `to`. maps: [coil, z, y, x]; to: [1, z, y, x].
void joined_image_from_lines(Context& context, const LineGeometry& geometry, DeviceView<const cfloat> half,
                             DeviceView<const cfloat> maps, float scale, bool add, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
