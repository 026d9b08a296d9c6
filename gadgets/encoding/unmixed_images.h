// Images of accelerated frames by weights that are known.
#pragma once

#include "gadgets/encoding/parallel_weights.h"

namespace echotrain {

/// What came of a frame, whichever is at hand: rows as they came, [coil, z, y, x], or transformed along x and cut to
/// the image, [coil, z * y, image x]. Rows that did not come are 0.
struct AcquiredRows {
  Array<cfloat> kspace, half;
};

/// Whether unmixed_image() reads no row that did not come, whatever is in it.
inline bool reads_acquired_rows_only(const Weights& weights) { return weights.lines.made(); }

/// The frame's image [1, z, y, x]: (1 / N) times the unmixed transform, N being the points of the encoded matrix. Rows
/// off the lattice are cleared. On CUDA there must be `kspace`.
Array<cfloat> unmixed_image(numerics::Context& context, const Weights& weights, AcquiredRows rows);

/// The images [coil, z, y, x] of the filled-in k-space, likewise; `weights` are those for coil images. What was
/// acquired stays as it is.
Array<cfloat> filled_images(numerics::Context& context, const Weights& weights, const AcquiredRows& rows);

}  // namespace echotrain
