// The bias field of an image, found without any other image.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct BiasFieldOptions {
  int levels = 4;              ///< the spline's spans per axis are doubled so often, from one on
  int iterations = 50;         ///< at most, per level
  double least_change = 1e-3;  ///< relative standard deviation of a change of the field that ends a level
  double threshold = 0.1;      ///< voxels below this part of the 99th percentile are not looked at
  std::int64_t most_voxels_2d = 128 * 128, most_voxels_3d = 1 << 17;  ///< larger images are thinned out for the fit
};

/// Facts about the computation of a field, for the user.
struct BiasFieldFacts {
  std::int64_t voxels = 0;  ///< that the field was fitted to; 0: there is no signal, and the field is 1
  std::int64_t iterations = 0;
  double spread = 0;  ///< standard deviation of the field over its mean, over these voxels
};

/// field[r] = the factor by which the image is too bright at r, with a mean of 1 where there is signal: N4 (Tustison et
/// al., IEEE TMI 29(6), 2010). The logarithm of the image less that of its sharpened values (histogram_sharpening.h:
/// 200 bins, width 0.15, noise 0.01) is approximated by cubic B-splines (spline_lattice.h), and added to the field,
/// again and again, on finer and finer splines. magnitude, field: [z, y, x]. In float64; waits for the device.
///
/// Each n-th voxel of an axis is looked at, so that at most as many as the options allow are left; picking them keeps
/// the histogram, which means would blur. Throws std::invalid_argument on wrong shapes, and on values that are not
/// finite.
BiasFieldFacts bias_field(Context& context, DeviceView<const float> magnitude, const BiasFieldOptions& options,
                          DeviceView<float> field);

}  // namespace echotrain::numerics
