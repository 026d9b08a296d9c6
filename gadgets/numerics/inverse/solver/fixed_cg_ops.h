// The steps of FixedCg on each backend; arguments were checked.
#pragma once

#include <cmath>
#include <memory>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/solver/fixed_cg.h"

namespace echotrain::numerics {

/// The state of the iteration. It lives where the context computes.
struct FixedCgState {
  double power;       ///< |r|^2
  double step;        ///< alpha of the previous step
  float alpha, beta;  ///< factors of this step; 0 once stopped
  std::int32_t count, stopped, failed;
  std::int32_t previous;  ///< nonzero: there is a previous frame's image to draw this one to

  /// The initial state for the next frame.
  ECHOTRAIN_HOST_DEVICE FixedCgState next() const {
    FixedCgState state{};
    state.previous = failed == 0 && (count > 0 || previous != 0) ? 1 : 0;
    return state;
  }
  /// The weight of |x|^2 in the matrix. Without a previous image, its prior has no weight.
  ECHOTRAIN_HOST_DEVICE float shift(float of_previous, float of_size, float scale) const {
    return (previous != 0 ? of_previous + of_size : of_size) * scale;
  }

  /// Takes |r|^2 and <r, (A + mu) r>.
  ECHOTRAIN_HOST_DEVICE void take(double rr, double rq) {
    alpha = beta = 0;
    if (stopped != 0) return;
    const double b = count > 0 ? rr / power : 0, curvature = rq - (count > 0 ? b * rr / step : 0), a = rr / curvature;
    if (!(rr - rr == 0)) failed = 1;
    if (!(rr > 0) || !(curvature > 0) || !(a - a == 0)) {  // solved, or fp32 allows no further step
      stopped = 1;
      return;
    }
    power = rr;
    step = a;
    alpha = static_cast<float>(a);
    beta = static_cast<float>(b);
    ++count;
  }
};

struct FixedCg::Impl {
  FixedCgOptions options;
  Backend backend = Backend::cpu;
  Array<cfloat> b, x, r, p, q, s;  ///< q = A r; s = (A + mu) p
  Array<double> partial;           ///< [fixed_cg_parts(), 2]
  Array<std::int32_t> arrived;     ///< [1], zero between operations
  Array<FixedCgState> state;       ///< [1]
  int solved = 0;                  ///< frames solved so far
  std::shared_ptr<void> recorded;  ///< CUDA: the steps as a graph
};

// clang-format off
ECHOTRAIN_BACKENDS(
std::int64_t fixed_cg_parts(std::int64_t n);
/// If *forgets: x = 0, and the state is that of a failed frame, to which no other is drawn.
void fixed_cg_forget(Context& context, FixedCg::Impl& impl, const std::int32_t* forgets);
/// Makes the next state; r = b - q - size L x, where q = A x.
void fixed_cg_begin(Context& context, FixedCg::Impl& impl, const float* scale);
/// q += FixedCgState::shift() r; adds the sums to the state.
void fixed_cg_sums(Context& context, FixedCg::Impl& impl, const float* scale);
/// p = r + beta p, s = q + beta s, x += alpha p, r -= alpha s.
void fixed_cg_step(Context& context, FixedCg::Impl& impl);
/// x = 0 if the state says so.
void fixed_cg_end(Context& context, FixedCg::Impl& impl);
/// Does `work`, or, once it has been recorded, launches it as a graph.
void fixed_cg_run(Context& context, FixedCg::Impl& impl, bool may_record, const std::function<void()>& work);
)
// clang-format on

}  // namespace echotrain::numerics
