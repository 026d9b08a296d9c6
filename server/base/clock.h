// The clock that all timeouts of the server use.
#pragma once

#include <chrono>

namespace echotrain::server {

using Clock = std::chrono::steady_clock;

/// Converts seconds, as options give times.
inline Clock::duration seconds(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

}  // namespace echotrain::server
