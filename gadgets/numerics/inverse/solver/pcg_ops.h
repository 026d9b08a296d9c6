// The steps of the conjugate gradients on each backend; arguments were checked. Dot products are part of the steps that
// compute what they sum, and are added up as in reductions.h.
#pragma once

#include <cmath>
#include <functional>
#include <memory>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/inverse/solver/pcg.h"

namespace echotrain::numerics {

/// The state of an item's iteration. It lives where the context computes, so that nothing waits for CUDA.
struct PcgState {
  enum Status : std::int32_t { running, converged, broke_down };

  double b_power;     ///< |b|^2
  double rz;          ///< <r, z>
  float alpha, beta;  ///< factors of the step; 0 once stopped
  std::int32_t status;
  std::int32_t moving;  ///< nonzero: this step changes x and r
  std::int32_t count;   ///< residuals so far
  std::int32_t clear;   ///< x must become 0

  ECHOTRAIN_HOST_DEVICE void stop(Status why) {
    status = why;
    moving = 0;
    alpha = beta = 0;
  }
  /// Takes |b|^2, |r|^2 and <r, z> of the start.
  ECHOTRAIN_HOST_DEVICE void start(double bb, double rr, double r_z, double tolerance, double* residuals) {
    *this = PcgState{};
    b_power = bb;
    count = 1;
    residuals[0] = 0;
    if (bb == 0) {
      clear = 1;
      return stop(converged);
    }
    if (!finite(bb) || !finite(rr)) {
      clear = 1;
      residuals[0] = NAN;
      return stop(broke_down);
    }
    take_residual(rr, r_z, tolerance, residuals, 0);
  }
  /// Takes <p, (A + lambda R) p>, which gives the step along p.
  ECHOTRAIN_HOST_DEVICE void step(double pq) {
    moving = 0;
    if (status != running) return;
    const double length = rz / pq;
    alpha = static_cast<float>(length);
    if (!(pq > 0) || !finite(alpha)) return stop(broke_down);
    moving = 1;
  }
  /// Takes |r|^2 and <r, z> after the step.
  ECHOTRAIN_HOST_DEVICE void finish(double rr, double r_z, double tolerance, double* residuals) {
    if (status != running) return;
    if (!finite(rr)) {
      clear = 1;
      return stop(broke_down);
    }
    const double before = rz;
    take_residual(rr, r_z, tolerance, residuals, count++);
    beta = status == running ? static_cast<float>(r_z / before) : 0;
  }

 private:
  ECHOTRAIN_HOST_DEVICE static bool finite(double v) { return v - v == 0; }
  ECHOTRAIN_HOST_DEVICE void take_residual(double rr, double r_z, double tolerance, double* residuals, int at) {
    residuals[at] = sqrt(rr / b_power);
    rz = r_z;
    if (residuals[at] <= tolerance) return stop(converged);
    if (!(r_z > 0) || !finite(r_z)) return stop(broke_down);
  }
};

/// The arrays of an iteration, [batch, voxels] each.
struct PcgArrays {
  std::int64_t batch, voxels;
  std::int64_t blocks;  ///< partial sums of an item: pcg_blocks(voxels)
  const cfloat* b;
  cfloat *x, *r, *p, *q;
  cfloat* z;                      ///< the preconditioned residual, or nullptr: inverse_diagonal times r
  const float* inverse_diagonal;  ///< [voxels]; nullptr: 1
  double* partial;                ///< [batch, blocks, 3]: |b|^2 or <p, q>; |r|^2; <r, z>
  double* product;                ///< [batch]: <p, q> of CUDA's steps
  std::int32_t* arrived;          ///< [batch], zero between operations: CUDA's blocks that have their sums
  double* residuals;              ///< [batch, length]
  std::int64_t length;
  PcgState* states;  ///< [batch]
  double tolerance;
};

ECHOTRAIN_HOST_DEVICE inline float normalizing_factor(double power) {
  return power == 0 ? 0.0f : static_cast<float>(1 / sqrt(power));
}

/// The power iteration's first vector: 1 plus a pseudo-random number between -1/2 and 1/2.
ECHOTRAIN_HOST_DEVICE inline float pcg_start_value(std::int64_t i) {
  std::uint64_t h = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ull;
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9ull;
  return 0.5f + static_cast<float>(h >> 40) * 0x1p-24f;
}

// clang-format off
ECHOTRAIN_BACKENDS(
/// The number of partial sums of n values, the same for any number of threads.
std::int64_t pcg_blocks(std::int64_t n);
/// Calls `step` `times` times, or until no item runs. On CUDA, small images use a graph that loops by itself, if it may
/// and can be recorded; the returned object must live until the work is done.
std::shared_ptr<void> pcg_loop(Context& context, const PcgArrays& a, int times, bool may_record,
                               const std::function<void()>& step);
/// r = b - q, q being (A + lambda R) x; adds up the start's sums.
void pcg_residual(Context& context, const PcgArrays& a);
/// Adds up <r, z> where z is a separate array.
void pcg_product(Context& context, const PcgArrays& a);
/// Calls PcgState::start() for each item; p = 0.
void pcg_start(Context& context, const PcgArrays& a);
/// p = z + beta p for the items that run.
void pcg_turn(Context& context, const PcgArrays& a);
/// q += shift p; adds up <p, q>.
void pcg_direction(Context& context, const PcgArrays& a, float shift);
/// Calls PcgState::step(); x += alpha p and r -= alpha q for the items that move; adds up their sums.
void pcg_advance(Context& context, const PcgArrays& a);
/// Calls PcgState::finish().
void pcg_finish(Context& context, const PcgArrays& a);
/// x = 0 for items whose state says `clear`.
void pcg_clear(Context& context, const PcgArrays& a);
/// to = factor from, a factor per voxel. [batch, voxels]
void multiply_real(Context& context, const cfloat* from, const float* factor, cfloat* to, std::int64_t batch,
                   std::int64_t voxels);
/// inverse = scale / max(a + shift b, floor times the largest finite one of these, and FLT_MIN); b may be nullptr.
void invert(Context& context, const float* a, float shift, const float* b, float floor, float scale, float* inverse,
            std::int64_t n);
/// data *= 1 / sqrt(*power), or 0 where *power is 0.
void normalize(Context& context, const double* power, cfloat* data, std::int64_t n);
/// data[i] = pcg_start_value(i)
void fill_start(Context& context, cfloat* data, std::int64_t n);
/// power[v] = sum_c |maps[c, v]|^2
void map_power(Context& context, const cfloat* maps, std::int64_t coils, std::int64_t voxels, float* power);
)
// clang-format on

}  // namespace echotrain::numerics
