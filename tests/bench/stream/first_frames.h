// A first frame is the first image of a server that was just started, of a scan that nobody could know.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace echotrain::bench {

/// A pipeline and the scans that it gets. Coils, matrices, noise and the first angle differ from draw to draw.
struct FirstCase {
  std::string name, pipeline;
};
const std::vector<FirstCase>& first_cases();

struct FirstTimes {
  double ready_ms = 0;    ///< from the start of the process until /readyz says 200
  double first_ms = 0;    ///< of the first image of the first scan: last readout given to the socket -> last byte read
  double later_ms = 0;    ///< of its second frame
  double again_ms = 0;    ///< of the first image of the same scan, sent once more
  double error = 0;       ///< of the first image: NRMSE against the object as an ideal reconstruction shows it
  double difference = 0;  ///< of its pixels when the scan came once more, the largest one relative to the largest pixel
  std::string shape;      ///< what was drawn, in words
};

/// Starts a server with an empty cache folder, leaves it alone for `idle_s` after it is ready, and sends it a scan
/// twice, a readout each millisecond. `compiled`: folder of what CUDA's driver has compiled for earlier servers; empty:
/// it has compiled nothing yet. std::runtime_error when images are missing.
FirstTimes first_frames(const FirstCase& of, const std::string& backend, double idle_s, const std::string& compiled,
                        std::uint64_t seed);

/// Lets a server warm up for `idle_s`, so that CUDA's driver leaves in `compiled` what it compiles.
void fill_compiled(const std::string& backend, double idle_s, const std::string& compiled);

}  // namespace echotrain::bench
