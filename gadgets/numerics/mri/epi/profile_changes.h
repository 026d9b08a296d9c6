// Corrections of EPI lines in k-space: to the profile, the change and the way back in one pass.
#pragma once

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/epi/line_changes.h"

namespace echotrain::numerics {

/// The set of a line that change_profiles() leaves as it is, bit by bit.
inline constexpr std::int32_t kLineStays = -1;

/// Phases along profiles as the backend takes them: on the CPU in the order of FFTs, over n; on CUDA their transform,
/// with which a line is convolved.
struct ProfilePhases {
  Array<cfloat> values;  ///< [set, coil or 1, x]
};

/// phases: [set, coil, x], or [set, 1, x] for all coils, x = floor(n/2) being the middle of the profile. Asynchronous
/// on CUDA. Throws std::invalid_argument for other shapes.
ProfilePhases profile_phases(Context& context, HostView<const cfloat> phases);

/// to[i] = from[i] with its profile changed as by change_lines(); a line whose set is kLineStays is copied. k = 0 is
/// sample floor(n/2), and so is x = 0. changes: [readout]; from, to: [readout, coil, sample], which must not overlap.
///
/// Each line is done separately: its bits do not depend on the batches. The CPU transforms there and back by FFTW; on
/// CUDA, where a batch is one launch, a line is convolved with the transform of the phases (n^2 products), turned or
/// not. Throws std::invalid_argument for shapes that do not fit, and for sets that are not there.
void change_profiles(Context& context, HostView<const LineChange> changes, const ProfilePhases& phases,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
