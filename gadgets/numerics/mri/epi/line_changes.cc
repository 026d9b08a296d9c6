#include "gadgets/numerics/mri/epi/line_changes.h"

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
  ECHOTRAIN_DISPATCH(context, change_lines(context, changes, phases, from, to));
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
