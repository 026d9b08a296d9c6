// The error of a NUFFT's answer is relative: ||got - truth|| / ||truth|| over all coils.
#pragma once

#include <vector>

#include "tests/bench/nufft/nufft_cases.h"

namespace echotrain::bench {

/// Voxels of a 3D image, and samples of a forward transform, that are looked at: chosen at random, the same in every
/// run.
inline constexpr int kCheckedPoints = 4096;

/// Returns the error of images [coil, image...] made from `samples` [sample, coil]. 2D: every voxel, against
/// DirectAdjoint on the same backend (itself within 1.3e-6 of float64). 3D: at kCheckedPoints voxels, against a sum in
/// float64.
double adjoint_error(numerics::Context& context, const NufftCase& which, const std::vector<double>& coordinates,
                     const std::vector<numerics::cfloat>& samples, numerics::DeviceView<const numerics::cfloat> images);
/// Returns the error of samples [sample, coil] made from `images` [coil, image...], at kCheckedPoints samples, against
/// a sum in float64.
double forward_error(numerics::Context& context, const NufftCase& which, const std::vector<double>& coordinates,
                     const std::vector<numerics::cfloat>& images, numerics::DeviceView<const numerics::cfloat> samples);

}  // namespace echotrain::bench
