#include <type_traits>

#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda/cuda_graph.cuh"
#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/inverse/nlinv/nlinv_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kEach = 4;                         // numbers s of the output that a thread computes, with their mirrors
constexpr int kFolded = 48;                      // numbers r of the input in shared memory at a time
constexpr std::int64_t kOfBlock = 4 * kThreads;  // elements of a vector that a block takes
static_assert(NlinvAxis::kBlock >= kFolded && NlinvAxis::kUnit % kEach == 0, "tables are read beyond their end");

std::int64_t blocks_of_vector(std::int64_t n) { return (n + kOfBlock - 1) / kOfBlock; }

/// The sum over the whole block, valid in all of its threads; every block gets the same bits.
template <int threads = kThreads>
__device__ double block_total(double mine) {
  __shared__ double shared;
  Sums<1> own;
  own.of[0] = mine;
  const Sums<1> sum = block_join<threads>(own);
  if (threadIdx.x == 0) shared = sum.of[0];
  __syncthreads();
  return shared;
}

/// The sum of n parts, in all threads.
__device__ double total(const double* parts, std::int64_t n) {
  double mine = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += kThreads) mine += parts[i];
  const double sum = block_total(mine);
  __syncthreads();  // `shared` is used again
  return sum;
}

__device__ float4 sum_of(float4 a, float4 b) { return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }

/// One side of a transform: `rows` rows about row `half`.
struct Side {
  int rows, half;
};

/// to[s] = sum_r exp(sign i angle(r, s)) from[r], for columns of a coil; rows r and -r share their cosine and, apart
/// from its sign, their sine. Tables: [r >= 0, s >= 0], `stride` a row, filled up with zeros. Load: (coil, row,
/// column); Store: (coil, row, column, value), which gives a part of the sum. Blocks: columns, numbers s, coils. A
/// thread has two columns and kEach numbers s; a block has Lanes such columns, Groups such numbers, and Slices threads
/// for each, which share the numbers r and add up at the end.
template <int Lanes, int Groups, int Slices, class Load, class Store>
__global__ void __launch_bounds__(Lanes* Groups* Slices)
    transform_kernel(Side in, Side out, int columns, float sign, const float* cosine, const float* sine, int stride,
                     Load load, Store store, double* sums) {
  constexpr int kThreadsOf = Lanes * Groups * Slices, kOfSlice = Lanes * Groups, kWide = 2 * Lanes;
  constexpr int kJoined = Slices / 2 * kOfSlice * kEach * 2, kRows = 2 * kFolded * Lanes;
  __shared__ float4 memory[kJoined > kRows ? kJoined : kRows];
  float4 *const even = memory, *const odd = memory + kFolded * Lanes;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % Lanes, group = thread / Lanes % Groups,
            slice = thread / kOfSlice;
  const int first_column = static_cast<int>(blockIdx.x) * kWide, column = first_column + 2 * lane,
            first = (static_cast<int>(blockIdx.y) * Groups + group) * kEach;
  const auto coil = static_cast<std::int64_t>(blockIdx.z);
  float4 cosines[kEach], sines[kEach];  // one for both columns
#pragma unroll
  for (int i = 0; i < kEach; ++i) cosines[i] = sines[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (int begin = 0; begin <= in.half; begin += kFolded) {
    const int rows = min(kFolded, in.half + 1 - begin);
    for (int i = thread; i < rows * kWide; i += kThreadsOf) {
      const int r = begin + i / kWide, at = first_column + i % kWide;
      const float2 none = make_float2(0.0f, 0.0f);
      const float2 up = at < columns && in.half + r < in.rows ? load(coil, in.half + r, at) : none;
      const float2 down = at < columns && r > 0 ? load(coil, in.half - r, at) : none;
      reinterpret_cast<float2*>(even)[i] = up + down;
      reinterpret_cast<float2*>(odd)[i] = up - down;
    }
    __syncthreads();
    const float4* c = reinterpret_cast<const float4*>(cosine + begin * stride + first);
    const float4* s = reinterpret_cast<const float4*>(sine + begin * stride + first);
#pragma unroll 4
    for (int j = slice; j < rows; j += Slices) {
      const float4 e = even[j * Lanes + lane], o = odd[j * Lanes + lane];
      const float4 c4 = __ldg(c + j * (stride / kEach)), s4 = __ldg(s + j * (stride / kEach));
      const float cs[kEach] = {c4.x, c4.y, c4.z, c4.w}, ss[kEach] = {s4.x, s4.y, s4.z, s4.w};
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        cosines[i].x += cs[i] * e.x;
        cosines[i].y += cs[i] * e.y;
        cosines[i].z += cs[i] * e.z;
        cosines[i].w += cs[i] * e.w;
        sines[i].x += ss[i] * o.x;
        sines[i].y += ss[i] * o.y;
        sines[i].z += ss[i] * o.z;
        sines[i].w += ss[i] * o.w;
      }
    }
    __syncthreads();
  }
  const int place = thread % kOfSlice;
#pragma unroll
  for (int half = Slices / 2; half >= 1; half /= 2) {
    if (slice >= half && slice < 2 * half)
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        memory[(2 * i * half + slice - half) * kOfSlice + place] = cosines[i];
        memory[((2 * i + 1) * half + slice - half) * kOfSlice + place] = sines[i];
      }
    __syncthreads();
    if (slice < half)
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        cosines[i] = sum_of(cosines[i], memory[(2 * i * half + slice) * kOfSlice + place]);
        sines[i] = sum_of(sines[i], memory[((2 * i + 1) * half + slice) * kOfSlice + place]);
      }
    __syncthreads();
  }
  double part = 0;
  if (slice == 0)
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int s = first + i;
      if (s > out.half) continue;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (column + j >= columns) continue;
        const float2 even_part =
            j == 0 ? make_float2(cosines[i].x, cosines[i].y) : make_float2(cosines[i].z, cosines[i].w);
        const float2 turned = j == 0 ? make_float2(-sign * sines[i].y, sign * sines[i].x)
                                     : make_float2(-sign * sines[i].w, sign * sines[i].z);
        if (out.half + s < out.rows) part += store(coil, out.half + s, column + j, even_part + turned);
        if (s > 0) part += store(coil, out.half - s, column + j, even_part - turned);
      }
    }
  if (sums == nullptr) return;
  const double sum = block_total<kThreadsOf>(part);
  if (thread == 0) sums[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = sum;
}

