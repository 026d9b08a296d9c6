#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

// Sources of a reduction: load(i) reads, take() joins the result to a value. They are separate so that several reads
// are under way before the first is used.

struct SumOfValues {
  using Value = Sums<1>;
  const float* values;
  __device__ float load(std::int64_t i) const { return values[i]; }
  __device__ void take(Value& to, float v) const { to.of[0] += v; }
};

struct Power {
  using Value = Sums<1>;
  const float* values;
  __device__ float load(std::int64_t i) const { return values[i]; }
  __device__ void take(Value& to, float v) const { to.of[0] += static_cast<double>(v) * v; }
};

struct InnerProducts {
  using Value = Sums<2>;
  const float *u, *v;
  __device__ float2 load(std::int64_t i) const { return make_float2(u[i], v[i]); }
  __device__ void take(Value& to, float2 pair) const {
    to.of[0] += static_cast<double>(pair.x) * pair.y;
    to.of[1] += static_cast<double>(pair.y) * pair.y;
  }
};

struct WeightedPower {
  using Value = Sums<1>;
  const float2* samples;
  const float* weights;
  std::int64_t coils;
  __device__ float3 load(std::int64_t i) const {
    const float2 v = samples[i];
    return make_float3(v.x, v.y, weights == nullptr ? 1.0f : weights[i / coils]);
  }
  __device__ void take(Value& to, float3 v) const {
    if (v.z != 0) to.of[0] += v.z * (static_cast<double>(v.x) * v.x + static_cast<double>(v.y) * v.y);
  }
};

struct ExtremesPart {
  Extremes found;
  __device__ void join(const ExtremesPart& other) {
    found.least = fminf(found.least, other.found.least);
    found.most = fmaxf(found.most, other.found.most);
  }
};

struct ExtremesOfValues {
  using Value = ExtremesPart;
  const float* values;
  __device__ float load(std::int64_t i) const { return values[i]; }
  __device__ void take(Value& to, float v) const {
    if (isfinite(v)) to.join({{v, v}});
  }
};

struct ExtremesOfMagnitudes {
  using Value = ExtremesPart;
  const float2* values;
  __device__ float2 load(std::int64_t i) const { return values[i]; }
  __device__ void take(Value& to, float2 v) const {
    const float magnitude = hypotf(v.x, v.y);
    if (isfinite(magnitude)) to.join({{magnitude, magnitude}});
  }
};

struct CompareValues {
  using Value = ComparisonSums;
  const float *a, *b;
  double s_re, s_im;
  __device__ float2 load(std::int64_t i) const { return make_float2(a[i], b[i]); }
  __device__ void take(Value& to, float2 v) const { to.take(v.x, 0, v.y, 0, s_re, s_im); }
};

struct CompareComplex {
  using Value = ComparisonSums;
  const float2 *a, *b;
  double s_re, s_im;
  __device__ float4 load(std::int64_t i) const { return make_float4(a[i].x, a[i].y, b[i].x, b[i].y); }
  __device__ void take(Value& to, float4 v) const { to.take(v.x, v.y, v.z, v.w, s_re, s_im); }
};

// Destinations of the result.
struct PutSums {
  double* to;
  bool add = false;
  template <int N>
  __device__ void operator()(const Sums<N>& value) const {
    for (int i = 0; i < N; ++i) to[i] = add ? to[i] + value.of[i] : value.of[i];
  }
};

struct PutExtremes {
  float* to;
  __device__ void operator()(const ExtremesPart& value) const {
    to[0] = value.found.least;
    to[1] = value.found.most;
  }
};

struct PutValue {
  ComparisonSums* to;
  __device__ void operator()(const ComparisonSums& value) const { *to = value; }
};

/// Reduces to one value per block; with a single block, to the result.
template <class Term, class Put>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(Term term, std::int64_t n, typename Term::Value* partial, Put put) {
  constexpr int kAtOnce = 8;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  typename Term::Value mine;
  for (; i + (kAtOnce - 1) * step < n; i += kAtOnce * step) {
    decltype(term.load(0)) loaded[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) loaded[k] = term.load(i + k * step);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) term.take(mine, loaded[k]);
  }
  for (; i < n; i += step) term.take(mine, term.load(i));
  mine = block_join(mine);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1)
    put(mine);
  else
    partial[blockIdx.x] = mine;
}

/// Joins the blocks' values; one block.
template <class Value, class Put>
__global__ void __launch_bounds__(kThreads) join_kernel(const Value* partial, std::int64_t blocks, Put put) {
  Value mine;
  for (std::int64_t b = threadIdx.x; b < blocks; b += kThreads) mine.join(partial[b]);
  mine = block_join(mine);
  if (threadIdx.x == 0) put(mine);
}

template <class Term, class Put>
void reduce(Context& context, const Term& term, std::int64_t n, const Put& put) {
  using Value = typename Term::Value;
  static_assert(sizeof(Value) % sizeof(float) == 0 && alignof(Value) <= alignof(double));
  const cudaStream_t stream = stream_of(context);
  const std::int64_t blocks = reduction_blocks(n);
  Array<std::byte> memory;
  if (blocks > 1) memory = context.allocate<std::byte>({blocks * static_cast<std::int64_t>(sizeof(Value))});
  auto* const partial = reinterpret_cast<Value*>(memory.data());
  reduce_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(term, n, partial, put);
  if (blocks > 1) join_kernel<<<1, kThreads, 0, stream>>>(partial, blocks, put);
  check_launch("a reduction");
}

