// The steps of Pipe & Menon's iteration on each backend; arguments were checked.
#pragma once

#include <cmath>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/density/density_pipe_menon.h"

namespace echotrain::numerics {

/// The state of the iteration. It lives where the context computes, so that nothing waits for CUDA.
struct PipeMenonState {
  static constexpr std::int32_t kPatience = 3;

  double best_residual;
  double best_mean;    ///< <d> of the best iterate; 0 if no sample has a weight
  std::int32_t count;  ///< residuals so far
  std::int32_t best;
  std::int32_t improved;  ///< nonzero: the last iterate is the best so far
  std::int32_t stopped;

  /// Takes the sums of w, w d and w d^2 over all samples, d = C C^T w; appends to `residuals`.
  ECHOTRAIN_HOST_DEVICE void take(double w, double wd, double wdd, double* residuals) {
    improved = 0;
    if (stopped) return;
    const double mean = wd / w, square = wdd / w - mean * mean;
    // No weight at all counts as flat, too.
    const double residual = w > 0 && wd > 0 ? sqrt(square > 0 ? square : 0) / mean : 0;
    improved = count == 0 || residual < best_residual;
    if (improved) {
      best = count;
      best_residual = residual;
      best_mean = w > 0 ? mean : 0;
    }
    residuals[count] = residual;
    stopped = count - best >= kPatience;
    ++count;
  }
};

/// The next weight. Every sample is its own neighbour, so d is at least about w; a smaller d means that the plan leaves
/// the sample out.
ECHOTRAIN_HOST_DEVICE inline float pipe_menon_next(float w, float d) {
  constexpr float kLeast = 1e-3f;
  return d > kLeast * w ? w / d : 0.0f;
}

struct PipeMenonStep {
  static constexpr std::int64_t kBlocks = 256;  ///< partial sums of CUDA

  std::int64_t samples;
  const cfloat* convolved;  ///< C C^T w
  float* weights;           ///< w; afterwards the next iterate
  float* best;              ///< [sample], the best iterate
  double* partial;          ///< [kBlocks, 3]
  double* residuals;
  PipeMenonState* state;
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// weights = start where that is positive and finite, else 0 (nullptr: all 1); ones = 1.
void pipe_menon_start(Context& context, const float* start, std::int64_t samples, float* weights, cfloat* ones);
void pipe_menon_step(Context& context, const PipeMenonStep& step);
void pipe_menon_scale(Context& context, float factor, std::int64_t samples, float* weights);
)
// clang-format on

}  // namespace echotrain::numerics
