// What a pipeline says of the reference lines of Cartesian scans.
#pragma once

#include <cstdint>

#include "gadgets/api/parameters.h"

namespace echotrain {

/// Where blocks of calibration are taken from (CalibrationLines), and what else reference lines are for.
struct ReferenceOptions {
  enum class From { automatic, embedded, separate, sliding, center, none };

  From calibration = From::automatic;
  std::int64_t calibration_lines = 64;  ///< rows of a block, per axis, at most
  std::int64_t refresh = 0;             ///< sliding: frames after which a block is made anew; 0: never
  bool put_back = true;                 ///< PutBack
};

/// The same as parameters of a gadget.
Parameters<ReferenceOptions> reference_parameters();

}  // namespace echotrain
