// Projectors onto eigenvectors of Hermitian matrices of some hundreds of rows, in float64 on the device.
#pragma once

#include <cuda_runtime.h>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/dense/complex_tiles_cuda.cuh"

namespace echotrain::numerics::cuda {

/// The side of tiles of Hermitian products, and the number that covers the lower triangle of a matrix.
constexpr int kHermitianTile = ComplexTile<2>::kSide;
inline unsigned hermitian_tiles(std::int64_t n) {
  const std::int64_t tiles = (n + kHermitianTile - 1) / kHermitianTile;
  return static_cast<unsigned>(tiles * (tiles + 1) / 2);
}

/// Calls put(i, j, sum over k < depth of a(i, k) b(j, k)) for the elements i >= j of tiles below the diagonal, and for
/// all elements of tiles on it; one block of kTileThreads per tile of the lower triangle.
template <class A, class B, class Put>
__global__ void __launch_bounds__(kTileThreads) lower_product(int n, int depth, A a, B b, Put put) {
  int row = 0, column = static_cast<int>(blockIdx.x);
  while (column > row) column -= ++row;
  row *= kHermitianTile;
  column *= kHermitianTile;
  ComplexTile<2> tile;
  tile.add([&](int i, int k) { return row + i < n ? a(row + i, k) : make_double2(0.0, 0.0); },
           [&](int j, int k) { return column + j < n ? b(column + j, k) : make_double2(0.0, 0.0); }, depth);
  tile.each([&](int i, int j, double2 sum) {
    if (row + i < n && column + j < n) put(row + i, column + j, sum, row != column);
  });
}

/// A factor of lower_product(): row i of a Hermitian matrix [n, n], or its column. Neighbouring threads read
/// neighbours.
struct HermitianRow {
  const double2* elements;
  int n;
  __device__ double2 operator()(int i, int k) const {
    return conjugate(elements[static_cast<std::int64_t>(k) * n + i]);
  }
};
struct HermitianColumn {
  const double2* elements;
  int n;
  __device__ double2 operator()(int j, int k) const { return elements[static_cast<std::int64_t>(k) * n + j]; }
};
/// Writes an element of a Hermitian matrix, and its mirror across the diagonal.
__device__ inline void put_hermitian(double2* elements, int n, int i, int j, double2 value, bool mirrored) {
  elements[static_cast<std::int64_t>(i) * n + j] = value;
  if (mirrored) elements[static_cast<std::int64_t>(j) * n + i] = conjugate(value);
}

/// The projector P [n, n] onto the eigenvectors of `matrix` [n, n], Hermitian and without negative eigenvalues, whose
/// eigenvalues are at least `share` of the largest, and 1e-11 of it. `matrix` is divided by *largest, its largest
/// eigenvalue; a matrix of zeros, by 1. P = (1 + sign(matrix - share)) / 2, where the sign is computed by Newton and
/// Schulz's iteration, x -> x (3 - x^2) / 2, with the argument scaled in each step as is best for the interval that
/// still has to reach 1 (Chen and Chow, "A stable scaling of Newton-Schulz for improving the sign function computation
/// of a Hermitian matrix", ANL/MCS-P5059-0114, 2014). Eigenvalues within a thousandth of `share` from it come out
/// between 0 and 1. Some 50 products of n^3 / 2 complex numbers, asynchronous; the same bits in every run.
Array<cdouble> hermitian_projector(Context& context, DeviceView<cdouble> matrix, double share, double* largest);

}  // namespace echotrain::numerics::cuda
