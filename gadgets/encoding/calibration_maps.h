// Coil sensitivities from blocks of reference lines.
#pragma once

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/transforms/fft/line_images.h"

namespace echotrain {

/// Makes maps [coil, z, y, x] of geometry.image, with sum_c |S_c|^2 = 1, or 0 where there is no signal. They serve the
/// combination of coils: Walsh's adaptive maps (numerics/mri/coils/coil_maps.h) of the middle of the block, on a grid
/// of twice its resolution, interpolated to the image, which is cheap for any image. Asynchronous on CUDA.
Array<cfloat> adaptive_maps_of(numerics::Context& context, const Calibration& calibration,
                               const numerics::LineGeometry& geometry);

/// Makes ESPIRiT's maps, 0 where no pattern of sensitivities explains the data, for up to kMostEspirit2D or
/// kMostEspirit3D coils, as its matrices grow with the square of these. Waits for the device, and finds the kernels on
/// the host. Throws std::invalid_argument where the block is too small.
Array<cfloat> espirit_maps_of(numerics::Context& context, const Calibration& calibration,
                              const numerics::LineGeometry& geometry);
inline constexpr std::int64_t kMostEspirit2D = 32, kMostEspirit3D = 24;

}  // namespace echotrain
