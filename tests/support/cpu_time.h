// What this process has computed.
#pragma once

#include <ctime>

namespace echotrain {

/// CPU time of all threads of this process so far [s]: other programs of the machine do not count.
inline double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace echotrain