template <class Term>
ComparisonSums fetch(Context& context, const Term& term, std::int64_t n) {
  constexpr std::int64_t kBytes = sizeof(ComparisonSums);
  Array<std::byte> memory = context.allocate<std::byte>({kBytes});
  reduce(context, term, n, PutValue{reinterpret_cast<ComparisonSums*>(memory.data())});
  const HostArray<std::byte> host = context.download<std::byte>(memory.cview());
  return *reinterpret_cast<const ComparisonSums*>(host.data());
}

// --- quantiles: four passes find eight bits of the value each

constexpr int kBins = 256;
static_assert(kBins == kThreads);

/// The leading bits of the searched value, and its rank among the values that have them.
struct Selection {
  unsigned long long counts[kBins];
  unsigned long long rank;
  unsigned prefix;
  bool none;
};

/// Bits that are ordered as the values are.
__device__ unsigned ordered(float value) {
  const unsigned bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ float value_of(unsigned bits) { return __uint_as_float(bits & 0x80000000u ? bits & 0x7fffffffu : ~bits); }

/// Counts values by the eight bits from `shift` on, among those whose higher bits are known to be right. Counts are
/// whole numbers, so their order does not matter.
__global__ void __launch_bounds__(kThreads)
    count_kernel(const float* values, std::int64_t n, int shift, Selection* selection) {
  __shared__ unsigned counts[kBins];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const unsigned prefix = selection->prefix;
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float value = values[i];
    const unsigned bits = ordered(value);
    if (isfinite(value) && (shift == 24 || bits >> (shift + 8) == prefix)) atomicAdd(&counts[bits >> shift & 255u], 1u);
  }
  __syncthreads();
  if (counts[threadIdx.x] > 0)
    atomicAdd(&selection->counts[threadIdx.x], static_cast<unsigned long long>(counts[threadIdx.x]));
}

/// Takes the bin that holds the rank. One block; clears the counts for the next pass.
__global__ void choose_kernel(double q, int shift, Selection* selection, float* to) {
  if (threadIdx.x == 0) {
    if (shift == 24) {
      unsigned long long all = 0;
      for (const unsigned long long count : selection->counts) all += count;
      selection->none = all == 0;
      if (all > 0) selection->rank = quantile_rank(q, static_cast<std::int64_t>(all));
    }
    unsigned bin = 0;
    while (bin + 1 < kBins && selection->rank >= selection->counts[bin]) selection->rank -= selection->counts[bin++];
    selection->prefix = selection->prefix << 8 | bin;
    if (shift == 0) *to = selection->none ? nanf("") : value_of(selection->prefix);
  }
  __syncthreads();
  selection->counts[threadIdx.x] = 0;
}

}  // namespace

void sum(Context& context, DeviceView<const float> values, DeviceView<double> to) {
  reduce(context, SumOfValues{values.data()}, values.size(), PutSums{to.data()});
}

void power(Context& context, DeviceView<const float> values, DeviceView<double> to) {
  reduce(context, Power{values.data()}, values.size(), PutSums{to.data()});
}

void inner_products(Context& context, DeviceView<const float> u, DeviceView<const float> v, DeviceView<double> to) {
  reduce(context, InnerProducts{u.data(), v.data()}, u.size(), PutSums{to.data()});
}

void add_weighted_power(Context& context, DeviceView<const cfloat> samples, DeviceView<const float> weights,
                        DeviceView<double> to) {
  reduce(context,
         WeightedPower{device_view(samples.data()), weights.size() == 0 ? nullptr : weights.data(), samples.shape()[1]},
         samples.size(), PutSums{to.data(), true});
}

void extremes(Context& context, DeviceView<const float> values, DeviceView<float> to) {
  reduce(context, ExtremesOfValues{values.data()}, values.size(), PutExtremes{to.data()});
}

void extremes(Context& context, DeviceView<const cfloat> values, DeviceView<float> to) {
  reduce(context, ExtremesOfMagnitudes{device_view(values.data())}, values.size(), PutExtremes{to.data()});
}

void quantile(Context& context, DeviceView<const float> values, double q, DeviceView<float> to) {
  const cudaStream_t stream = stream_of(context);
  auto memory = context.zeros<std::uint64_t>({(sizeof(Selection) + 7) / 8});
  auto* const selection = reinterpret_cast<Selection*>(memory.data());
  for (int shift = 24; shift >= 0; shift -= 8) {
    count_kernel<<<blocks_for(values.size()), kThreads, 0, stream>>>(values.data(), values.size(), shift, selection);
    choose_kernel<<<1, kThreads, 0, stream>>>(q, shift, selection, to.data());
  }
  check_launch("quantile");
}

ComparisonSums compare(Context& context, DeviceView<const float> a, DeviceView<const float> b, cdouble s) {
  return fetch(context, CompareValues{a.data(), b.data(), s.real(), s.imag()}, a.size());
}

ComparisonSums compare(Context& context, DeviceView<const cfloat> a, DeviceView<const cfloat> b, cdouble s) {
  return fetch(context, CompareComplex{device_view(a.data()), device_view(b.data()), s.real(), s.imag()}, a.size());
}

}  // namespace echotrain::numerics::cuda
