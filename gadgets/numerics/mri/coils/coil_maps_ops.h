// The voxel-wise work of coil maps on each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"

namespace echotrain::numerics {

/// Hermitian matrices are kept as their lower triangles: element (a, b), b <= a, by rows.
ECHOTRAIN_HOST_DEVICE inline std::int64_t triangle_index(std::int64_t a, std::int64_t b) { return a * (a + 1) / 2 + b; }
inline std::int64_t triangle_size(std::int64_t n) { return n * (n + 1) / 2; }

/// Steps of the power iteration that finds the virtual coil, and that of the voxels' eigenvectors.
constexpr int kReferenceIterations = 100;
constexpr int kAdaptiveIterations = 8;
constexpr int kEspiritIterations = 40;

/// Default start of iterations [turns]: quadratic phase, to which no array's pattern is orthogonal.
ECHOTRAIN_HOST_DEVICE inline double start_turns(std::int64_t coil) {
  return 0.1 * static_cast<double>(coil * coil % 1000) + 0.31 * static_cast<double>(coil % 1000);
}

struct AdaptiveMaps {
  const cfloat* images;
  std::int64_t coils;
  Extents n;
  std::int64_t before, after;  ///< voxels of the block on either side of its middle voxel
  float threshold;
  cfloat* maps;
};

/// Eigenvectors of given matrices.
struct EigenMaps {
  const cfloat* matrices;  ///< [triangle_size(coils), voxels]
  std::int64_t coils, voxels;
  const cfloat* start;      ///< [coils]
  const cfloat* reference;  ///< [coils]: the virtual coil
  float crop;               ///< eigenvalues below it give 0
  cfloat* maps;             ///< coil c has its voxels from maps + c * stride on
  std::int64_t stride;
};

/// One step from one set of maps to the next (deflation).
struct Deflation {
  cfloat* matrices;  ///< [triangle_size(coils), voxels]
  std::int64_t coils, voxels;
  const cfloat* vectors;  ///< [coils, voxels], of unit length or 0
  float crop;             ///< eigenvalues below it give 0
  cfloat* maps;           ///< coil c has its voxels from maps + c * stride on
  std::int64_t stride;
};

/// With l = v^H M v: maps = v where l is at least crop, else 0; M -= l v v^H.
void deflate(Context& context, const Deflation& work);

// clang-format off
ECHOTRAIN_BACKENDS(
void adaptive_maps(Context& context, const AdaptiveMaps& work);
void eigen_maps(Context& context, const EigenMaps& work);
)
// clang-format on

namespace cuda {
/// *scale: the power of two that makes the largest value, of either sign, 1..2; 1 for zeros.
Array<float> unit_scale(Context& context, DeviceView<const cfloat> values);
/// principal_component() of values [coil, sample] * *scale, across coils: [coil].
Array<cfloat> virtual_coil(Context& context, DeviceView<const cfloat> values, const float* scale);
}  // namespace cuda

/// The dominant eigenvector of a Hermitian matrix (lower triangle) by kReferenceIterations power iterations from
/// start_turns(), of unit length; start_turns() itself for a matrix of zeros.
void principal_component(const cdouble* triangle, std::int64_t n, cfloat* vector);

}  // namespace echotrain::numerics
