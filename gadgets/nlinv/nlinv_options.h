// Options of both forms of the gadget `nlinv_realtime`.
#pragma once

#include <cstdint>

#include "gadgets/api/parameters.h"
#include "gadgets/numerics/nlinv/nlinv.h"

namespace echotrain {

/// nlinv_parameters() says what they mean.
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
Parameters<NlinvRealtimeOptions> nlinv_parameters();
numerics::NlinvOptions solver_options(const NlinvRealtimeOptions& options);

}  // namespace echotrain
