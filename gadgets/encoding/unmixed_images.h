// Images of accelerated frames by given unmixing weights.
#pragma once

#include "gadgets/encoding/parallel_weights.h"

namespace echotrain {

/// The rows of a frame in the form at hand: as they came, [coil, z, y, x], or transformed along x and cut to the image,
/// [coil, z * y, image x]. Missing rows are 0.
struct AcquiredRows {
  Array<cfloat> kspace, half;
};

/// True if unmixed_image() reads no missing row, so that these may hold anything.
inline bool reads_acquired_rows_only(const Weights& weights) { return weights.lines.made(); }

/// Makes the frame's image [1, z, y, x]: (1 / N) times the unmixed transform, N being the points of the encoded matrix.
/// Images of two sets of maps are joined (numerics::join_sets()).
/// Rows off the lattice are cleared. On CUDA there must be `kspace`.
Array<cfloat> unmixed_image(numerics::Context& context, const Weights& weights, AcquiredRows rows);

/// Makes the images [coil, z, y, x] of the filled-in k-space, likewise; `weights` are those for coil images. Acquired
/// rows keep their values.
Array<cfloat> filled_images(numerics::Context& context, const Weights& weights, const AcquiredRows& rows);

}  // namespace echotrain