/// The groups of a transform's blocks: those with the fewest superfluous numbers s.
int groups_for(Side out) {
  int best = 0, least = 0;
  for (const int groups : {12, 11, 9}) {
    const int size = groups * kEach, worked_out = (out.half + size) / size * size;
    if (best == 0 || worked_out < least) best = groups, least = worked_out;
  }
  return best;
}
dim3 blocks_of(Side out, int lanes, std::int64_t columns, std::int64_t coils) {
  const int size = groups_for(out) * kEach;
  return {static_cast<unsigned>((columns + 2 * lanes - 1) / (2 * lanes)),
          static_cast<unsigned>((out.half + size) / size), static_cast<unsigned>(coils)};
}

template <int Lanes, int Slices, class Load, class Store>
void transform(Context& context, Side in, Side out, std::int64_t columns, std::int64_t coils, float sign,
               const Array<float>& cosine, const Array<float>& sine, std::int64_t stride, Load load, Store store,
               double* sums) {
  const auto launch = [&](auto groups) {
    constexpr int kGroups = decltype(groups)::value;
    static_assert(kGroups * kEach <= NlinvAxis::kBlock, "tables are read beyond their end");
    transform_kernel<Lanes, kGroups, Slices>
        <<<blocks_of(out, Lanes, columns, coils), Lanes * kGroups * Slices, 0, stream_of(context)>>>(
            in, out, static_cast<int>(columns), sign, cosine.data(), sine.data(), static_cast<int>(stride), load, store,
            sums);
  };
  switch (groups_for(out)) {
    case 9:
      return launch(std::integral_constant<int, 9>());
    case 11:
      return launch(std::integral_constant<int, 11>());
    default:
      return launch(std::integral_constant<int, 12>());
  }
}

Side points_of(const NlinvAxis& axis) { return {static_cast<int>(axis.points), static_cast<int>(axis.half())}; }
Side waves_of(const NlinvAxis& axis) { return {static_cast<int>(axis.waves()), static_cast<int>(axis.most)}; }

