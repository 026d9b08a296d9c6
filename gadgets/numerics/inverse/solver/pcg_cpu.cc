#include <algorithm>
#include <cfloat>
#include <cmath>

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/core/reduce/reductions_cpu.h"
#include "gadgets/numerics/inverse/solver/pcg_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece
constexpr std::int64_t kBlocks = 128;       // partial sums

float* floats(cfloat* values) { return reinterpret_cast<float*>(values); }
const float* floats(const cfloat* values) { return reinterpret_cast<const float*>(values); }

ECHOTRAIN_CLONES double dot(const float* a, const float* b, std::int64_t n) {
  double sums[kSums] = {};
  for_terms(n, [&](std::int64_t l, std::int64_t i)
                   ECHOTRAIN_INLINE_LAMBDA { sums[l] += static_cast<double>(a[i]) * static_cast<double>(b[i]); });
  return add_up(sums);
}

/// <r, inverse_diagonal r>; n floats, two for each factor.
ECHOTRAIN_CLONES double weighted_power(const float* r, const float* inverse_diagonal, std::int64_t n) {
  double sums[kSums] = {};
  for_terms(n / 2, [&](std::int64_t l, std::int64_t i) ECHOTRAIN_INLINE_LAMBDA {
    const double re = static_cast<double>(r[2 * i]), im = static_cast<double>(r[2 * i + 1]);
    sums[l] += static_cast<double>(inverse_diagonal[i]) * (re * re + im * im);
  });
  return add_up(sums);
}

/// q += shift p; <p, q>
ECHOTRAIN_CLONES double shifted_dot(const float* p, float shift, float* q, std::int64_t n) {
  double sums[kSums] = {};
  for_terms(n, [&](std::int64_t l, std::int64_t i) ECHOTRAIN_INLINE_LAMBDA {
    const float v = q[i] + shift * p[i];
    q[i] = v;
    sums[l] += static_cast<double>(p[i]) * static_cast<double>(v);
  });
  return add_up(sums);
}

/// x += alpha p, r -= alpha q; |r|^2
ECHOTRAIN_CLONES double advance(float alpha, const float* p, const float* q, float* x, float* r, std::int64_t n) {
  double sums[kSums] = {};
  for_terms(n, [&](std::int64_t l, std::int64_t i) ECHOTRAIN_INLINE_LAMBDA {
    x[i] += alpha * p[i];
    const float v = r[i] - alpha * q[i];
    r[i] = v;
    sums[l] += static_cast<double>(v) * static_cast<double>(v);
  });
  return add_up(sums);
}

/// p = z + beta p, where z is inverse_diagonal r if that is given.
ECHOTRAIN_CLONES void turn(const float* z, const float* inverse_diagonal, float beta, float* p, std::int64_t n) {
  if (inverse_diagonal == nullptr) {
    for (std::int64_t i = 0; i < n; ++i) p[i] = z[i] + beta * p[i];
    return;
  }
  for (std::int64_t i = 0; i < n / 2; ++i) {
    p[2 * i] = inverse_diagonal[i] * z[2 * i] + beta * p[2 * i];
    p[2 * i + 1] = inverse_diagonal[i] * z[2 * i + 1] + beta * p[2 * i + 1];
  }
}

ECHOTRAIN_CLONES void subtract(const float* a, const float* b, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = a[i] - b[i];
}

ECHOTRAIN_CLONES void multiply(const float* from, const float* factor, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    to[2 * i] = from[2 * i] * factor[i];
    to[2 * i + 1] = from[2 * i + 1] * factor[i];
  }
}

/// Calls work(first voxel in the whole batch, voxels, the block's partial sums, its item, first voxel in the item) for
/// the blocks of all items for which `wanted` holds.
template <class Wanted, class Work>
void for_blocks(Context& context, const PcgArrays& a, const Wanted& wanted, const Work& work) {
  const std::int64_t per_block = (a.voxels + kBlocks - 1) / kBlocks;
  context.threads().parallel_for(
      a.batch * kBlocks, std::max<std::int64_t>(1, kGrain / per_block), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t u = begin; u < end; ++u) {
          const std::int64_t item = u / kBlocks, first = std::min(a.voxels, u % kBlocks * per_block);
          if (!wanted(a.states[item])) continue;
          work(item * a.voxels + first, std::min(per_block, a.voxels - first), a.partial + 3 * u, item, first);
        }
      });
}
const auto any = [](const PcgState&) { return true; };
const auto running = [](const PcgState& state) { return state.status == PcgState::running; };

struct Sums {
  double values[3] = {0, 0, 0};
};
Sums sums_of(const PcgArrays& a, std::int64_t item) {
  Sums sums;
  for (std::int64_t b = 0; b < kBlocks; ++b)
    for (int i = 0; i < 3; ++i) sums.values[i] += a.partial[3 * (item * kBlocks + b) + i];
  return sums;
}

/// <r, z> as far as it is known without an array z.
double product_with_z(const PcgArrays& a, const float* r, std::int64_t first, std::int64_t n, double power) {
  if (a.z != nullptr) return 0;
  return a.inverse_diagonal == nullptr ? power : weighted_power(r, a.inverse_diagonal + first, 2 * n);
}

}  // namespace

std::int64_t pcg_blocks(std::int64_t) { return kBlocks; }

