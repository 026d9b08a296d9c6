// Processes that do not end by themselves.
#include "server/forced_exit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "server/base/log.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

TEST(LastResortDeathTest, EndsTheProcessAndSaysWhatHung) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        set_up_log("info");  // on stderr
        ForcedExit last_resort;
        last_resort.arm(20ms, [] { return std::string("session 7 hangs"); });
        std::this_thread::sleep_for(20s);
      },
      testing::ExitedWithCode(EXIT_FAILURE), "session 7 hangs");
}

// A supervisor tells by the status why the process has ended.
TEST(LastResortDeathTest, EndsTheProcessWithTheStatusOfThatMoment) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        ForcedExit last_resort;
        std::atomic<int> status = 1;
        last_resort.arm(
            500ms, [] { return std::string("session 7 hangs"); }, [&] { return status.load(); });
        status = 3;
        std::this_thread::sleep_for(20s);
      },
      testing::ExitedWithCode(3), "");
}

TEST(ForcedExit, DoesNothingOnceDisarmedOrGone) {
  {
    ForcedExit disarmed, gone;
    for (ForcedExit* each : {&disarmed, &gone}) each->arm(2s, [] { return std::string("not to be seen"); });
    disarmed.disarm();
  }
  std::this_thread::sleep_for(2500ms);
}

}  // namespace
}  // namespace echotrain::server
