// The kernel's priorities give cores to threads that move bytes first, then to threads that compute.
#pragma once

#include <chrono>

namespace echotrain::server {

/// Lets the calling thread go first: it moves the sessions' bytes, has little to do, and all scans wait for it. So it
/// goes before those that compute (5 steps of nice(2), where the system lets it: RLIMIT_NICE, LimitNICE= of a unit),
/// and takes their core when it wakes (Linux from 6.12 on). Threads that it starts inherit both.
void raise_priority();

/// Lets the calling thread, which computes, go after those: `yields` steps after others that compute, whoever has
/// started it. It leaves its core to others that wake, and to threads that compute and yield to nobody if it yields.
void lower_priority(int yields);

/// Returns the calling thread, as the functions below take it.
int this_thread();
/// Lets a thread of this process that computes come to an end: it yields to nobody, if the system lets it.
void stop_yielding(int thread);
/// Returns for how long a thread of this process had been ready without a core when it last got one; 0 where the system
/// does not count that (Linux: /proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst).
std::chrono::nanoseconds run_queue_delay(int thread);

}  // namespace echotrain::server
