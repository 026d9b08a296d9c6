// The steps of the conjugate gradients on each backend; arguments were checked. Dot products are part of the steps that
// make what they sum, and are added up as those of reductions.h are.
#pragma once

#include <cmath>
#include <functional>
#include <memory>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/operators/cg_steps.h"
#include "gadgets/numerics/solver/pcg.h"

namespace echotrain::numerics {

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
  std::int32_t* arrived;          ///< [batch], zero between operations: CUDA's parts that have their sums
  double* residuals;              ///< [batch, length]
  std::int64_t length;
  PcgState* states;  ///< [batch]
  double tolerance;
};

ECHOTRAIN_HOST_DEVICE inline float normalizing_factor(double power) {
  return power == 0 ? 0.0f : static_cast<float>(1 / sqrt(power));
}

/// The power iteration's first vector: 1 plus something between -1/2 and 1/2 that looks random.
ECHOTRAIN_HOST_DEVICE inline float pcg_start_value(std::int64_t i) {
  std::uint64_t h = static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ull;
  h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9ull;
  return 0.5f + static_cast<float>(h >> 40) * 0x1p-24f;
}

/// Takes at most so many steps as LinearOperator::take_steps() does, and sets *runs; false: it cannot, and has done
/// nothing.
using SeveralSteps = std::function<bool(int steps, int* runs)>;

// clang-format off
ECHOTRAIN_BACKENDS(
/// Partial sums of n values, whatever the number of threads.
std::int64_t pcg_blocks(std::int64_t n);
/// Calls `step` `times` times, or until no item runs. CUDA: where there is `several` and it can, in its place; for
/// small images as a graph that loops by itself, if it may be recorded and that is possible; the returned object must
/// live until the work is done.
std::shared_ptr<void> pcg_loop(Context& context, const PcgArrays& a, int times, bool may_record,
                               const std::function<void()>& step, const SeveralSteps& several);
/// r = b - q, q being (A + lambda R) x; the start's sums.
void pcg_residual(Context& context, const PcgArrays& a);
/// The sum <r, z> where z is an array of its own.
void pcg_product(Context& context, const PcgArrays& a);
/// PcgState::start() for each item; p = 0.
void pcg_start(Context& context, const PcgArrays& a);
/// p = z + beta p for the items that run.
void pcg_turn(Context& context, const PcgArrays& a);
/// q += shift p, and <p, q>.
void pcg_direction(Context& context, const PcgArrays& a, float shift);
/// PcgState::step(), x += alpha p and r -= alpha q for the items that move; their sums.
void pcg_advance(Context& context, const PcgArrays& a);
/// PcgState::finish().
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