// Lanes and slices of a block that give enough blocks, and threads in them, with ten coils of 256 x 256.
constexpr int kLanesOfImages = 16, kLanesOfWaves = 8, kLanesOfCoefficients = 4;

/// Transforms waves to points.
template <int Lanes, int Slices, class Load, class Store>
void to_points(Context& context, const NlinvAxis& axis, std::int64_t columns, std::int64_t coils, Load load,
               Store store) {
  transform<Lanes, Slices>(context, waves_of(axis), points_of(axis), columns, coils, 1.0f, axis.cosine, axis.sine,
                           axis.point_rows(), load, store, nullptr);
  check_launch("nlinv_product");
}

/// Transforms points to waves, the adjoint.
template <int Lanes, int Slices, class Load, class Store>
void to_waves(Context& context, const NlinvAxis& axis, std::int64_t columns, std::int64_t coils, Load load, Store store,
              double* sums) {
  transform<Lanes, Slices>(context, points_of(axis), waves_of(axis), columns, coils, -1.0f, axis.cosine_of_points,
                           axis.sine_of_points, axis.wave_rows(), load, store, sums);
  check_launch("nlinv_back");
}

std::int64_t blocks_to_waves(const NlinvProblem& p) {
  const dim3 blocks = blocks_of(waves_of(p.x), kLanesOfCoefficients, p.y.waves(), p.coils);
  return static_cast<std::int64_t>(blocks.x) * blocks.y * blocks.z;
}

__global__ void multiply_kernel(const float2* m, const float2* c, std::int64_t voxels, std::int64_t n, float2* z) {
  ECHOTRAIN_GRID_STRIDE(i, n) z[i] = m[i % voxels] * c[i];
}

/// One thread per voxel adds up the coils, in their order.
__global__ void image_back_kernel(float scale, float alpha, const float2* c, const float2* y, const float2* p,
                                  std::int64_t voxels, std::int64_t coils, float2* h, double* sums) {
  const std::int64_t v = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  double part = 0;
  if (v < voxels) {
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t coil = 0; coil < coils; ++coil)
      sum = sum + conjugate(c[coil * voxels + v]) * y[coil * voxels + v];
    const float2 own = p[v], value = scale * sum + alpha * own;
    h[v] = value;
    part = static_cast<double>(own.x) * static_cast<double>(value.x) +
           static_cast<double>(own.y) * static_cast<double>(value.y);
  }
  const double sum = block_total(part);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void combine_kernel(std::int64_t n, float a, const float2* u, float b, const float2* v, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = a * u[i] + b * v[i];
}

__device__ double square(float2 v) {
  return static_cast<double>(v.x) * static_cast<double>(v.x) + static_cast<double>(v.y) * static_cast<double>(v.y);
}

/// Calls work(i), which returns a part of the sum, for a block's elements of a vector.
template <class Work>
__device__ double over_block(std::int64_t n, const Work& work) {
  double part = 0;
  const std::int64_t end = min(n, (static_cast<std::int64_t>(blockIdx.x) + 1) * kOfBlock);
  for (std::int64_t i = blockIdx.x * kOfBlock + threadIdx.x; i < end; i += kThreads) part += work(i);
  return part;
}

