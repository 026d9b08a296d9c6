#include <algorithm>
#include <cfloat>

#include "gadgets/numerics/core/cuda/programmatic_launch.cuh"
#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/inverse/solver/pcg_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kMostBlocks = 1024, kVoxelsOfThread = 4;

// Blocks of the kernels over vectors: x counts the parts of an item, y the items.
constexpr std::int64_t kMostItems = 65535;

__device__ double inner(float2 a, float2 b) {
  return static_cast<double>(a.x) * static_cast<double>(b.x) + static_cast<double>(a.y) * static_cast<double>(b.y);
}

__device__ const float2* complex(const cfloat* p) { return reinterpret_cast<const float2*>(p); }
__device__ float2* complex(cfloat* p) { return reinterpret_cast<float2*>(p); }

/// Loops over the voxels of this thread: v in the item, i in the batch.
#define ECHOTRAIN_VOXELS(a, item, v, i)                                                                                \
  for (std::int64_t v = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, i = (item) * (a).voxels + v; \
       v < (a).voxels;                                                                                                 \
       v += static_cast<std::int64_t>(gridDim.x) * blockDim.x, i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)

__device__ double* partial_of(const PcgArrays& a, std::int64_t item) {
  return a.partial + 3 * (item * a.blocks + blockIdx.x);
}

__device__ float2 preconditioned(const PcgArrays& a, std::int64_t v, std::int64_t i) {
  if (a.z != nullptr) return complex(a.z)[i];
  const float2 r = complex(a.r)[i];
  const float factor = a.inverse_diagonal == nullptr ? 1.0f : a.inverse_diagonal[v];
  return make_float2(r.x * factor, r.y * factor);
}

/// The point of the iteration at which sums are added to an item's state.
enum class Moment { start, direction, finish };

/// Adds up an item's sums. All threads of a kernel over vectors call it at its end: the last block of an item to get
/// here adds up all partial sums, in their order, and puts them into the state.
__device__ void take_sums(const PcgArrays& a, std::int64_t item, Moment moment) {
  if (!is_last_block(a.arrived + item, gridDim.x)) return;
  const volatile double* partial = a.partial + 3 * item * a.blocks;
  Sums<3> all;
  for (std::int64_t b = threadIdx.x; b < a.blocks; b += kThreads)
    for (int i = 0; i < 3; ++i) all.of[i] += partial[3 * b + i];
  all = block_join(all);
  if (threadIdx.x != 0) return;
  const double* sums = all.of;
  PcgState& state = a.states[item];
  double* residuals = a.residuals + item * a.length;
  switch (moment) {
    case Moment::start:
      return state.start(sums[0], sums[1], sums[2], a.tolerance, residuals);
    case Moment::direction:
      a.product[item] = sums[0];
      return;
    case Moment::finish:
      state.step(a.product[item]);
      return state.finish(sums[1], sums[2], a.tolerance, residuals);
  }
}

__global__ void residual_kernel(PcgArrays a) {
  const std::int64_t item = blockIdx.y;
  Sums<3> sums;  // |b|^2, |r|^2, <r, z>
  ECHOTRAIN_VOXELS(a, item, v, i) {
    const float2 b = complex(a.b)[i], q = complex(a.q)[i], r = make_float2(b.x - q.x, b.y - q.y);
    complex(a.r)[i] = r;
    sums.of[0] += inner(b, b);
    sums.of[1] += inner(r, r);
    if (a.z == nullptr) sums.of[2] += inner(r, preconditioned(a, v, i));
  }
  sums = block_join(sums);
  if (threadIdx.x == 0)
    for (int i = 0; i < 3; ++i) partial_of(a, item)[i] = sums.of[i];
  if (a.z == nullptr) take_sums(a, item, Moment::start);
}

__global__ void product_kernel(PcgArrays a, Moment moment) {
  const std::int64_t item = blockIdx.y;
  if (a.states[item].status != PcgState::running || a.states[item].count >= a.length) return;
  Sums<1> rz;
  ECHOTRAIN_VOXELS(a, item, v, i) rz.of[0] += inner(complex(a.r)[i], complex(a.z)[i]);
  rz = block_join(rz);
  if (threadIdx.x == 0) partial_of(a, item)[2] = rz.of[0];
  take_sums(a, item, moment);
}

