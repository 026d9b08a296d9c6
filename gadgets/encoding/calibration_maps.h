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

/// Makes ESPIRiT's maps, [set * coil, z, y, x], 0 where no pattern of sensitivities explains the data; `sets` as in
/// numerics::EspiritOptions. As its matrices grow with the square of the coils, more than kMostEspirit2D or
/// kMostEspirit3D are first compressed to so many (Buehrer et al., MRM 57, 2007), and the maps of these virtual coils V
/// made into those of the coils, V^H S: unfolding with them is unfolding the compressed data. Waits for the device.
/// Throws std::invalid_argument where the block is too small.
Array<cfloat> espirit_maps_of(numerics::Context& context, const Calibration& calibration,
                              const numerics::LineGeometry& geometry, std::int64_t sets);
inline constexpr std::int64_t kMostEspirit2D = 32, kMostEspirit3D = 24;

}  // namespace echotrain
