// Ordered sums on CUDA, for the reductions and for kernels that compute what they sum.
#pragma once

#include <algorithm>
#include <cub/block/block_reduce.cuh>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/reduce/reductions_ops.h"

namespace echotrain::numerics::cuda {

struct Join {
  template <class Value>
  __device__ Value operator()(Value a, const Value& b) const {
    a.join(b);
    return a;
  }
};

/// Joins the values of all threads of a block, in a fixed order; the result is valid in thread 0. Blocks have `threads`
/// threads, all of which call it. It may be called again and again.
template <int threads = kThreads, class Value>
__device__ Value block_join(const Value& value) {
  using Block = cub::BlockReduce<Value, threads>;
  __shared__ typename Block::TempStorage memory;
  __syncthreads();  // the previous call may still use the memory
  return Block(memory).Reduce(value, Join());
}

/// The largest of numbers >= 0; NaN is ignored.
struct Largest {
  float most = 0;
  __device__ void join(const Largest& other) { most = fmaxf(most, other.most); }
};

/// The number of blocks that reduce n values. It depends on n alone, so that sums do not depend on the device.
inline std::int64_t reduction_blocks(std::int64_t n) {
  constexpr std::int64_t kMostBlocks = 1024, kValuesOfThread = 16;
  return std::clamp<std::int64_t>(n / (kThreads * kValuesOfThread), 1, kMostBlocks);
}

/// True if this block is the last of `blocks` to get here; it then sees the writes of the others. All threads call it;
/// `arrived` is 0 before the first and afterwards.
__device__ inline bool is_last_block(std::int32_t* arrived, unsigned blocks) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(arrived, 1) == static_cast<std::int32_t>(blocks) - 1;
    if (last) *arrived = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

}  // namespace echotrain::numerics::cuda