/// The direction kernel. Eight blocks of a multiprocessor take all parts of a large item at once; with one register
/// more, only six fit.
__global__ void __launch_bounds__(kThreads, 8) direction_kernel(PcgArrays a, float shift) {
  const std::int64_t item = blockIdx.y;
  if (a.states[item].status != PcgState::running) return;
  Sums<1> pq;
  ECHOTRAIN_VOXELS(a, item, v, i) {
    const float2 p = complex(a.p)[i];
    float2 q = complex(a.q)[i];
    q.x += shift * p.x, q.y += shift * p.y;
    complex(a.q)[i] = q;
    pq.of[0] += inner(p, q);
  }
  pq = block_join(pq);
  if (threadIdx.x == 0) partial_of(a, item)[0] = pq.of[0];
  take_sums(a, item, Moment::direction);
}

__global__ void advance_kernel(PcgArrays a) {
  const std::int64_t item = blockIdx.y;
  let_kernel_after_begin();
  wait_for_kernel_before();
  // All blocks take the step, on their own copy; the last block to have its sums puts it into the state with them.
  PcgState state = a.states[item];
  if (state.count >= a.length) return;
  // An item that has stopped may never have had a product.
  const double product = state.status == PcgState::running ? a.product[item] : 0;
  state.step(product);
  if (state.moving == 0) {
    if (blockIdx.x == 0 && threadIdx.x == 0) a.states[item].step(product);
    return;
  }
  const float alpha = state.alpha;
  Sums<2> sums;  // |r|^2, <r, z>
  ECHOTRAIN_VOXELS(a, item, v, i) {
    const float2 p = complex(a.p)[i], q = complex(a.q)[i];
    float2 x = complex(a.x)[i], r = complex(a.r)[i];
    x.x += alpha * p.x, x.y += alpha * p.y;
    r.x -= alpha * q.x, r.y -= alpha * q.y;
    complex(a.x)[i] = x;
    complex(a.r)[i] = r;
    sums.of[0] += inner(r, r);
    if (a.z == nullptr) sums.of[1] += inner(r, preconditioned(a, v, i));
  }
  sums = block_join(sums);
  if (threadIdx.x == 0) partial_of(a, item)[1] = sums.of[0], partial_of(a, item)[2] = sums.of[1];
  if (a.z == nullptr) take_sums(a, item, Moment::finish);
}

__global__ void turn_kernel(PcgArrays a) {
  const std::int64_t item = blockIdx.y;
  if (a.states[item].status != PcgState::running) return;
  const float beta = a.states[item].beta;
  ECHOTRAIN_VOXELS(a, item, v, i) {
    const float2 z = preconditioned(a, v, i), p = complex(a.p)[i];
    complex(a.p)[i] = make_float2(z.x + beta * p.x, z.y + beta * p.y);
  }
}

__global__ void clear_kernel(PcgArrays a) {
  const std::int64_t item = blockIdx.y;
  if (a.states[item].clear == 0) return;
  ECHOTRAIN_VOXELS(a, item, v, i) complex(a.x)[i] = make_float2(0.0f, 0.0f);
}

__global__ void multiply_kernel(const float2* from, const float* factor, float2* to, std::int64_t all,
                                std::int64_t voxels) {
  ECHOTRAIN_GRID_STRIDE(i, all) {
    const float f = factor[i % voxels];
    to[i] = make_float2(from[i].x * f, from[i].y * f);
  }
}

__global__ void add_shifted_kernel(const float* a, float shift, const float* b, float* to, std::int64_t n) {
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = a[i] + (b == nullptr ? 0.0f : shift * b[i]);
}

__global__ void invert_kernel(float floor, float scale, const float* largest, float* values, std::int64_t n) {
  const float least = fmaxf(floor * *largest, FLT_MIN);
  ECHOTRAIN_GRID_STRIDE(i, n) values[i] = scale / fmaxf(values[i], least);
}

__global__ void normalize_kernel(const double* power, float2* data, std::int64_t n) {
  const float factor = normalizing_factor(*power);
  ECHOTRAIN_GRID_STRIDE(i, n) data[i] = make_float2(data[i].x * factor, data[i].y * factor);
}

__global__ void start_kernel(float2* data, std::int64_t n) {
  ECHOTRAIN_GRID_STRIDE(i, n) data[i] = make_float2(pcg_start_value(i), 0.0f);
}

