#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/reduce/reductions_cpu.h"
#include "gadgets/numerics/inverse/solver/fixed_cg_ops.h"

namespace echotrain::numerics::cpu {
namespace {

struct TwoSums {
  double rr = 0, rq = 0;
  void join(const TwoSums& other) { rr += other.rr, rq += other.rq; }
};

float* parts_of(Array<cfloat>& array) { return reinterpret_cast<float*>(array.data()); }

ECHOTRAIN_CLONES void begin_part(const float* b, const float* x, float shrink, const float* q, float* r,
                                 std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) r[i] = b[i] - q[i] - shrink * x[i];
}

ECHOTRAIN_CLONES TwoSums sums_of_part(const float* r, float shift, float* q, std::int64_t n) {
  double rr[kSums] = {}, rq[kSums] = {};
  for_terms(n, [&](std::int64_t l, std::int64_t i) ECHOTRAIN_INLINE_LAMBDA {
    q[i] += shift * r[i];
    rr[l] += static_cast<double>(r[i]) * static_cast<double>(r[i]);
    rq[l] += static_cast<double>(r[i]) * static_cast<double>(q[i]);
  });
  return {add_up(rr), add_up(rq)};
}

struct StepVectors {
  float *x, *r, *p, *q, *s;
};
ECHOTRAIN_CLONES void step_of_part(StepVectors v, float alpha, float beta, std::int64_t first, std::int64_t last) {
  for (std::int64_t i = first; i < last; ++i) {
    v.p[i] = v.r[i] + beta * v.p[i];
    v.s[i] = v.q[i] + beta * v.s[i];
    v.x[i] += alpha * v.p[i];
    v.r[i] -= alpha * v.s[i];
  }
}

constexpr std::int64_t kStepGrain = 1 << 14;

}  // namespace

std::int64_t fixed_cg_parts(std::int64_t /*n*/) { return 1; }

void fixed_cg_forget(Context& context, FixedCg::Impl& impl, const std::int32_t* forgets) {
  if (*forgets == 0) return;
  impl.state.data()->failed = 1;
  context.clear(impl.x.view());
}

void fixed_cg_begin(Context& context, FixedCg::Impl& impl, const float* scale) {
  *impl.state.data() = impl.state.data()->next();
  const float shrink = static_cast<float>(impl.options.size) * *scale;
  context.threads().parallel_for(2 * impl.x.size(), kStepGrain, [&](std::int64_t begin, std::int64_t end) {
    begin_part(parts_of(impl.b) + begin, parts_of(impl.x) + begin, shrink, parts_of(impl.q) + begin,
               parts_of(impl.r) + begin, end - begin);
  });
  // beta of the first step is 0, but 0 times infinity or NaN is not 0.
  context.clear(impl.p.view());
  context.clear(impl.s.view());
}

void fixed_cg_sums(Context& context, FixedCg::Impl& impl, const float* scale) {
  const float shift = impl.state.data()->shift(static_cast<float>(impl.options.previous),
                                               static_cast<float>(impl.options.size), *scale);
  const TwoSums all =
      reduce_blocks<TwoSums>(context.threads(), 2 * impl.x.size(), [&](std::int64_t begin, std::int64_t end) {
        return sums_of_part(parts_of(impl.r) + begin, shift, parts_of(impl.q) + begin, end - begin);
      });
  impl.state.data()->take(all.rr, all.rq);
}

void fixed_cg_step(Context& context, FixedCg::Impl& impl) {
  const FixedCgState state = *impl.state.data();
  if (state.stopped != 0) return;
  const StepVectors v{parts_of(impl.x), parts_of(impl.r), parts_of(impl.p), parts_of(impl.q), parts_of(impl.s)};
  context.threads().parallel_for(2 * impl.x.size(), kStepGrain, [&](std::int64_t begin, std::int64_t end) {
    step_of_part(v, state.alpha, state.beta, begin, end);
  });
}

void fixed_cg_end(Context& context, FixedCg::Impl& impl) {
  if (impl.state.data()->failed != 0) context.clear(impl.x.view());
}

void fixed_cg_run(Context& /*context*/, FixedCg::Impl& /*impl*/, bool /*may_record*/,
                  const std::function<void()>& work) {
  work();
}

}  // namespace echotrain::numerics::cpu
