#include "server/base/priority.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace echotrain::server {

namespace {

constexpr int kAhead = 5;

// Linux has a nice value for each thread, and means the calling one by 0.
int nice_now() { return ::getpriority(PRIO_PROCESS, 0); }
void be(int nice) { ::setpriority(PRIO_PROCESS, 0, nice); }

// What the process was started with, before any thread has changed its own.
const int nice_of_process = nice_now();

}  // namespace

void go_first() { be(nice_of_process - kAhead); }
void go_after(int yields) {
  const int nice = nice_of_process + yields;
  if (nice != nice_now()) be(nice);
}

int this_thread() { return ::gettid(); }
void yield_no_more(int thread) { ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), nice_of_process); }

std::chrono::nanoseconds waited_for_core(int thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/schedstat");
  std::int64_t ran = 0, waited = 0;
  return std::chrono::nanoseconds(file >> ran >> waited ? waited : 0);
}

}  // namespace echotrain::server