__global__ void power_kernel(const float2* maps, std::int64_t coils, std::int64_t voxels, float* power) {
  ECHOTRAIN_GRID_STRIDE(v, voxels) {
    float sum = 0;
    for (std::int64_t c = 0; c < coils; ++c) {
      const float2 m = maps[c * voxels + v];
      sum += m.x * m.x + m.y * m.y;
    }
    power[v] = sum;
  }
}

dim3 blocks(const PcgArrays& a) {
  if (a.batch > kMostItems) throw std::invalid_argument("pcg: CUDA solves at most 65535 images at once");
  return {static_cast<unsigned>(a.blocks), static_cast<unsigned>(a.batch)};
}

}  // namespace

std::int64_t pcg_blocks(std::int64_t n) {
  return std::clamp<std::int64_t>(n / (kThreads * kVoxelsOfThread), 1, kMostBlocks);
}

void pcg_residual(Context& context, const PcgArrays& a) {
  residual_kernel<<<blocks(a), kThreads, 0, stream_of(context)>>>(a);
  check_launch("pcg_residual");
}

// Here kernels put their own sums into the states; where z is a separate array, product_kernel completes them.
void pcg_product(Context&, const PcgArrays&) {}

void pcg_start(Context& context, const PcgArrays& a) {
  const cudaStream_t stream = stream_of(context);
  if (a.z != nullptr) product_kernel<<<blocks(a), kThreads, 0, stream>>>(a, Moment::start);
  context.clear(DeviceView<cfloat>(a.p, {a.batch, a.voxels}));
  check_launch("pcg_start");
}

void pcg_turn(Context& context, const PcgArrays& a) {
  turn_kernel<<<blocks(a), kThreads, 0, stream_of(context)>>>(a);
  check_launch("pcg_turn");
}

void pcg_direction(Context& context, const PcgArrays& a, float shift) {
  direction_kernel<<<blocks(a), kThreads, 0, stream_of(context)>>>(a, shift);
  check_launch("pcg_direction");
}

void pcg_advance(Context& context, const PcgArrays& a) {
  launch_programmatic("pcg_advance", advance_kernel, {.blocks = blocks(a), .threads = dim3(kThreads)},
                      stream_of(context), a);
}

void pcg_finish(Context& context, const PcgArrays& a) {
  if (a.z == nullptr) return;  // advance_kernel has done it
  product_kernel<<<blocks(a), kThreads, 0, stream_of(context)>>>(a, Moment::finish);
  check_launch("pcg_finish");
}

void pcg_clear(Context& context, const PcgArrays& a) {
  clear_kernel<<<blocks(a), kThreads, 0, stream_of(context)>>>(a);
  check_launch("pcg_clear");
}

void multiply_real(Context& context, const cfloat* from, const float* factor, cfloat* to, std::int64_t batch,
                   std::int64_t voxels) {
  multiply_kernel<<<blocks_for(batch * voxels), kThreads, 0, stream_of(context)>>>(
      device_view(from), factor, device_view(to), batch * voxels, voxels);
  check_launch("multiply_real");
}

void invert(Context& context, const float* a, float shift, const float* b, float floor, float scale, float* inverse,
            std::int64_t n) {
  const cudaStream_t stream = stream_of(context);
  Array<float> found = context.allocate<float>({2});
  add_shifted_kernel<<<blocks_for(n), kThreads, 0, stream>>>(a, shift, b, inverse, n);
  cuda::extremes(context, DeviceView<const float>(inverse, {n}), found.view());
  invert_kernel<<<blocks_for(n), kThreads, 0, stream>>>(floor, scale, found.data() + 1, inverse, n);
  check_launch("invert");
}

void normalize(Context& context, const double* power, cfloat* data, std::int64_t n) {
  normalize_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(power, device_view(data), n);
  check_launch("normalize");
}

void fill_start(Context& context, cfloat* data, std::int64_t n) {
  start_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(device_view(data), n);
  check_launch("fill_start");
}

void map_power(Context& context, const cfloat* maps, std::int64_t coils, std::int64_t voxels, float* power) {
  power_kernel<<<blocks_for(voxels), kThreads, 0, stream_of(context)>>>(device_view(maps), coils, voxels, power);
  check_launch("map_power");
}

}  // namespace echotrain::numerics::cuda