__global__ void begin_kernel(std::int64_t n, const float2* h, float2* r, double* sums) {
  const double sum = block_total(over_block(n, [&](std::int64_t i) {
    r[i] = h[i];
    return square(h[i]);
  }));
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

struct StepVectors {
  const float2* q;
  float2 *r, *p, *s, *d, *x;
};

template <bool First, bool Last>
__global__ void step_kernel(NlinvStep step, StepVectors v) {
  const double old = First ? 0 : total(step.old, gridDim.x), now = total(step.now, gridDim.x),
               curvature = total(step.product, step.products);
  const NlinvLengths lengths = NlinvLengths::of(First, old, now, curvature, First ? 0 : *step.length_before);
  if (blockIdx.x == 0 && threadIdx.x == 0) *step.length = lengths.along;
  const auto a = static_cast<float>(lengths.along), b = static_cast<float>(lengths.before);
  const double sum = block_total(over_block(step.n, [&](std::int64_t i) {
    float2 r = v.r[i], p = r, s = v.q[i], d = make_float2(0.0f, 0.0f);
    if (!First) p = p + b * v.p[i], s = s + b * v.s[i], d = v.d[i];
    d = d + a * p;
    r = r - a * s;
    if (!Last) v.p[i] = p, v.s[i] = s, v.d[i] = d;
    if (Last) v.x[i] = v.x[i] + d;
    v.r[i] = r;
    return square(r);
  }));
  if (threadIdx.x == 0) step.next[blockIdx.x] = sum;
}

struct Middle {
  std::int64_t ny, nx, first_y, first_x, across;
};

__global__ void image_kernel(float factor, const float2* m, const float2* c, std::int64_t coils, std::int64_t voxels,
                             Middle middle, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, middle.ny * middle.nx) {
    const std::int64_t at = (middle.first_y + i / middle.nx) * middle.across + middle.first_x + i % middle.nx;
    float power = 0;
    for (std::int64_t coil = 0; coil < coils; ++coil) {
      const float2 value = c[coil * voxels + at];
      power += value.x * value.x + value.y * value.y;
    }
    to[i] = factor * sqrtf(power) * m[at];
  }
}

// Loads and stores of transforms, with the products that go along. `between` holds [coil, ky, x] on the way to the
// image and [coil, x, ky] on the way back.

struct LoadCoefficients {
  const float* weights;
  const float2* h;
  std::int64_t kx, ky;
  __device__ float2 operator()(std::int64_t coil, int row, int column) const {
    return weights[row * ky + column] * h[(coil * kx + row) * ky + column];
  }
};
/// Loads [coil, row, column] of arrays whose rows have `columns` elements.
struct LoadPlain {
  const float2* from;
  std::int64_t rows, columns;
  __device__ float2 operator()(std::int64_t coil, int row, int column) const {
    return from[(coil * rows + row) * columns + column];
  }
};
struct LoadTimesImage {
  const float2 *image, *from;
  std::int64_t voxels, nx;
  __device__ float2 operator()(std::int64_t coil, int row, int column) const {
    const std::int64_t v = row * nx + column;
    return conjugate(image[v]) * from[coil * voxels + v];
  }
};
/// to: [coil, column, row]
struct StoreTurned {
  float2* to;
  std::int64_t rows, columns;
  __device__ double operator()(std::int64_t coil, int row, int column, float2 value) const {
    to[(coil * columns + column) * rows + row] = value;
    return 0;
  }
};
struct StoreProduct {
  const float2 *image, *coils, *change;
  float2* to;
  std::int64_t voxels, nx;
  __device__ double operator()(std::int64_t coil, int row, int column, float2 value) const {
    const std::int64_t v = row * nx + column, at = coil * voxels + v;
    to[at] = image == nullptr ? value : image[v] * value + change[v] * coils[at];
    return 0;
  }
};
struct StoreCoefficients {
  const float* weights;
  const float2* own;
  float2* to;
  std::int64_t kx, ky;
  float scale, alpha;
  __device__ double operator()(std::int64_t coil, int row, int column, float2 value) const {
    const std::int64_t at = (coil * kx + row) * ky + column;
    const float2 before = own[at], sum = scale * weights[row * ky + column] * value + alpha * before;
    to[at] = sum;
    return static_cast<double>(before.x) * static_cast<double>(sum.x) +
           static_cast<double>(before.y) * static_cast<double>(sum.y);
  }
};

}  // namespace

std::int64_t nlinv_back_sums(const NlinvProblem& problem) {
  return (problem.voxels() + kThreads - 1) / kThreads + blocks_to_waves(problem);
}
std::int64_t nlinv_vector_sums(std::int64_t n) { return blocks_of_vector(n); }

