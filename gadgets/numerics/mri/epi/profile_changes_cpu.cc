#include <algorithm>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/thread_scratch.h"
#include "gadgets/numerics/mri/epi/profile_changes_ops.h"
#include "gadgets/numerics/transforms/fft/fftw_plans_cpu.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kTogether = 16;         // coils of a line that are transformed together
constexpr std::int64_t kElements = 16 * 1024;  // elements of a piece of work

/// line *= factor * phases, as pairs of floats.
ECHOTRAIN_CLONES void multiply_line(const float* phases, cfloat factor, float* line, std::int64_t n) {
  const float re = factor.real(), im = factor.imag();
  for (std::int64_t x = 0; x < n; ++x) {
    const float pr = re * phases[2 * x] - im * phases[2 * x + 1], pi = re * phases[2 * x + 1] + im * phases[2 * x];
    const float a = line[2 * x], b = line[2 * x + 1];
    line[2 * x] = pr * a - pi * b;
    line[2 * x + 1] = pr * b + pi * a;
  }
}

/// Some coils of a line in this thread's working space, in the order of FFTs. The plans depend on the number of coils.
class SomeCoils {
 public:
  SomeCoils(FftwPlans& plans, std::int64_t n, std::int64_t coils)
      : n_(n), distance_((n + 7) / 8 * 8), together_(std::min(coils, kTogether)) {
    const std::int64_t rest = coils % together_;
    for (const Direction direction : {Direction::inverse, Direction::forward}) {
      const auto make = [&](std::int64_t lines) {
        return plans.get(n, lines, distance_, direction, scratch(), scratch());
      };
      full_[direction == Direction::forward] = make(together_);
      if (rest > 0) rest_[direction == Direction::forward] = make(rest);
    }
  }
  std::int64_t together() const { return together_; }

  /// `phases` are those of the first coil; those of the next one are `stride` further on.
  void change(const cfloat* from, std::int64_t coils, const LineChange& change, const cfloat* phases,
              std::int64_t stride, cfloat* to) const {
    const std::int64_t middle = n_ / 2;
    cfloat* lines = scratch();
    const auto& plans = coils == together_ ? full_ : rest_;
    for (std::int64_t c = 0; c < coils; ++c) {
      cfloat* line = lines + c * distance_;
      std::copy(from + c * n_ + middle, from + (c + 1) * n_, line);
      std::copy(from + c * n_, from + c * n_ + middle, line + n_ - middle);
    }
    FftwPlans::execute(plans[0], lines, lines);
    for (std::int64_t c = 0; c < coils; ++c) {
      cfloat* line = lines + c * distance_;
      if (change.turned != 0) std::reverse(line + 1, line + n_);
      multiply_line(reinterpret_cast<const float*>(phases + c * stride), change.factor, reinterpret_cast<float*>(line),
                    n_);
    }
    FftwPlans::execute(plans[1], lines, lines);
    for (std::int64_t c = 0; c < coils; ++c) {
      const cfloat* line = lines + c * distance_;
      std::copy(line, line + n_ - middle, to + c * n_ + middle);
      std::copy(line + n_ - middle, line + n_, to + c * n_);
    }
  }

 private:
  cfloat* scratch() const {
    return reinterpret_cast<cfloat*>(
        thread_scratch<SomeCoils>(2 * static_cast<std::size_t>(together_) * static_cast<std::size_t>(distance_)));
  }

  std::int64_t n_, distance_, together_;
  FftwPlans::Plan full_[2] = {}, rest_[2] = {};  // inverse, forward
};

}  // namespace

ProfilePhases profile_phases(Context& context, HostView<const cfloat> phases) {
  const std::int64_t n = phases.shape()[2], middle = n / 2;
  ProfilePhases out{context.allocate<cfloat>(phases.shape())};
  const float scale = 1.0f / static_cast<float>(n);
  for (std::int64_t row = 0; row < phases.size() / n; ++row)
    for (std::int64_t x = 0; x < n; ++x)
      out.values.data()[row * n + x] = scale * phases.data()[row * n + (x + middle) % n];
  return out;
}

void change_profiles(Context& context, HostView<const LineChange> changes, const ProfilePhases& phases,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  const std::int64_t coils = from.shape()[1], n = from.shape()[2], each = phases.values.shape()[1];
  auto& plans = context.cache<FftwPlans>();
  plans.trim();
  const SomeCoils some(plans, n, coils);
  const std::int64_t groups = (coils + some.together() - 1) / some.together();
  context.threads().parallel_for(
      from.shape()[0] * groups, std::max<std::int64_t>(1, kElements / (n * some.together())),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const LineChange& change = changes.data()[unit / groups];
          const std::int64_t first = unit % groups * some.together(), count = std::min(some.together(), coils - first);
          const std::int64_t at = (unit / groups * coils + first) * n;
          if (change.set == kLineStays) {
            std::copy_n(from.data() + at, count * n, to.data() + at);
            continue;
          }
          const cfloat* factors = phases.values.data() + (change.set * each + (each == 1 ? 0 : first)) * n;
          some.change(from.data() + at, count, change, factors, each == 1 ? 0 : n, to.data() + at);
        }
      });
}

}  // namespace echotrain::numerics::cpu
