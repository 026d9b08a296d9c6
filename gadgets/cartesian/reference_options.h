// The options of a pipeline for the reference lines of Cartesian scans.
#pragma once

#include <cstdint>

#include "gadgets/api/parameters.h"

namespace echotrain {

/// The source of calibration blocks (CalibrationLines), and the other uses of reference lines.
struct ReferenceOptions {
  enum class From { automatic, embedded, separate, sliding, average, center, none };

  From calibration = From::automatic;
  std::int64_t calibration_lines = 64;  ///< the most rows of a block, per axis
  std::int64_t refresh = 0;             ///< sliding: frames after which a block is made anew; 0: never
  bool put_back = true;                 ///< AcsReinsertion is used
};

/// The options as parameters of a gadget.
Parameters<ReferenceOptions> reference_parameters();

}  // namespace echotrain
