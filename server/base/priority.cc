#include "server/base/priority.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>

namespace echotrain::server {

namespace {

constexpr int kAhead = 5;

// On Linux from 6.12 on, a thread that wakes takes the core of one whose slice is longer; else it may wait for the
// kernel's next tick, up to 4 ms. Older kernels take no notice. Threads with the kernel's own slice (1.4 ms on two
// cores), other programs' too, go before threads that compute, and these before those that yield.
using Slice = std::chrono::nanoseconds;
constexpr Slice kMovesBytes = std::chrono::microseconds(100), kComputes = std::chrono::milliseconds(3),
                kPatient = std::chrono::milliseconds(10);

/// The attributes as sched_setattr(2) takes them; not every C library declares them.
struct Attributes {
  std::uint32_t size = sizeof(Attributes), policy = 0;
  std::uint64_t flags = 0x08;  // SCHED_FLAG_KEEP_POLICY
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;  // the slice [ns]
  std::uint64_t deadline = 0, period = 0;
};

// Linux has a nice value for each thread, and means the calling one by 0.
int nice_now() { return ::getpriority(PRIO_PROCESS, 0); }

bool set(int nice, Slice slice) {
  Attributes attributes;
  attributes.nice = nice;
  attributes.runtime = static_cast<std::uint64_t>(slice.count());
  return ::syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

// A slice needs no permission, a lower nice value does.
void be(int nice, Slice slice) {
  if (set(nice, slice)) return;
  ::setpriority(PRIO_PROCESS, 0, nice);
  set(nice_now(), slice);
}

// The nice value that the process was started with, before any thread has changed its own.
const int nice_of_process = nice_now();

}  // namespace

void raise_priority() { be(nice_of_process - kAhead, kMovesBytes); }
void lower_priority(int yields) { be(nice_of_process + yields, yields > 0 ? kPatient : kComputes); }

int this_thread() { return ::gettid(); }
void stop_yielding(int thread) { ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), nice_of_process); }

std::chrono::nanoseconds run_queue_delay(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/schedstat");
  std::int64_t ran = 0, waited = 0;
  return std::chrono::nanoseconds(file >> ran >> waited ? waited : 0);
}

}  // namespace echotrain::server
