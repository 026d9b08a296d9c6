// GRAPPA in image space (unmixing): a frame then costs one transform and one sum over coils.
#pragma once

#include "gadgets/numerics/mri/parallel/hybrid_kernels.h"

namespace echotrain::numerics {

/// Returns conj(u), [coil, z, y, x], where the image sum_c S_c^H I_c of the filled-in coil images I_c is sum_c u_c A_c,
/// and A_c are the images of the rows on the lattice alone, with zeros for all others. numerics::combine(conj(u), A,
/// image, divide = false) applies it. Kernels are periodic here; correct_lines() mends their errors near the edges of
/// k-space, and rows that are put back.
///
/// maps: [coil, z, y, x] of geometry.image, with sum_c |S_c|^2 = 1 or 0. Asynchronous on CUDA.
/// Source: Breuer et al., "General formulation for quantitative g-factor calculation in GRAPPA reconstructions", MRM
/// 62, 2009. Throws std::invalid_argument on shapes that do not fit.
Array<cfloat> unmixing(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                       DeviceView<const cfloat> maps, const LineGeometry& geometry);

}  // namespace echotrain::numerics
