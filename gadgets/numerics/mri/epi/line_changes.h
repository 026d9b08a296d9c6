// Corrections of EPI lines in profile space: phases, and reversal of lines that were read backwards.
#pragma once

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The change of one line.
struct LineChange {
  std::int32_t set = 0;     ///< the index of its phases
  std::int32_t turned = 0;  ///< 1: x becomes -x about floor(n/2)
  cfloat factor{1, 0};      ///< factor of the whole line
};

/// to[i, c, x] = factor_i * phases[set_i, c, x] * from[i, c, x'] with x' = x, or, of a turned line, 2 floor(n/2) - x
/// modulo n. changes: [readout]; phases: [set, coil, x], or [set, 1, x] for all coils; from, to: [readout, coil, x],
/// which must not overlap. Throws std::invalid_argument for shapes that do not fit and for sets that are not there.
void change_lines(Context& context, HostView<const LineChange> changes, DeviceView<const cfloat> phases,
                  DeviceView<const cfloat> from, DeviceView<cfloat> to);

/// to[i, c, x] = sum_s weights[set_i, s, x] from[i, c, s]. sets: [readout]; weights: [set, sample, x]; from: [readout,
/// coil, sample]; to: [readout, coil, x], which must not overlap `from`. Each line is done separately, so its bits do
/// not depend on the batches. Throws std::invalid_argument as above.
void combine_samples(Context& context, HostView<const std::int32_t> sets, DeviceView<const float> weights,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
