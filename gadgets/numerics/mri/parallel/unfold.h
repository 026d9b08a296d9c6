// SENSE unfolding of regular lattices, voxel by voxel.
#pragma once

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/parallel/lattice.h"
#include "gadgets/numerics/transforms/fft/line_images.h"

namespace echotrain::numerics {

/// The most aliases of a voxel, itself included (one for each R); larger factors are refused.
inline constexpr std::int64_t kMostAliases = 16;

/// Returns conj(u), [coil, z, y, x], as unmixing() does, but from sensitivities alone: the image sum_c u_c A_c, where
/// A_c are the images of the lattice's rows with zeros for all others, is the least-squares solution of A_c = 1/R sum
/// of S_c(r') rho(r') (times a phase) over all voxels r' that fold onto r, with Tikhonov's `lambda`, 0..1, as a share
/// of the largest diagonal element. Voxels whose maps are 0, or that are outside the image, count as empty.
///
/// maps: [coil, z, y, x] of geometry.image, or [set * coil, z, y, x]: the images of several sets then add up to A_c
/// (soft SENSE: Uecker et al., MRM 71, 2014), and the weights are those of the image of set `of`. Works on the host in
/// float64 and waits for the device. Source: Pruessmann et al., "SENSE", MRM 42, 1999; CAIPIRINHA's folding: Breuer et
/// al., MRM 55, 2006. Throws std::invalid_argument where padded y and z are not whole multiples of the folding, where R
/// is more than kMostAliases, and on shapes or numbers that do not fit.
Array<cfloat> unfold(Context& context, DeviceView<const cfloat> maps, const Lattice& lattice,
                     const LineGeometry& geometry, double lambda, std::int64_t sets = 1, std::int64_t of = 0);

}  // namespace echotrain::numerics
