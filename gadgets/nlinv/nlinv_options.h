// The common options of both forms of `nlinv_realtime` and of `nlinv_sms`.
#pragma once

#include <cstdint>
#include <utility>

#include "gadgets/api/parameters.h"
#include "gadgets/numerics/inverse/nlinv/frame_median.h"
#include "gadgets/numerics/inverse/nlinv/nlinv.h"

namespace echotrain {

/// The options; add_nlinv_parameters() explains them.
struct NlinvRealtimeOptions {
  std::int64_t newton_steps = 6;
  std::int64_t inner = 7;
  std::int64_t first_frame_passes = 2;
  double damping = 0.9;
  double alpha = 1;
  double reduction = 0.5;
  double scale = 100;
  std::int64_t median = 1;
  double field = 1;
  double accuracy = 1e-3;
};
/// Adds the rows of NlinvRealtimeOptions after those of `table`, whose options are these or have them as a base.
template <class Options>
Parameters<Options> add_nlinv_parameters(Parameters<Options> table) {
  return std::move(table)
      .integer("newton_steps", inherited<Options>(&NlinvRealtimeOptions::newton_steps), 1,
               numerics::NlinvOptions::kMostSteps, "Newton steps of a frame, always that many")
      .integer(
          "inner", inherited<Options>(&NlinvRealtimeOptions::inner), 1, numerics::NlinvOptions::kMostInner,
          "steps of conjugate gradients in a Newton step, in the mean; they rise with the step, from 2 to 12 for 6 "
          "Newton steps of 7: 42 in all. Their number is fixed, so that every frame takes the same time")
      .integer("first_frame_passes", inherited<Options>(&NlinvRealtimeOptions::first_frame_passes), 1,
               numerics::NlinvOptions::kMostPasses,
               "how often the first frame of a slice is solved: at first from nothing, then from its own solution, "
               "which it is drawn to as later frames are drawn to the frame before. It takes as many times as long")
      .number("damping", inherited<Options>(&NlinvRealtimeOptions::damping), 0, 1,
              "the frame before, times this, is what a frame is drawn to; 0: frames differ as they like, near 1: what "
              "moves leaves a trace")
      .number("alpha", inherited<Options>(&NlinvRealtimeOptions::alpha), 1e-9, 1e9,
              "weight of that in the first Newton step")
      .number("reduction", inherited<Options>(&NlinvRealtimeOptions::reduction), 0.01, 1,
              "factor of the weight from one Newton step to the next")
      .number(
          "scale", inherited<Options>(&NlinvRealtimeOptions::scale), 1e-3, 1e6,
          "what the data of the first frame are scaled to in the 2-norm (of slices excited at once, each one's) before "
          "alpha counts: more trusts the data more. Images are in the unit of the data all the same")
      .integer("median", inherited<Options>(&NlinvRealtimeOptions::median), 1, numerics::kMostMedianFrames,
               "an image shows the median of the magnitudes of this many frames up to its own, against streaks that "
               "differ from frame to frame; it then lags by half of them. 1: none")
      .number("field", inherited<Options>(&NlinvRealtimeOptions::field), 1, 2,
              "extent that is solved for over that of the image, which is its middle: more than 1 where the object is "
              "larger than the image. The time grows with the square. Samples anywhere only")
      .number("accuracy", inherited<Options>(&NlinvRealtimeOptions::accuracy), 1e-5, 0.1,
              "relative RMS error of the gridding. Samples anywhere only");
}
inline Parameters<NlinvRealtimeOptions> nlinv_parameters() {
  return add_nlinv_parameters(Parameters<NlinvRealtimeOptions>());
}
numerics::NlinvOptions solver_options(const NlinvRealtimeOptions& options);

}  // namespace echotrain
