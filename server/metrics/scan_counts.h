// The counts of a scan are numbers of messages, images and plans.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "gadgets/api/scan.h"

namespace echotrain::server {

/// Counted once, by the scan's worker; the scan's summary holds a copy, and a ScanMeter adds up what is new.
struct ScanCounts {
  std::uint64_t readouts = 0, waveforms = 0, images_in = 0;   ///< received
  std::map<std::string, std::uint64_t, std::less<>> skipped;  ///< messages left out, by kind
  ScanNumbers work;                                           ///< by the pipeline: plans made and reused, odd images
  std::uint64_t peak_bytes = 0;                               ///< of arrays
};

}  // namespace echotrain::server
