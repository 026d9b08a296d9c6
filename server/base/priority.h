// Whose turn it is on a core: threads that move bytes, then threads that compute.
#pragma once

#include <chrono>

namespace echotrain::server {

/// The calling thread moves the sessions' bytes: it has little to do, and all scans wait for it, so it goes before
/// those that compute (5 steps of nice(2), where the system lets it: RLIMIT_NICE, LimitNICE= of a unit), and takes
/// their core when it wakes (Linux from 6.12 on). Threads that it starts inherit both.
void go_first();

/// The calling thread computes, whoever has started it; `yields` steps after others that do. It leaves its core to
/// others that wake, and to threads that compute and yield to nobody if it yields.
void go_after(int yields);

/// The calling thread, for the other function.
int this_thread();
/// A thread of this process that computes is to come to an end: it yields to nobody, if the system lets it.
void yield_no_more(int thread);
/// How long a thread of this process has been ready and had no core, as it was when it last got one; 0 where the system
/// does not count that (Linux: /proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst).
std::chrono::nanoseconds waited_for_core(int thread);

}  // namespace echotrain::server
