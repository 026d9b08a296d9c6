// Coil sensitivity maps from the images themselves, and the combination of coil images by such maps.
//
// Maps are known up to one complex factor per voxel. The magnitude of that factor is chosen so that sum_c |S_c|^2 = 1,
// its phase by a virtual coil: u, the first principal component of all coils' data (the combination with the most
// signal; Buehrer et al., MRM 57, 2007, use the same to compress arrays). sum_c conj(u_c) S_c is real and positive, so
// the maps are as smooth in phase as that coil and no phase jumps from voxel to voxel. Values that are not finite count
// as 0.
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
/// those without any signal. Does not depend on the images' scale, from 1e-35 to 1e35. The number of steps is fixed and
/// sums are ordered: the same bits in every run. Asynchronous on CUDA. Throws std::invalid_argument on shapes or
/// numbers that do not fit.
void adaptive_maps(Context& context, DeviceView<const cfloat> images, int block, DeviceView<cfloat> maps,
                   float threshold = 0);

/// out[0, v] = sum_c conj(S_c) I_c / sum_c |S_c|^2, 0 where all S_c are 0. With adaptive maps the magnitude of
/// noise-free images is that of the root sum of squares; the phase stays. maps, images: [coil, ...]; out: [1, ...].
/// Without `divide`, out is the plain sum: sum_c S_c^H I_c, the adjoint of x -> S_c x.
/// Source: Roemer et al., "The NMR phased array", MRM 16, 1990, for white noise.
void combine(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> images, DeviceView<cfloat> out,
             bool divide = true);

}  // namespace echotrain::numerics
