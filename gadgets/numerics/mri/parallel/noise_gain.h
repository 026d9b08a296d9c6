// The exact noise amplification (g-factor) of a combined image, for fixed weights.
#pragma once

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/parallel/line_correction.h"

namespace echotrain::numerics {

/// Noise maps [z, y, x] of the image.
struct NoiseGain {
  /// Standard deviation of the real part (and of the imaginary one) if that of each sample is 1 in each part. The image
  /// is 1 / N times the transform, N being the points of the encoded matrix. 0 where there is no map.
  HostArray<float> deviation;
  /// The g-factor (Pruessmann et al., MRM 42, 1999): deviation over that of full sampling, over sqrt(R), where R is the
  /// number of rows over that of the lattice rows acquired. 0 where there is no map.
  HostArray<float> g;
};

/// Computes the noise gain. Each sample enters with a known coefficient: its weight in unmixing plus that in
/// corrections (Breuer et al., MRM 62, 2009, with edges and put-back rows). conjugate: conj(u) of unmixing() or
/// unfold(); maps: as they were given there, both [coil, z, y, x]. hybrid and corrections: both null for unfold().
/// samples: the number used of each row. Noise is assumed to be white. Waits for the device: about voxels * coils^2 *
/// sources products, and voxels * coils for each part of a corrected row. Throws std::invalid_argument on shapes that
/// do not fit, for voxels larger than the encoded ones, which leave rows out, and for the forward transform.
NoiseGain noise_gain(Context& context, DeviceView<const cfloat> conjugate, DeviceView<const cfloat> maps,
                     const HybridKernels* hybrid, const LineCorrections* corrections, const RowPlan& rows,
                     const LineGeometry& geometry, std::int64_t samples);

}  // namespace echotrain::numerics
