// Options of CG-SENSE frame by frame: both forms of `cg_sense_realtime`, and `cg_sense_sms`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "gadgets/api/parameters.h"
#include "gadgets/numerics/inverse/solver/fixed_cg.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"

namespace echotrain {

/// The options; add_cg_sense_parameters() explains them.
struct CgSenseRealtimeOptions {
  std::int64_t iterations = 10;
  double lambda = 0.01;
  double tikhonov = 0;
  double accuracy = 1e-3;
  std::int64_t average = 8;
  std::int64_t refresh = 16;
  std::int64_t calibration = 20;
  std::int64_t block = 7;
};
/// Adds the rows of CgSenseRealtimeOptions after those of `table`, whose options are these or have them as a base.
/// largest: what lambda is relative to. lines: Cartesian lines are taken, too.
template <class Options>
Parameters<Options> add_cg_sense_parameters(Parameters<Options> table, const std::string& largest, bool lines) {
  using Shared = CgSenseRealtimeOptions;
  const auto of_lines = [lines](const std::string& text) { return lines ? text : std::string(); };
  return std::move(table)
      .integer("iterations", inherited<Options>(&Shared::iterations), 1, numerics::FixedCgOptions::kMostIterations,
               "steps of each frame, whatever the residual is")
      .number("lambda", inherited<Options>(&Shared::lambda), 0, 100,
              "weight of the difference to the frame before, relative to " + largest +
                  "; more of it shows less noise and fewer streaks, and later what moves")
      .number("tikhonov", inherited<Options>(&Shared::tikhonov), 0, 100, "weight of the image's own size, likewise")
      .number("accuracy", inherited<Options>(&Shared::accuracy), 1e-6, 0.1,
              "relative RMS error of F^H d and F^H F" + of_lines(". Samples anywhere only"))
      .integer("average", inherited<Options>(&Shared::average), 1, 1000,
               "coil maps come from the mean of about so many frames; a frame's share then falls by 1 / average with "
               "each frame after it" +
                   of_lines(". Of Cartesian lines, as many as bring all lines, or more"))
      .unit("frames")
      .integer("refresh", inherited<Options>(&Shared::refresh), 0, 1000000,
               "the maps are made again after so many frames, and after the first 1, 2, 4, ... of `average`" +
                   of_lines(" (of Cartesian lines before each of the first `average` frames)") +
                   "; 0: only after these")
      .unit("frames")
      .integer("calibration", inherited<Options>(&Shared::calibration), 8, 256,
               "extent of the middle of k-space that coil maps are made from, per axis")
      .unit("samples")
      .integer("block", inherited<Options>(&Shared::block), 1, numerics::kMostBlock,
               "extent of the neighbourhood of coil maps (Walsh)")
      .unit("voxels");
}
/// The rows of `cg_sense_realtime`.
Parameters<CgSenseRealtimeOptions> cg_sense_parameters();

/// Throws ClientError, which names the gadget, where coils are too many for maps.
void require_coils_for_maps(std::string_view gadget, std::int64_t coils);
/// True if maps are made again after the frame of this number, counted from 1.
bool maps_are_due(std::int64_t frames, std::int64_t average, std::int64_t refresh);

}  // namespace echotrain
