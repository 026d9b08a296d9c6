#include <algorithm>

#include "gadgets/numerics/core/cuda/cuda_graph.cuh"
#include "gadgets/numerics/core/reduce/reductions_cuda.cuh"
#include "gadgets/numerics/inverse/solver/fixed_cg_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::int64_t kMostParts = 256, kVoxelsOfPartThread = 1;

struct TwoSums {
  double rr = 0, rq = 0;
  __device__ void join(const TwoSums& other) { rr += other.rr, rq += other.rq; }
};

struct Vectors {
  std::int64_t n;
  const float2* b;
  float2 *x, *r, *p, *q, *s;
  double* partial;
  std::int32_t* arrived;
  FixedCgState* state;
  explicit Vectors(FixedCg::Impl& impl)
      : n(impl.x.size()),
        b(device_view(impl.b.data())),
        x(device_view(impl.x.data())),
        r(device_view(impl.r.data())),
        p(device_view(impl.p.data())),
        q(device_view(impl.q.data())),
        s(device_view(impl.s.data())),
        partial(impl.partial.data()),
        arrived(impl.arrived.data()),
        state(impl.state.data()) {}
};

__global__ void forget_kernel(Vectors v, const std::int32_t* forgets) {
  if (*forgets == 0) return;
  ECHOTRAIN_GRID_STRIDE(i, v.n) {
    v.x[i] = make_float2(0.0f, 0.0f);
    if (i == 0) v.state->failed = 1;
  }
}

__global__ void begin_kernel(Vectors v, float size, const float* scale) {
  const float shrink = size * *scale;
  ECHOTRAIN_GRID_STRIDE(i, v.n) {
    const float2 b = v.b[i], x = v.x[i], q = v.q[i];
    v.r[i] = make_float2(b.x - q.x - shrink * x.x, b.y - q.y - shrink * x.y);
    v.p[i] = v.s[i] = make_float2(0.0f, 0.0f);
    if (i == 0) *v.state = v.state->next();
  }
}

__global__ void sums_kernel(Vectors v, float previous, float size, const float* scale) {
  const float shift = v.state->shift(previous, size, *scale);
  TwoSums sums;
  ECHOTRAIN_GRID_STRIDE(i, v.n) {
    const float2 r = v.r[i];
    float2 q = v.q[i];
    q.x += shift * r.x, q.y += shift * r.y;
    v.q[i] = q;
    const double x = static_cast<double>(r.x), y = static_cast<double>(r.y);
    sums.join({x * x + y * y, x * static_cast<double>(q.x) + y * static_cast<double>(q.y)});
  }
  sums = block_join(sums);
  if (threadIdx.x == 0) v.partial[2 * blockIdx.x] = sums.rr, v.partial[2 * blockIdx.x + 1] = sums.rq;
  if (!is_last_block(v.arrived, gridDim.x)) return;
  const volatile double* const partial = v.partial;
  sums = {};
  for (unsigned b = threadIdx.x; b < gridDim.x; b += kThreads) sums.join({partial[2 * b], partial[2 * b + 1]});
  sums = block_join(sums);
  if (threadIdx.x == 0) v.state->take(sums.rr, sums.rq);
}

__global__ void step_kernel(Vectors v) {
  if (v.state->stopped != 0) return;
  const float alpha = v.state->alpha, beta = v.state->beta;
  ECHOTRAIN_GRID_STRIDE(i, v.n) {
    float2 x = v.x[i], r = v.r[i], p = v.p[i], s = v.s[i];
    const float2 q = v.q[i];
    p = make_float2(r.x + beta * p.x, r.y + beta * p.y);
    s = make_float2(q.x + beta * s.x, q.y + beta * s.y);
    x.x += alpha * p.x, x.y += alpha * p.y;
    r.x -= alpha * s.x, r.y -= alpha * s.y;
    v.x[i] = x, v.r[i] = r, v.p[i] = p, v.s[i] = s;
  }
}

__global__ void end_kernel(Vectors v) {
  if (v.state->failed == 0) return;
  ECHOTRAIN_GRID_STRIDE(i, v.n) v.x[i] = make_float2(0.0f, 0.0f);
}

}  // namespace

std::int64_t fixed_cg_parts(std::int64_t n) {
  return std::clamp<std::int64_t>(n / (kThreads * kVoxelsOfPartThread), 1, kMostParts);
}

void fixed_cg_forget(Context& context, FixedCg::Impl& impl, const std::int32_t* forgets) {
  forget_kernel<<<blocks_for(impl.x.size()), kThreads, 0, stream_of(context)>>>(Vectors(impl), forgets);
  check_launch("fixed_cg_forget");
}

void fixed_cg_begin(Context& context, FixedCg::Impl& impl, const float* scale) {
  begin_kernel<<<blocks_for(impl.x.size()), kThreads, 0, stream_of(context)>>>(
      Vectors(impl), static_cast<float>(impl.options.size), scale);
  check_launch("fixed_cg_begin");
}

void fixed_cg_sums(Context& context, FixedCg::Impl& impl, const float* scale) {
  sums_kernel<<<static_cast<unsigned>(fixed_cg_parts(impl.x.size())), kThreads, 0, stream_of(context)>>>(
      Vectors(impl), static_cast<float>(impl.options.previous), static_cast<float>(impl.options.size), scale);
  check_launch("fixed_cg_sums");
}

void fixed_cg_step(Context& context, FixedCg::Impl& impl) {
  step_kernel<<<blocks_for(impl.x.size()), kThreads, 0, stream_of(context)>>>(Vectors(impl));
  check_launch("fixed_cg_step");
}

void fixed_cg_end(Context& context, FixedCg::Impl& impl) {
  end_kernel<<<blocks_for(impl.x.size()), kThreads, 0, stream_of(context)>>>(Vectors(impl));
  check_launch("fixed_cg_end");
}

void fixed_cg_run(Context& context, FixedCg::Impl& impl, bool may_record, const std::function<void()>& work) {
  // The first frame loads kernels, which cannot be recorded; the second is recorded.
  if (!may_record || impl.solved == 0) return work();
  run_as_graph(context, impl.recorded, "launching the steps of a frame", work);
}

}  // namespace echotrain::numerics::cuda