std::shared_ptr<void> pcg_loop(Context&, const PcgArrays& a, int times, bool, const std::function<void()>& step) {
  for (int i = 0; i < times && std::any_of(a.states, a.states + a.batch, running); ++i) step();
  return nullptr;
}

void pcg_residual(Context& context, const PcgArrays& a) {
  for_blocks(context, a, any, [&](std::int64_t at, std::int64_t n, double* partial, std::int64_t, std::int64_t first) {
    float* r = floats(a.r + at);
    subtract(floats(a.b + at), floats(a.q + at), r, 2 * n);
    partial[0] = dot(floats(a.b + at), floats(a.b + at), 2 * n);
    partial[1] = dot(r, r, 2 * n);
    partial[2] = product_with_z(a, r, first, n, partial[1]);
  });
}

void pcg_product(Context& context, const PcgArrays& a) {
  for_blocks(context, a, running, [&](std::int64_t at, std::int64_t n, double* partial, std::int64_t, std::int64_t) {
    partial[2] = dot(floats(a.r + at), floats(a.z + at), 2 * n);
  });
}

void pcg_start(Context& context, const PcgArrays& a) {
  for (std::int64_t i = 0; i < a.batch; ++i) {
    const Sums sums = sums_of(a, i);
    a.states[i].start(sums.values[0], sums.values[1], sums.values[2], a.tolerance, a.residuals + i * a.length);
  }
  context.clear(DeviceView<cfloat>(a.p, {a.batch, a.voxels}));
}

void pcg_turn(Context& context, const PcgArrays& a) {
  for_blocks(context, a, running, [&](std::int64_t at, std::int64_t n, double*, std::int64_t item, std::int64_t first) {
    const float* scale = a.inverse_diagonal == nullptr ? nullptr : a.inverse_diagonal + first;
    turn(floats((a.z != nullptr ? a.z : a.r) + at), scale, a.states[item].beta, floats(a.p + at), 2 * n);
  });
}

void pcg_direction(Context& context, const PcgArrays& a, float shift) {
  for_blocks(context, a, running, [&](std::int64_t at, std::int64_t n, double* partial, std::int64_t, std::int64_t) {
    partial[0] = shifted_dot(floats(a.p + at), shift, floats(a.q + at), 2 * n);
  });
}

void pcg_advance(Context& context, const PcgArrays& a) {
  for (std::int64_t i = 0; i < a.batch; ++i) a.states[i].step(sums_of(a, i).values[0]);
  for_blocks(
      context, a, [](const PcgState& state) { return state.moving != 0; },
      [&](std::int64_t at, std::int64_t n, double* partial, std::int64_t item, std::int64_t first) {
        partial[1] = advance(a.states[item].alpha, floats(a.p + at), floats(a.q + at), floats(a.x + at),
                             floats(a.r + at), 2 * n);
        partial[2] = product_with_z(a, floats(a.r + at), first, n, partial[1]);
      });
}

void pcg_finish(Context& /*context*/, const PcgArrays& a) {
  for (std::int64_t i = 0; i < a.batch; ++i) {
    const Sums sums = sums_of(a, i);
    a.states[i].finish(sums.values[1], sums.values[2], a.tolerance, a.residuals + i * a.length);
  }
}

void pcg_clear(Context& context, const PcgArrays& a) {
  for (std::int64_t i = 0; i < a.batch; ++i)
    if (a.states[i].clear != 0) context.clear(DeviceView<cfloat>(a.x + i * a.voxels, {a.voxels}));
}

void multiply_real(Context& context, const cfloat* from, const float* factor, cfloat* to, std::int64_t batch,
                   std::int64_t voxels) {
  for (std::int64_t b = 0; b < batch; ++b)
    context.threads().parallel_for(voxels, kGrain, [&](std::int64_t begin, std::int64_t end) {
      multiply(floats(from + b * voxels + begin), factor + begin, floats(to + b * voxels + begin), end - begin);
    });
}

void invert(Context& context, const float* a, float shift, const float* b, float floor, float scale, float* inverse,
            std::int64_t n) {
  const auto pieces = [&](const auto& work) {
    context.threads().parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) work(i);
    });
  };
  pieces([=](std::int64_t i) { inverse[i] = a[i] + (b == nullptr ? 0.0f : shift * b[i]); });
  const float least =
      std::max(floor * on_host::extremes(context.threads(), HostView<const float>(inverse, {n})).most, FLT_MIN);
  pieces([=](std::int64_t i) { inverse[i] = scale / std::max(inverse[i], least); });
}

void normalize(Context& context, const double* power, cfloat* data, std::int64_t n) {
  const float factor = normalizing_factor(*power);
  context.threads().parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) data[i] *= factor;
  });
}

void fill_start(Context& context, cfloat* data, std::int64_t n) {
  context.threads().parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) data[i] = pcg_start_value(i);
  });
}

void map_power(Context& context, const cfloat* maps, std::int64_t coils, std::int64_t voxels, float* power) {
  context.threads().parallel_for(voxels, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::fill(power + begin, power + end, 0.0f);
    for (std::int64_t c = 0; c < coils; ++c)
      for (std::int64_t v = begin; v < end; ++v) power[v] += std::norm(maps[c * voxels + v]);
  });
}

}  // namespace echotrain::numerics::cpu
