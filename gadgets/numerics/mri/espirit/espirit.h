// ESPIRiT: coil sensitivity maps from the middle of k-space. Their magnitude and phase are chosen as in coil_maps.h.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct EspiritOptions {
  std::int64_t calibration = 24;  ///< extent of the central region of k-space used, per axis (cut to what there is)
  std::int64_t kernel = 0;        ///< extent of the kernels, per axis; 0: 6 for 2D, 4 for 3D
  double threshold = 0.02;        ///< smallest singular value of the signal's space, as a share of the largest
  double crop = 0.8;              ///< maps are 0 where the eigenvalue is less, because no pattern explains the data
                                  ///< there
  std::int64_t sets = 1;          ///< 1 or 2; kSetsAsNeeded: those that needs_second_set() (espirit_sets.h) asks for
};
inline constexpr std::int64_t kSetsAsNeeded = 0;

/// Computes the maps of ESPIRiT (Uecker et al., MRM 71, 2014): the kernels that span the calibration data's patches
/// (the calibration matrix's left singular vectors, by the smaller of its two Gram matrices in float64: their
/// eigenvectors on the CPU, the projector onto these on CUDA) make an operator that is a small Hermitian matrix M(v) in
/// each voxel; S(v) is its eigenvector of eigenvalue 1. Up to 40 power iterations, fewer where a step changes it by
/// less than 1e-6. A second set holds, where a second eigenvalue is not below `crop` either, an eigenvector orthogonal
/// to the first: where the object is larger than the field of view, two places of it fold into one voxel, and the two
/// vectors span both places' sensitivities. Its phase may jump from voxel to voxel.
///
/// kspace: [coil, z, y, x], where the context computes, centre at floor(n/2), fully sampled in the middle; its field of
/// view is that of maps: [set * coil, z, y, x], whatever its matrix. An axis of one sample must have one voxel. (From
/// images: centered_fft(images, kspace, the images' extents, dims, forward, 1) gives their central k-space.) The CPU
/// backend takes about (n / 1000)^3 s of one core, where n is the smaller of coils kernel^dims and the number of
/// patches, in memory that the context's account pays for. Asynchronous on CUDA. On CUDA, singular values within a
/// thousandth of the threshold count in part, and those below 3e-6 do not count. Maps are 0 in all voxels when the
/// calibration data are 0. Throws std::invalid_argument on shapes or numbers that do not fit.
/// Here, kSetsAsNeeded is among them.
void espirit_maps(Context& context, DeviceView<const cfloat> kspace, const EspiritOptions& options,
                  DeviceView<cfloat> maps);

/// Returns such maps of an image [z, y, x]. With kSetsAsNeeded it waits for the device, and chooses the number of sets
/// before the maps are made: those of one set have the bits of espirit_maps() with sets = 1.
Array<cfloat> espirit_maps(Context& context, DeviceView<const cfloat> kspace, const EspiritOptions& options,
                           const Shape& image);

}  // namespace echotrain::numerics
