#include <algorithm>
#include <cmath>

#include "gadgets/numerics/density_pipe_menon_ops.h"

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
  constexpr std::int64_t kBlocks = PipeMenonStep::kBlocks;
  const std::int64_t per_block = (step.samples + kBlocks - 1) / kBlocks;
  const std::int64_t blocks_at_once = std::max<std::int64_t>(1, kGrain / per_block);
  context.threads().parallel_for(kBlocks, blocks_at_once, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      double w_sum = 0, wd_sum = 0, wdd_sum = 0;
      for (std::int64_t s = b * per_block; s < std::min(step.samples, (b + 1) * per_block); ++s) {
        const double w = static_cast<double>(step.weights[s]), d = static_cast<double>(step.convolved[s].real());
        w_sum += w;
        wd_sum += w * d;
        wdd_sum += w * d * d;
      }
      step.partial[3 * b] = w_sum;
      step.partial[3 * b + 1] = wd_sum;
      step.partial[3 * b + 2] = wdd_sum;
    }
  });
  double sums[3] = {0, 0, 0};
  for (std::int64_t b = 0; b < kBlocks; ++b)
    for (int i = 0; i < 3; ++i) sums[i] += step.partial[3 * b + i];
  step.state->take(sums[0], sums[1], sums[2], step.residuals);
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
