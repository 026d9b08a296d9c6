#include "gadgets/least_squares/realtime/cg_sense_options.h"

#include <bit>

#include "gadgets/numerics/inverse/solver/fixed_cg.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"

namespace echotrain {

Parameters<CgSenseRealtimeOptions> cg_sense_parameters() {
  using Options = CgSenseRealtimeOptions;
  return Parameters<Options>()
      .integer("iterations", &Options::iterations, 1, numerics::FixedCgOptions::kMostIterations,
               "steps of each frame, whatever the residual is")
      .number(
          "lambda", &Options::lambda, 0, 100,
          "weight of the difference to the frame before, relative to a bound on the largest eigenvalue of F^H F (of "
          "samples anywhere, the largest value of its spectrum on the doubled grid, two to four times as large; of "
          "Cartesian lines 1, which it is); more of it shows less noise and fewer streaks, and later what moves")
      .number("tikhonov", &Options::tikhonov, 0, 100, "weight of the image's own size, likewise")
      .number("accuracy", &Options::accuracy, 1e-6, 0.1, "relative RMS error of F^H d and F^H F. Samples anywhere only")
      .integer("average", &Options::average, 1, 1000,
               "coil maps come from the mean of about so many frames; a frame's share then falls by 1 / average with "
               "each frame after it. Of Cartesian lines, as many as bring all lines, or more")
      .unit("frames")
      .integer("refresh", &Options::refresh, 0, 1000000,
               "the maps are made again after so many frames, and after the first 1, 2, 4, ... of `average` (of "
               "Cartesian lines before each of the first `average` frames); 0: only after these")
      .unit("frames")
      .integer("calibration", &Options::calibration, 8, 256,
               "extent of the middle of k-space that coil maps are made from, per axis")
      .unit("samples")
      .integer("block", &Options::block, 1, numerics::kMostBlock, "extent of the neighbourhood of coil maps (Walsh)")
      .unit("voxels");
}

bool maps_are_due(std::int64_t frames, std::int64_t average, std::int64_t refresh) {
  if (frames <= average && std::has_single_bit(static_cast<std::uint64_t>(frames))) return true;
  return frames == average || (refresh > 0 && frames % refresh == 0);
}

}  // namespace echotrain
