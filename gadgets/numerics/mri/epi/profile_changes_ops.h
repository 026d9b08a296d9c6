// Changes of profiles of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/epi/profile_changes.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
ProfilePhases profile_phases(Context& context, HostView<const cfloat> phases);
void change_profiles(Context& context, HostView<const LineChange> changes, const ProfilePhases& phases,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to);
)
// clang-format on

}  // namespace echotrain::numerics
