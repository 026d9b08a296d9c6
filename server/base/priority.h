// The kernel's priorities give cores to threads that move bytes first, then to threads that compute.
#pragma once

#include <chrono>

namespace echotrain::server {

/// Lets the calling thread, which moves the sessions' bytes, go before those that compute, because all scans wait for
/// it: by 5 steps of nice(2), where the system allows that (RLIMIT_NICE, LimitNICE= of a unit), and by taking their
/// core when it wakes (Linux from 6.12 on). Threads that it starts inherit both.
void raise_priority();

/// Lets the calling thread, which computes, go after those: `yields` steps after other computing threads. It leaves its
/// core to threads that wake and, if it yields, to computing threads that do not.
void lower_priority(int yields);

/// Returns the calling thread, as the functions below take it.
int this_thread();
/// Lets a computing thread of this process come to an end: it no longer yields, if the system allows that.
void stop_yielding(int thread);
/// Returns for how long a thread of this process had been ready without a core when it last got one; 0 where the system
/// does not count that (Linux: /proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst).
std::chrono::nanoseconds run_queue_delay(int thread);

}  // namespace echotrain::server
