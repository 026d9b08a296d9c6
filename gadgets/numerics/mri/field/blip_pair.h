// The distortion of echo-planar images from a pair with opposite phase-encoding blips.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct BlipPairOptions {
  double smoothness = 0.02;  ///< weight of the shift's squared gradient beside the squared difference of the images
};

/// The distance of the images: the norm of their difference over that of their mean.
struct BlipPairFacts {
  double before = 0, after = 0;  ///< before and after the correction of both
};

/// shift[z, y, x] in voxels along y, such that (1 + s') up[y + s] = (1 - s') down[y - s], s' = d s/dy: both are the
/// object without distortion, and unwarp() (gadgets/numerics/mri/field/unwarp.h) makes it of `up` with s, of `down`
/// with -s. On the host, in float64; the same bits for any number of threads.
///
/// Opposite blips move signals in opposite directions (Chang & Fitzpatrick, IEEE TMI 11:319, 1992; Andersson et al.,
/// NeuroImage 20:870, 2003). The shift minimises half the sum of squared differences of both sides, of images whose
/// 99th percentile, of values above 0, is 1, plus half the smoothness times |grad s|^2 (Ruthotto et al., Phys Med Biol
/// 57:5715, 2012): by Gauss-Newton steps, each solved by conjugate gradients and shortened until it helps, with images
/// that are smoothed less and less. s' stays within (-1, 1), beyond which signals pile up and no pair tells them apart.
///
/// up, down: magnitudes [z, y, x]. Throws std::invalid_argument on shapes that do not fit and on values that are not
/// finite. Images without signal give 0. Throws Stopped.
BlipPairFacts blip_shift(ThreadPool& threads, HostView<const float> up, HostView<const float> down,
                         const BlipPairOptions& options, HostView<float> shift);

}  // namespace echotrain::numerics
