// Passes over the lines of an axis, from which the Toeplitz step on CUDA is made.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace echotrain::numerics::cuda {

/// The extents M that have kernels, ascending: multiples of 16, as blocks take 16 or 32 lines of the 2M that an axis
/// has.
#define ECHOTRAIN_TOEPLITZ_LINES(call) \
  call(16) call(32) call(48) call(64) call(80) call(96) call(128) call(160) call(192) call(256) call(320)

/// The operations of AroundApply, for the first item of a pass.
struct BeforePass {
  const float2* r = nullptr;  ///< nullptr: no operation before
  const float* factor = nullptr;
  const float* beta = nullptr;
  std::int64_t beta_stride = 0;
};
struct AfterPass {
  float shift = 0;
  double* product = nullptr;  ///< nullptr: no product
  double* partial = nullptr;
  std::int32_t* arrived = nullptr;
};

/// One pass over lines of an axis. Each kernel says which members it uses.
struct LinePass {
  const float2* from = nullptr;
  float2* to = nullptr;
  const float2* roots = nullptr;  ///< exp(-i pi j / M), j < 2M
  int n = 0;                      ///< points of the axis that are not zero
  std::int64_t lines = 0;         ///< rows; for columns: lines side by side
  std::int64_t items = 1;         ///< for columns: number of such sets of lines
  const float* spectrum = nullptr;
  const float2* maps = nullptr;
  std::int64_t image_rows = 0;  ///< rows of one coil
  std::int64_t coils = 1;
  bool add = false;
  float2* along = nullptr;  ///< x of AroundApply; before: equal to `from`
  BeforePass before;
  AfterPass after;
  int parts = 1;  ///< addends of `from`, one set of items after the other
};

using LineLaunch = void (*)(const LinePass&, cudaStream_t);
/// The kernels for one extent.
struct LineKernels {
  LineLaunch rows_forward, rows_inverse, columns_forward, columns_inverse, columns_around;
};
/// The kernels for M, which is one of ECHOTRAIN_TOEPLITZ_LINES.
template <int M>
LineKernels line_kernels();

// The passes over planes of a volume, each plane in the shared memory of one block: the first axis is a pass before and
// one after them.

/// The extents M that both axes of a plane may have.
#define ECHOTRAIN_TOEPLITZ_PLANES(call) call(64) call(96) call(128)
#define ECHOTRAIN_TOEPLITZ_ACROSS(call) call(32) call(48) call(64) call(96) call(128)

/// The number of blocks that take the lines of an item along the first axis, and of its partial sums.
constexpr std::int64_t across_tiles(std::int64_t lines) { return (lines + 15) / 16; }

/// A pass along both axes of all planes: forward, times the spectrum, and back.
struct PlanePass {
  const float2* from = nullptr;  ///< [items, planes, ny, nx]
  float2* to = nullptr;          ///< as `from`; with two parts: [2, items, planes, ny, nx], which the next pass adds
  const float2* roots = nullptr;
  int ny = 0, nx = 0;
  unsigned planes = 0, items = 0, parts = 1;
  const float* spectrum = nullptr;  ///< spectrum of each plane in the order in which threads need it (PlaneOrder)
};

/// The order of the numbers of a plane's spectrum: [parity of x, parity of y, groups of four columns, quarters of a
/// thread's numbers, 32 threads, 4]. A group of columns is one warp's, column = thread % 4; thread / 4 is the thread's
/// number in the line.
struct PlaneOrder {
  int m = 0, r1 = 0, r2 = 0;  ///< the extent, 0: planes are not in this order; its factors
  __host__ __device__ constexpr int of_thread() const { return (r1 + r2 - 1) / r2 * r2; }
  __host__ __device__ constexpr std::int64_t size() const { return std::int64_t{32} * m * of_thread(); }
  /// Finds the frequencies [2M, 2M] in FFT order that belong to element i. Returns false if the element is not used.
  __host__ __device__ bool frequency(std::int64_t i, std::int64_t& y, std::int64_t& x) const {
    const int lane = static_cast<int>(i / 4 % 32), e = static_cast<int>(i / 128 % (of_thread() / 4) * 4 + i % 4);
    const std::int64_t rest = i / (32 * of_thread());
    const int group = static_cast<int>(rest % (m / 4)), parities = static_cast<int>(rest / (m / 4));
    const int k1 = lane / 4 + r2 * (e / r2);
    y = 2 * (k1 + r1 * (e % r2)) + parities % 2;
    x = 2 * (4 * group + lane % 4) + parities / 2;
    return k1 < r1;
  }
};

using PlaneLaunch = void (*)(const PlanePass&, cudaStream_t);
struct PlaneKernels {
  PlaneLaunch around = nullptr;
  PlaneOrder order;
  int shared_bytes = 0;  ///< shared memory of a block; not every device has as much
};
/// The kernels for M, which is one of ECHOTRAIN_TOEPLITZ_PLANES.
template <int M>
PlaneKernels plane_kernels();
/// Kernels along the first axis, from images times their maps, where there are some, to planes; and back, adding up the
/// coils. They are as columns_forward and columns_inverse, for any number of lines, and with `before` and `after`.
struct AcrossKernels {
  LineLaunch forward = nullptr, inverse = nullptr;
};
/// The kernels for M, which is one of ECHOTRAIN_TOEPLITZ_ACROSS.
template <int M>
AcrossKernels across_kernels();

}  // namespace echotrain::numerics::cuda
