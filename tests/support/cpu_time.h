// The CPU time is that of this process or of one of its threads: other programs of the machine do not count.
#pragma once

#include <ctime>

namespace echotrain {

inline double seconds_of(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// CPU time of all threads of this process so far [s].
inline double cpu_seconds() { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

/// CPU time of the calling thread so far [s].
inline double thread_cpu_seconds() { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace echotrain
