#include "gadgets/numerics/mri/epi/profile_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/epi/profile_changes_ops.h"

namespace echotrain::numerics {

ProfilePhases profile_phases(Context& context, HostView<const cfloat> phases) {
  if (phases.shape().rank() != 3 || phases.size() == 0)
    throw std::invalid_argument(
        fmt::format("profile_phases: phases are [set, coil or 1, x], not {}", phases.shape().text()));
  return ECHOTRAIN_DISPATCH(context, profile_phases(context, phases));
}

void change_profiles(Context& context, HostView<const LineChange> changes, const ProfilePhases& phases,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  const Shape &p = phases.values.shape(), &f = from.shape();
  const bool fits = p.rank() == 3 && f.rank() == 3 && to.shape() == f && changes.shape().size() == f[0] &&
                    p[2] == f[2] && (p[1] == 1 || p[1] == f[1]);
  if (!fits)
    throw std::invalid_argument(fmt::format("change_profiles: {} changes and phases {} do not fit lines {} and {}",
                                            changes.shape().size(), p.text(), f.text(), to.shape().text()));
  const auto bad = [&](const LineChange& change) {
    return change.set != kLineStays && (change.set < 0 || change.set >= p[0]);
  };
  if (std::any_of(changes.data(), changes.data() + f[0], bad))
    throw std::invalid_argument(fmt::format("change_profiles: a line has phases that are not among {}", p.text()));
  if (f.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, change_profiles(context, changes, phases, from, to));
}

}  // namespace echotrain::numerics
