// Coil sensitivity maps from the data themselves, and the combination of coil images by such maps.
//
// Maps are known up to one complex factor per voxel. Its magnitude is chosen so that sum_c |S_c|^2 = 1, its phase by a
// virtual coil: u, the first principal component of all coils' data (the combination with the most signal; Buehrer et
// al., MRM 57, 2007, use the same to compress arrays). sum_c conj(u_c) S_c is real and positive, so the maps are as
// smooth in phase as that coil and no phase jumps from voxel to voxel. Values that are not finite count as 0.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

inline constexpr int kMostBlock = 31;

/// Walsh, Gmitro, Marcellin, "Adaptive reconstruction of phased array MR imagery", MRM 43, 2000: S(v) is the dominant
/// eigenvector of the local coil covariance R(v) = sum I(u) I(u)^H over `block`^3 voxels u about v (block^2 where an
/// axis has one voxel), cut at the image's edges; by 8 power iterations from I(v), about 1e-3 where one coil pattern
/// has four times the others' energy or more.
///
/// images, maps: [coil, z, y, x]. block: 1..kMostBlock; an even one reaches one voxel further towards the start. Voxels
/// whose local mean power tr R / |block| lies below `threshold`^2 times its largest value get 0; with threshold 0 only
/// those without any signal. Does not depend on the images' scale, from 1e-35 to 1e35. Fixed number of steps, ordered
/// sums: the same bits in every run. Asynchronous on CUDA. std::invalid_argument on shapes or numbers that do not fit.
void adaptive_maps(Context& context, DeviceView<const cfloat> images, int block, DeviceView<cfloat> maps,
                   float threshold = 0);

/// out[0, v] = sum_c conj(S_c) I_c / sum_c |S_c|^2, 0 where all S_c are 0. With adaptive maps the magnitude of
/// noise-free images is that of the root sum of squares; the phase stays. maps, images: [coil, ...]; out: [1, ...].
/// Without `divide`, out is the plain sum: sum_c S_c^H I_c, the adjoint of x -> S_c x.
/// Source: Roemer et al., "The NMR phased array", MRM 16, 1990, for white noise.
void combine(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> images, DeviceView<cfloat> out,
             bool divide = true);

struct EspiritOptions {
  std::int64_t calibration = 24;  ///< extent of the central region of k-space used, per axis (cut to what there is)
  std::int64_t kernel = 0;        ///< extent of the kernels, per axis; 0: 6 for 2D, 4 for 3D
  double threshold = 0.02;        ///< smallest singular value of the signal's space, as a share of the largest
  double crop = 0.8;              ///< maps are 0 where the eigenvalue is less: where no pattern explains the data
  std::int64_t sets = 1;          ///< 1 or 2
};

/// Maps of ESPIRiT (Uecker et al., MRM 71, 2014): the kernels that span the calibration data's patches
/// (the calibration matrix's right singular vectors, from the eigen-decomposition of its Gram matrix in float64 on the
/// host) make an operator that is a small Hermitian matrix M(v) in each voxel; S(v) is its eigenvector of eigenvalue 1.
/// 40 power iterations. A second set holds, where a second eigenvalue is not below `crop` either, an eigenvector
/// orthogonal to the first: where the object is larger than the field of view, two places of it fold into one voxel,
/// and the two vectors span both places' sensitivities. Its phase may jump from voxel to voxel.
///
/// kspace: [coil, z, y, x], where the context computes, centre at floor(n/2), fully sampled in the middle; its field of
/// view is that of maps: [set * coil, z, y, x], whatever its matrix. An axis of one sample must have one voxel. (From
/// images: centered_fft(images, kspace, the images' extents, dims, forward, 1) gives their central k-space.) Waits for
/// the device, copies the k-space to the host and works there for about (coils kernel^dims / 500)^3 seconds, in memory
/// that the context's account pays for. Maps are 0 in all voxels when the calibration data are 0. std::invalid_argument
/// on shapes or numbers that do not fit.
void espirit_maps(Context& context, DeviceView<const cfloat> kspace, const EspiritOptions& options,
                  DeviceView<cfloat> maps);

}  // namespace echotrain::numerics
