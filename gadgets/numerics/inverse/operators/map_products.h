// Products of images with coil maps, and their adjoint, for one or several sets of maps.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// of_coils[f, c, v] = sum_i maps[i, c, v] x[f, i, v]: the coils' images of one image, or of several that add up (sets
/// of maps as ESPIRiT gives them, Uecker et al., MRM 71, 2014). maps: [set * coil, image...]; x: [frame * set,
/// image...]; of_coils: [frame * coil, image...], not the same memory. Asynchronous on CUDA; sums are ordered. Throws
/// std::invalid_argument on shapes that do not fit.
void spread_to_coils(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                     DeviceView<cfloat> of_coils, std::int64_t sets = 1);

/// The adjoint of spread_to_coils(): x[f, i, v] = sum_c conj(maps[i, c, v]) of_coils[f, c, v].
void gather_from_coils(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> of_coils,
                       DeviceView<cfloat> x, std::int64_t sets = 1);

/// Joins the images of all sets: the root of the sum of their squared magnitudes, with the first one's phase, or real
/// where that is 0. x: [set, image...]; joined: [1, image...]. Asynchronous on CUDA. Throws std::invalid_argument on
/// shapes that do not fit.
void join_sets(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> joined);

}  // namespace echotrain::numerics
