#include "gadgets/numerics/mri/density/density_pipe_menon.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/density/density_pipe_menon_ops.h"
#include "gadgets/numerics/transforms/nufft/kaiser_bessel.h"

namespace echotrain::numerics {
namespace {

/// The integral over k-space of C C^T's kernel, the window convolved with itself: Phi(0)^2 grid cells along each axis.
double kernel_integral(const NufftPlan& plan) {
  double product = 1;
  for (std::size_t a = 0; a < plan.image_shape().rank(); ++a) {
    const auto extent = static_cast<double>(plan.grid_shape()[a]);
    const KaiserBessel window(plan.options().kernel_width, extent / static_cast<double>(plan.image_shape()[a]));
    product *= window.transform(0) * window.transform(0) / extent;
  }
  return product;
}

}  // namespace

PipeMenonResult pipe_menon_density(Context& context, const NufftPlan& plan, DeviceView<const float> start,
                                   int iterations) {
  constexpr int kMostIterations = 1000, kLookEvery = 8;
  const std::int64_t samples = plan.samples();
  if (context.backend() != plan.backend())
    throw std::invalid_argument("pipe_menon density: the plan was made for another backend");
  if (start.size() != 0 && start.size() != samples)
    throw std::invalid_argument(
        fmt::format("pipe_menon density: {} weights to start from for {} samples", start.size(), samples));
  if (iterations < 0 || iterations > kMostIterations)
    throw std::invalid_argument(
        fmt::format("pipe_menon density: expected 0..{} iterations, got {}", kMostIterations, iterations));
  PipeMenonResult result;
  result.weights = context.allocate<float>({samples});
  if (samples == 0) return result;

  Shape grid_shape{1};
  for (const auto extent : plan.grid_shape()) grid_shape.push_back(extent);
  auto weights = context.allocate<float>({samples});
  auto ones = context.allocate<cfloat>({samples, 1}), convolved = context.allocate<cfloat>({samples, 1}),
       grid = context.allocate<cfloat>(grid_shape);
  auto partial = context.allocate<double>({PipeMenonStep::kBlocks, 3});
  auto residuals = context.zeros<double>({iterations + 1});
  auto state = context.zeros<PipeMenonState>({1});
  ECHOTRAIN_DISPATCH(context, pipe_menon_start(context, start.size() == 0 ? nullptr : start.data(), samples,
                                               weights.data(), ones.data()));
  const PipeMenonStep step{.samples = samples,
                           .convolved = convolved.data(),
                           .weights = weights.data(),
                           .best = result.weights.data(),
                           .partial = partial.data(),
                           .residuals = residuals.data(),
                           .state = state.data()};
  for (int i = 0; i <= iterations; ++i) {
    plan.grid(context, ones.cview(), weights.cview(), grid.view());
    plan.interpolate(context, grid.cview(), convolved.view());
    ECHOTRAIN_DISPATCH(context, pipe_menon_step(context, step));
    // Steps after the end change nothing. Reading the state stalls CUDA, so it is read only at intervals.
    const bool look = !context.cuda() || i % kLookEvery == kLookEvery - 1;
    if (look && context.download<PipeMenonState>(state.cview()).data()->stopped) break;
  }
  const auto log = context.download<double>(residuals.cview());
  const auto end = context.download<PipeMenonState>(state.cview());
  result.residuals.assign(log.data(), log.data() + end.data()->count);
  result.best = end.data()->best;
  const double mean = end.data()->best_mean;
  if (mean > 0)
    ECHOTRAIN_DISPATCH(context, pipe_menon_scale(context, static_cast<float>(kernel_integral(plan) / mean), samples,
                                                 result.weights.data()));
  return result;
}

}  // namespace echotrain::numerics
