// Passes over the lines of an axis, which the Toeplitz step on CUDA is made of.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace echotrain::numerics::cuda {

/// The extents M that there are kernels for, ascending: multiples of 16, as blocks take 16 or 32 lines of the 2M that
/// an axis has.
#define ECHOTRAIN_TOEPLITZ_LINES(call) \
  call(16) call(32) call(48) call(64) call(80) call(96) call(128) call(160) call(192) call(256) call(320)

/// One pass over lines of an axis. Each kernel says which members it uses.
struct LinePass {
  const float2* from = nullptr;
  float2* to = nullptr;
  const float2* roots = nullptr;  ///< exp(-i pi j / M), j < 2M
  int n = 0;                      ///< points of the axis that are not zero
  std::int64_t lines = 0;         ///< rows; of columns: side by side
  std::int64_t items = 1;         ///< of columns: such sets of lines
  const float* spectrum = nullptr;
  const float2* maps = nullptr;
  std::int64_t image_rows = 0;  ///< rows of one coil
  std::int64_t coils = 1;
  bool add = false;
};

using LineLaunch = void (*)(const LinePass&, cudaStream_t);
/// The kernels for one extent.
struct LineKernels {
  LineLaunch rows_forward, rows_inverse, columns_forward, columns_inverse, columns_around;
};
/// The kernels for M, which is one of ECHOTRAIN_TOEPLITZ_LINES.
template <int M>
LineKernels line_kernels();

}  // namespace echotrain::numerics::cuda
