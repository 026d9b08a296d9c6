#include <algorithm>
#include <cmath>

#include "gadgets/numerics/core/reduce/reductions_cpu.h"
#include "gadgets/numerics/core/reduce/reductions_ops.h"
#include "gadgets/numerics/mri/density/density_pipe_menon_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;

}  // namespace

void pipe_menon_start(Context& context, const float* start, std::int64_t samples, float* weights, cfloat* ones) {
  context.threads().parallel_for(samples, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      weights[s] = start == nullptr ? 1.0f : start[s] > 0 && std::isfinite(start[s]) ? start[s] : 0.0f;
      ones[s] = 1.0f;
    }
  });
}

void pipe_menon_step(Context& context, const PipeMenonStep& step) {
  const auto sums = reduce_blocks<Sums<3>>(context.threads(), step.samples, [&](std::int64_t begin, std::int64_t end) {
    Sums<3> part;
    for (std::int64_t s = begin; s < end; ++s) {
      const double w = static_cast<double>(step.weights[s]), d = static_cast<double>(step.convolved[s].real());
      part.of[0] += w;
      part.of[1] += w * d;
      part.of[2] += w * d * d;
    }
    return part;
  });
  step.state->take(sums.of[0], sums.of[1], sums.of[2], step.residuals);
  const bool improved = step.state->improved;
  context.threads().parallel_for(step.samples, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) {
      const float w = step.weights[s];
      if (improved) step.best[s] = w;
      step.weights[s] = pipe_menon_next(w, step.convolved[s].real());
    }
  });
}

void pipe_menon_scale(Context& context, float factor, std::int64_t samples, float* weights) {
  context.threads().parallel_for(samples, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s) weights[s] *= factor;
  });
}

}  // namespace echotrain::numerics::cpu
