// The exact transform between samples anywhere in k-space and voxels: no gridding, no approximation but rounding.
//
// Sources: F^H d and Q: Stone et al., "Accelerating advanced MRI reconstructions on GPUs", JPDC 68, 2008, sec. 2.2 and
// 3; NVIDIA GPU Teaching Kit, module 15 (docs/seeds.md). Voxel grids are Cartesian, so the phase separates, and
// reflecting x makes it real: image(+x) and image(-x) are C + iS and C - iS, where C and S are real matrix products of
// cos(2 pi kx x) and sin(2 pi kx x) with d exp(2 pi i (ky y + kz z)).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The basis function of an image value: a point, or the voxel's box. Each sample is multiplied by its transform (real,
/// even): 1, or the product of sin(pi k) / (pi k) over the axes.
enum class VoxelBasis { delta, box };
double basis_transform(VoxelBasis basis, const double* k, int dims);

/// The precision of products. Groups of samples are summed in fp32 in either case. Errors are relative, L2.
///   exact: <= 5e-6. On CUDA each factor is two fp16 numbers, and each product takes three on the tensor cores.
///   fast: <= 4e-4 and, on CUDA, a third of the work: each factor is one fp16 number. On the CPU the same as exact.
enum class Precision { exact, fast };

/// One of several parts of an image: whole planes z of a volume, lines y of a plane.
struct ImagePart {
  int index = 0, count = 1;
};

/// image[c, r] = sum_s b(k_s) samples[s, c] exp(+2 pi i k_s . r), r in pixels from floor(n/2): F^H d. Samples may come
/// in any number of parts: they are summed in groups of a fixed size, so the same samples give the same bits in any
/// parts and for any number of threads.
class DirectAdjoint {
 public:
  /// `image`: extents, slowest first, 2 or 3 of them. Throws std::invalid_argument otherwise; ResourceError when the
  /// sums ([coil, image...], twice while get() runs) do not fit the budget. Only `part` is computed, with the same bits
  /// as in the whole.
  DirectAdjoint(Context& context, const Shape& image, std::int64_t coils, VoxelBasis basis = VoxelBasis::delta,
                Precision precision = Precision::exact, ImagePart part = {});
  ~DirectAdjoint();
  DirectAdjoint(DirectAdjoint&&) noexcept;
  DirectAdjoint& operator=(DirectAdjoint&&) noexcept;

  /// coordinates: float64, [n, dims] in cycles/pixel, component 0 = x; samples whose coordinates are not finite are
  /// ignored. samples: [n, coil], where the context computes. weights: [n], factors of the samples, or empty. On CUDA,
  /// returns before the work is done, but after reading the host's data; it waits for the work of earlier calls, so
  /// that little work is left to finish when the scan is to stop.
  void add(Context& context, HostView<const double> coordinates, DeviceView<const cfloat> samples,
           HostView<const float> weights = {});
  /// image: [coil, image...], overwritten with the sum of all samples added, except in other parts. More may be added
  /// afterwards.
  void get(Context& context, DeviceView<cfloat> image);
  /// The part's first voxel in each coil's image, and its number of voxels.
  std::int64_t first_voxel() const;
  std::int64_t voxels() const;
  /// Only for `fast` on CUDA: the relative error of `image`, as get() gave it, against sums in float64 at some voxels
  /// chosen at random. Waits for the device. Empty where the precision loses nothing.
  std::optional<double> sampled_error(Context& context, DeviceView<const cfloat> image) const;
  std::int64_t samples() const;  ///< samples added so far

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// The adjoint at voxels anywhere: out[c, v] = sum_s b(k_s) samples[s, c] exp(+2 pi i k_s . r_v). voxels: float64,
/// [voxel, dims] in pixels; out: [coil, voxel]. Plain sums, for voxels that form no grid.
void direct_adjoint_at(Context& context, HostView<const double> coordinates, DeviceView<const cfloat> samples,
                       HostView<const double> voxels, VoxelBasis basis, DeviceView<cfloat> out);

/// The point spread function q, whose convolution is F^H W F: q[l] = sum_s w_s b(k_s)^2 exp(+2 pi i k_s . l) for the
/// lags l = -n+1 .. n-1 of each axis; lags -n are 0. weights: [n] or empty (all 1). q: [2n...] in FFT order (lag 0
/// first), Hermitian: half of it is computed. Its error is that of DirectAdjoint.
void point_spread(Context& context, HostView<const double> coordinates, HostView<const float> weights,
                  const Shape& image, VoxelBasis basis, DeviceView<cfloat> q, Precision precision = Precision::exact);

}  // namespace echotrain::numerics
