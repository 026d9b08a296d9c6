// The direct transform's parts for each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/direct_transform.h"

namespace echotrain::numerics {

/// Samples that are summed in registers before they are added to the sums: fp32 keeps 1e-6 for any number of groups
/// met in a scan.
constexpr std::int64_t kDirectGroup = 128;

/// The voxels: columns (z, y), of which `first_column` .. are worked out, times rows along x, cosines and then sines.
struct DirectGrid {
  std::int64_t nx = 1, ny = 1, nz = 1, first_column = 0;
  std::int64_t coils = 1;
  int dims = 2;
  std::int64_t columns() const { return ny * nz - first_column; }
  std::int64_t cosines() const { return (nx + 1) / 2; }
  /// Position of row i of the half range. With even nx voxels are moved by half a pixel to be symmetric.
  double half_position(std::int64_t i) const {
    return nx % 2 == 0 ? static_cast<double>(i) + 0.5 : static_cast<double>(i);
  }
};

/// Floats of `sums` that direct_add() and direct_get() use; they start as 0.
namespace cpu {
std::int64_t direct_sums(const DirectGrid& grid);
/// coordinates: host, [n, dims]; samples: [n, coil], b(k) and the half pixel included; n is a multiple of kDirectGroup,
/// or the samples are the last.
void direct_add(Context& context, const DirectGrid& grid, const double* coordinates, const cfloat* samples,
                std::int64_t n, float* sums);
/// image: [coil, z, y, x]; columns before first_column are left alone.
void direct_get(Context& context, const DirectGrid& grid, const float* sums, cfloat* image);
void direct_at(Context& context, int dims, const double* coordinates, const cfloat* samples, std::int64_t n,
               std::int64_t coils, const double* voxels, std::int64_t count, cfloat* out);
/// samples[s, c] *= factors[s]; factors: host.
void scale_samples(Context& context, const cfloat* factors, std::int64_t n, std::int64_t coils, cfloat* samples);
/// Fills the other half of a Hermitian [z, y, x], centred at floor(n/2) with even extents: the value at -l is the
/// conjugate of that at l; lags -n become 0. Then moves lag 0 to the front.
void fill_hermitian(Context& context, const DirectGrid& grid, const cfloat* half, cfloat* q);
}  // namespace cpu
namespace cuda {
std::int64_t direct_sums(const DirectGrid& grid);
void direct_add(Context& context, const DirectGrid& grid, const double* coordinates, const cfloat* samples,
                std::int64_t n, float* sums);
void direct_get(Context& context, const DirectGrid& grid, const float* sums, cfloat* image);
void direct_at(Context& context, int dims, const double* coordinates, const cfloat* samples, std::int64_t n,
               std::int64_t coils, const double* voxels, std::int64_t count, cfloat* out);
void scale_samples(Context& context, const cfloat* factors, std::int64_t n, std::int64_t coils, cfloat* samples);
void fill_hermitian(Context& context, const DirectGrid& grid, const cfloat* half, cfloat* q);
}  // namespace cuda

}  // namespace echotrain::numerics
