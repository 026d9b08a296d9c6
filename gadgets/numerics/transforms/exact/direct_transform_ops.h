// The direct transform's parts for each backend; arguments were checked. All pointers are to memory where the context
// computes.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"

namespace echotrain::numerics {

/// Samples are added in groups of this size, from the first sample on, so that sums do not depend on the parts they
/// come in.
constexpr std::int64_t kDirectGroup = 256;

/// The voxels: columns (z, y), of which `first_column` .. `last_column` - 1 (0: all to the end) are computed, times
/// rows along x, cosines and then sines.
struct DirectGrid {
  std::int64_t nx = 1, ny = 1, nz = 1, first_column = 0, last_column = 0;
  std::int64_t coils = 1;
  int dims = 2;
  Precision precision = Precision::exact;
  std::int64_t columns() const { return (last_column > 0 ? last_column : ny * nz) - first_column; }
  std::int64_t cosines() const { return (nx + 1) / 2; }
  /// Position of row i of the half range. With even nx voxels are moved by half a pixel to be symmetric.
  double half_position(std::int64_t i) const {
    return nx % 2 == 0 ? static_cast<double>(i) + 0.5 : static_cast<double>(i);
  }
  double shift() const { return nx % 2 == 0 ? -0.5 : 0.0; }  ///< a shift along x, which the samples' factors undo
};

/// The factors of samples: weight b(k)^power exp(2 pi i kx shift).
struct SampleFactors {
  int dims = 2;
  VoxelBasis basis = VoxelBasis::delta;
  int power = 1;
  double shift = 0;
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// The number of floats in `sums` that direct_add() and direct_get() use; they start as 0.
std::int64_t direct_sums(Context& context, const DirectGrid& grid);
/// coordinates: [n, dims]; samples: [n, coil], times their factors; n is a multiple of kDirectGroup, or these are the
/// last samples.
void direct_add(Context& context, const DirectGrid& grid, const double* coordinates, const cfloat* samples,
                std::int64_t n, float* sums);
/// image: [coil, z, y, x]; only the columns first_column .. last_column - 1 are written.
void direct_get(Context& context, const DirectGrid& grid, const float* sums, cfloat* image);
/// sums[coil, v] += sum_s samples[s, coil] exp(2 pi i k_s . r_v) in float64. voxels: [count, dims].
void direct_at(Context& context, int dims, const double* coordinates, const cfloat* samples, std::int64_t n,
               std::int64_t coils, const double* voxels, std::int64_t count, cdouble* sums);
/// out[i] = sums[i], rounded.
void round_sums(Context& context, const cdouble* sums, std::int64_t n, cfloat* out);
/// out[coil, i] = image[coil, chosen[i]]. chosen: [count].
void pick_voxels(Context& context, const cfloat* image, std::int64_t voxels, std::int64_t coils,
                 const std::int64_t* chosen, std::int64_t count, cfloat* out);
/// Multiplies samples [n, coil] by their factors. weights: [n], or null. A sample whose coordinates are not finite gets
/// coordinates and values of 0.
void weigh_samples(Context& context, const SampleFactors& factors, const float* weights, std::int64_t n,
                   std::int64_t coils, double* coordinates, cfloat* samples);
/// Fills the other half of a Hermitian [z, y, x], centred at floor(n/2) with even extents: the value at -l, where l is
/// the lag of the two whose first number other than 0 is positive, is the conjugate of that at l; that at 0 is real;
/// lags -n become 0. Then moves lag 0 to the front. half: the columns from first_column on.
void fill_hermitian(Context& context, const DirectGrid& grid, const cfloat* half, cfloat* q);
)
// clang-format on

}  // namespace echotrain::numerics
