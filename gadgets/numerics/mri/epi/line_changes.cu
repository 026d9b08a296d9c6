#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/epi/line_changes.h"

namespace echotrain::numerics {

/// Coils of a line are done together, so that its change is read once.
struct ChangedLines {
  static constexpr int kLanes[] = {0, 16, 1024};
  static constexpr bool kClones = true;
  const LineChange* changes;
  const cfloat* phases;
  std::int64_t each;
  const cfloat* from;
  std::int64_t coils, n;
  cfloat* to;

  template <int kCoils, int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t line, Lanes<kCoils> c, Lanes<kMost> x) const {
    const std::int64_t set = changes[line].set, row = (line * coils + c.first) * n, last = n / 2 * 2;
    const bool turned = changes[line].turned != 0;
    const Complex factor{changes[line].factor.real(), changes[line].factor.imag()};
    const cfloat *of_x = phases + (set * each + (each == 1 ? 0 : c.first)) * n + x.first, *source = from + row;
    cfloat* target = to + row + x.first;
    for (int i = 0; i < c.count; ++i, of_x += each == 1 ? 0 : n, source += n, target += n) {
      if (!turned) {
        for (int l = 0; l < x.count; ++l) store(factor * load(of_x + l) * load(source + x.first + l), target + l);
        continue;
      }
      Complex values[kMost];
      for (int l = 0; l < x.count; ++l) {
        const std::int64_t opposite = last - x.first - l;
        values[l] = load(source + (opposite < n ? opposite : 0));
      }
      for (int l = 0; l < x.count; ++l) store(factor * load(of_x + l) * values[l], target + l);
    }
  }
};
ECHOTRAIN_MAP(ChangedLines, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <algorithm>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/epi/line_changes_ops.h"

namespace echotrain::numerics {

void change_lines(Context& context, HostView<const LineChange> changes, DeviceView<const cfloat> phases,
                  DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  const Shape &p = phases.shape(), &f = from.shape();
  const bool fits = p.rank() == 3 && f.rank() == 3 && to.shape() == f && changes.shape().size() == f[0] &&
                    p[2] == f[2] && (p[1] == 1 || p[1] == f[1]);
  if (!fits)
    throw std::invalid_argument(fmt::format("change_lines: {} changes and phases {} do not fit lines {} and {}",
                                            changes.shape().size(), p.text(), f.text(), to.shape().text()));
  const auto bad = [&](const LineChange& change) { return change.set < 0 || change.set >= p[0]; };
  if (std::any_of(changes.data(), changes.data() + f[0], bad))
    throw std::invalid_argument(fmt::format("change_lines: a line has phases that are not among {}", p.text()));
  if (f.size() == 0) return;
  const Readable<LineChange> there(context, changes);
  map(context, {f[0], f[1], f[2]}, ChangedLines{there.data(), phases.data(), p[1], from.data(), f[1], f[2], to.data()});
}

void combine_samples(Context& context, HostView<const std::int32_t> sets, DeviceView<const float> weights,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  const Shape &w = weights.shape(), &f = from.shape(), &t = to.shape();
  const bool fits = w.rank() == 3 && f.rank() == 3 && t.rank() == 3 && sets.shape().size() == f[0] && t[0] == f[0] &&
                    t[1] == f[1] && w[1] == f[2] && w[2] == t[2];
  if (!fits)
    throw std::invalid_argument(fmt::format("combine_samples: {} sets and weights {} do not fit lines {} and {}",
                                            sets.shape().size(), w.text(), f.text(), t.text()));
  if (std::any_of(sets.data(), sets.data() + f[0], [&](std::int32_t set) { return set < 0 || set >= w[0]; }))
    throw std::invalid_argument(fmt::format("combine_samples: a line has weights that are not among {}", w.text()));
  if (t.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, combine_samples(context, sets, weights, from, to));
}

}  // namespace echotrain::numerics
#endif
