#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per element of e, columns fastest, so that loads of kernels and rows are contiguous.
__global__ void correct_lines_kernel(CorrectionWork w) {
  const std::int64_t n = w.coils * w.count * w.columns;
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const std::int64_t x = i % w.columns, row = i / w.columns % w.count, c = i / w.columns / w.count;
    const std::int64_t block = x / kHybridLanes, lane = x % kHybridLanes;
    const auto value = [&](std::int64_t coil, std::int64_t acquired) {
      return reinterpret_cast<const float2*>(w.half)[(coil * w.rows + acquired) * w.columns + x];
    };
    float2 sum = w.own[row] >= 0 ? value(c, w.own[row]) : make_float2(0.0f, 0.0f);
    for (std::int32_t t = w.first[row]; t < w.first[row + 1]; ++t) {
      const LineCorrections::Term term = w.terms[t];
      const float* kernel =
          w.kernels + ((block * w.sources + term.source) * w.coils + c) * w.coils * 2 * kHybridLanes + lane;
      float2 part = make_float2(0.0f, 0.0f);
      for (std::int64_t other = 0; other < w.coils; ++other, kernel += 2 * kHybridLanes)
        part = part + make_float2(kernel[0], kernel[kHybridLanes]) * value(other, term.row);
      sum = sum + term.sign * part;
    }
    reinterpret_cast<float2*>(w.to)[i] = sum;
  }
}

}  // namespace

void correct_lines(Context& context, const CorrectionWork& work) {
  correct_lines_kernel<<<blocks_for(work.coils * work.count * work.columns), kThreads, 0, stream_of(context)>>>(work);
  check_launch("correct_lines");
}

}  // namespace echotrain::numerics::cuda