void nlinv_product(Context& context, const NlinvProblem& problem, const cfloat* m, const cfloat* c, const cfloat* p,
                   cfloat* z) {
  const std::int64_t kx = problem.x.waves(), ky = problem.y.waves(), nx = problem.x.points, voxels = problem.voxels();
  const float* const weights = problem.weights.data();
  const float2* const h = device_view(p) + voxels;
  // The working space is not part of the problem, so it may change.
  float2* const between = const_cast<float2*>(device_view(problem.between.data()));
  to_points<kLanesOfWaves, 2>(context, problem.x, ky, problem.coils, LoadCoefficients{weights, h, kx, ky},
                              StoreTurned{between, nx, ky});
  to_points<kLanesOfImages, 1>(
      context, problem.y, nx, problem.coils, LoadPlain{between, ky, nx},
      StoreProduct{device_view(m), device_view(c), device_view(p), device_view(z), voxels, nx});
}

void nlinv_multiply(Context& context, const NlinvProblem& problem, const cfloat* m, const cfloat* c, cfloat* z) {
  const std::int64_t n = problem.coils * problem.voxels();
  multiply_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(device_view(m), device_view(c), problem.voxels(),
                                                                      n, device_view(z));
  check_launch("nlinv_multiply");
}

void nlinv_back(Context& context, const NlinvProblem& problem, float scale, float alpha, const cfloat* m,
                const cfloat* c, const cfloat* y, const cfloat* p, cfloat* h, double* sums) {
  const std::int64_t kx = problem.x.waves(), ky = problem.y.waves(), nx = problem.x.points, voxels = problem.voxels();
  const std::int64_t blocks = (voxels + kThreads - 1) / kThreads;
  image_back_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_of(context)>>>(
      scale, alpha, device_view(c), device_view(y), device_view(p), voxels, problem.coils, device_view(h), sums);
  check_launch("nlinv_back");
  float2* const between = const_cast<float2*>(device_view(problem.between.data()));
  to_waves<kLanesOfWaves, 4>(context, problem.y, nx, problem.coils,
                             LoadTimesImage{device_view(m), device_view(y), voxels, nx}, StoreTurned{between, ky, nx},
                             nullptr);
  to_waves<kLanesOfCoefficients, 8>(
      context, problem.x, ky, problem.coils, LoadPlain{between, nx, ky},
      StoreCoefficients{problem.weights.data(), device_view(p) + voxels, device_view(h) + voxels, kx, ky, scale, alpha},
      sums + blocks);
}

void nlinv_combine(Context& context, std::int64_t n, float a, const cfloat* u, float b, const cfloat* v, cfloat* to) {
  combine_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(n, a, device_view(u), b, device_view(v),
                                                                     device_view(to));
  check_launch("nlinv_combine");
}

void nlinv_begin(Context& context, std::int64_t n, const cfloat* h, cfloat* r, double* sums) {
  begin_kernel<<<static_cast<unsigned>(blocks_of_vector(n)), kThreads, 0, stream_of(context)>>>(n, device_view(h),
                                                                                                device_view(r), sums);
  check_launch("nlinv_begin");
}

void nlinv_step(Context& context, const NlinvStep& step) {
  const StepVectors vectors{device_view(step.q), device_view(step.r), device_view(step.p),
                            device_view(step.s), device_view(step.d), device_view(step.x)};
  const auto kernel = step.first ? (step.last ? step_kernel<true, true> : step_kernel<true, false>)
                                 : (step.last ? step_kernel<false, true> : step_kernel<false, false>);
  kernel<<<static_cast<unsigned>(blocks_of_vector(step.n)), kThreads, 0, stream_of(context)>>>(step, vectors);
  check_launch("nlinv_step");
}

void nlinv_image(Context& context, const NlinvProblem& problem, float factor, const cfloat* m, const cfloat* c,
                 std::int64_t ny, std::int64_t nx, cfloat* to) {
  const Middle middle{ny, nx, problem.y.half() - ny / 2, problem.x.half() - nx / 2, problem.x.points};
  image_kernel<<<blocks_for(ny * nx), kThreads, 0, stream_of(context)>>>(
      factor, device_view(m), device_view(c), problem.coils, problem.voxels(), middle, device_view(to));
  check_launch("nlinv_image");
}

void nlinv_run(Context& context, std::shared_ptr<void>& recorded, const std::function<void()>& work) {
  run_as_graph(context, recorded, "launching the steps of a frame", work);
}

}  // namespace echotrain::numerics::cuda
