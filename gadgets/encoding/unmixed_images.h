// Images of accelerated frames by weights that are known.
#pragma once

#include "gadgets/encoding/parallel_weights.h"

namespace echotrain {

/// The frame's image [1, z, y, x]: (1 / N) times the unmixed transform, N being the points of the encoded matrix.
/// `kspace`, [coil, z, y, x], has zeros in rows that did not come; its rows off the lattice are cleared.
Array<cfloat> unmixed_image(numerics::Context& context, const Weights& weights, Array<cfloat> kspace);

/// The images [coil, z, y, x] of the filled-in k-space, likewise; `weights` are those for coil images. What was
/// acquired stays as it is.
Array<cfloat> filled_images(numerics::Context& context, const Weights& weights, const Array<cfloat>& kspace);

}  // namespace echotrain
