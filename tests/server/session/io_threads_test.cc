// The number of threads that move the sessions' bytes follows from the machine.
#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "gadgets/numerics/core/thread_pool.h"
#include "server/session/environment.h"

namespace echotrain::server {
namespace {

/// A container or taskset may leave few of the machine's cores.
TEST(IoThreads, AreNoMoreThanTheCoresThatMayBeUsed) {
  EXPECT_LE(io_threads({}), numerics::usable_cores());
  int threads = 0;
  std::jthread([&threads] {  // whose cores are its own
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    threads = io_threads({});
  })
      .join();
  EXPECT_EQ(threads, 1);
}

TEST(IoThreads, AreOneThatSpins) {
  config::ServerOptions options;
  options.latency = true;
  EXPECT_EQ(io_threads(options), 1);
}

}  // namespace
}  // namespace echotrain::server
