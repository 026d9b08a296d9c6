// Options of both forms of the gadget `cg_sense_realtime`.
#pragma once

#include <cstdint>

#include "gadgets/api/parameters.h"

namespace echotrain {

/// The options; cg_sense_parameters() explains them.
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
Parameters<CgSenseRealtimeOptions> cg_sense_parameters();

/// True if maps are made again after the frame of this number, counted from 1.
bool maps_are_due(std::int64_t frames, std::int64_t average, std::int64_t refresh);

}  // namespace echotrain
