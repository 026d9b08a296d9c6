// Programs that stand for the process which tries a GPU.
#include "server/health/canary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/health/device_check.h"
#include "tests/server/http_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class CanaryTest : public testing::Test {
 protected:
  CanaryTest() : file_(std::filesystem::path(testing::TempDir()) / fmt::format("echotrain_canary_{}", ::getpid())) {
    std::filesystem::remove(file_);
  }
  ~CanaryTest() override {
    canary_.stop();
    std::filesystem::remove(file_);
  }
  /// Scans on GPU 2 that fail one after the other.
  static void fail(Canary& canary, int scans) {
    for (int i = 0; i < scans; ++i) canary.scan_failed({2}, "unknown error");
  }
  /// A shell that runs this; each run first leaves a line in the file, with the devices' numbers.
  std::vector<std::string> shell(const std::string& text) const {
    return {"/bin/sh", "-c", fmt::format("echo $0 $* >>{}; {}", file_.string(), text)};
  }
  static std::vector<std::string> exits(int status) { return {"/bin/sh", "-c", fmt::format("exit {}", status)}; }
  std::string said() const {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool broken() const { return readiness_->state() == Readiness::State::broken; }
  /// Lets `program` answer, and comes back when it has.
  void ask(std::vector<std::string> program, Canary::Times times = {.most = 20s, .pause = 0s}) {
    std::filesystem::remove(file_);
    Canary canary(readiness_, times);
    canary.use(std::move(program));
    fail(canary, Canary::kFailures);
    // Another one is asked only when this one has answered.
    canary.use(shell("exit 0"));
    EXPECT_TRUE(eventually([&] {
      fail(canary, Canary::kFailures);
      return broken() || !said().empty();
    }));
    canary.stop();
  }

  const std::filesystem::path file_;
  const std::shared_ptr<Readiness> readiness_ = std::make_shared<Readiness>();
  Canary canary_{readiness_, {.most = 20s, .pause = 0s}};
};

TEST_F(CanaryTest, ADeviceThatFailsANewProcessTooIsLost) {
  canary_.use(shell(fmt::format("exit {}", Canary::kBroken)));
  fail(canary_, Canary::kFailures);
  EXPECT_TRUE(eventually([&] { return broken(); }));
  EXPECT_THAT(readiness_->reason(), HasSubstr("a GPU is lost: 3 scans in a row have failed on GPU 2 (unknown error)"));
  EXPECT_EQ(said(), "2\n");
}

// Neither a device that works, nor an answer of any other kind.
TEST_F(CanaryTest, NoOtherAnswerMeansThatItIs) {
  for (const int status : {Canary::kWorks, Canary::kUnknown, 1, 2, 127}) ask(exits(status));
  ask({"/bin/sh", "-c", "kill -9 $$"});
  ask({"/bin/sh", "-c", "kill -TERM $$"});
  ask({"/nowhere/canary"});
  ask({"/bin/sh", "-c", fmt::format("sleep 5; exit {}", Canary::kBroken)}, {.most = 100ms, .pause = 0s});
  EXPECT_FALSE(broken());
}

TEST_F(CanaryTest, OneThatSucceedsBetweenBeginsTheCountAnew) {
  canary_.use(shell("exit 0"));
  for (int i = 0; i < 5; ++i) {
    fail(canary_, Canary::kFailures - 1);
    canary_.scan_succeeded({2});
  }
  for (int i = 0; i < 5; ++i) {
    canary_.scan_failed({0}, "of another device");
    canary_.scan_succeeded({0});
  }
  fail(canary_, 1);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(said(), "");
  fail(canary_, Canary::kFailures - 1);
  EXPECT_TRUE(eventually([&] { return said() == "2\n"; }));
}

TEST_F(CanaryTest, IsNotAskedMoreOftenThanOnceInItsPause) {
  Canary canary(readiness_, {.most = 20s, .pause = 1h});
  canary.use(shell("exit 0"));
  fail(canary, 100);
  EXPECT_TRUE(eventually([&] { return said() == "2\n"; }));
  for (int i = 0; i < 20; ++i) {
    fail(canary, 100);
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(said(), "2\n");
  canary.stop();
}

// Nor does that count as one that was asked.
TEST_F(CanaryTest, NobodyIsAskedWithoutAProgram) {
  Canary canary(readiness_, {.most = 20s, .pause = 1h});
  fail(canary, 100);
  canary.use(shell("exit 0"));
  fail(canary, 1);
  EXPECT_TRUE(eventually([&] { return said() == "2\n"; }));
  canary.stop();
}

// Nobody knows which one of several GPUs that worked together failed.
TEST_F(CanaryTest, TriesAllDevicesOfAScan) {
  canary_.use(shell("exit 0"));
  for (int i = 0; i < Canary::kFailures; ++i) canary_.scan_failed({0, 3}, "unknown error");
  EXPECT_TRUE(eventually([&] { return said() == "0 3\n"; }));
}

TEST_F(CanaryTest, DoesNotTryADeviceThatWorksWithoutTheOthers) {
  canary_.use(shell("exit 0"));
  for (int i = 0; i < Canary::kFailures; ++i) {
    canary_.scan_succeeded({0});
    canary_.scan_failed({0, 3}, "unknown error");
  }
  EXPECT_TRUE(eventually([&] { return said() == "3\n"; }));
}

// A child that holds a socket of the server's keeps its port; one that cannot be signalled cannot be ended.
TEST_F(CanaryTest, TheChildHasNoDescriptorsAndNoSignalMaskOfTheServers) {
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int inherited = ::fcntl(null, F_DUPFD, 100);  // above those of the shell's own
  ::close(null);
  ASSERT_GE(inherited, 100);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto ignored = std::signal(SIGUSR1, SIG_IGN);
  // The shell reads its status itself, as it blocks signals while it starts a program.
  canary_.use(
      shell(fmt::format("{{ ls /proc/$$/fd; while read -r line; do case $line in Sig*) echo \"$line\";; esac; "
                        "done </proc/$$/status; echo end; }} >>{}",
                        file_.string())));
  fail(canary_, Canary::kFailures);
  EXPECT_TRUE(eventually([&] { return said().ends_with("end\n"); }));
  std::signal(SIGUSR1, ignored);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(inherited);
  EXPECT_THAT(said(), Not(HasSubstr(fmt::format("\n{}\n", inherited))));
  EXPECT_THAT(said(), HasSubstr("SigBlk:\t0000000000000000\n"));
  const std::string ignores = "SigIgn:\t";
  ASSERT_THAT(said(), HasSubstr(ignores));
  const std::uint64_t mask = std::stoull(said().substr(said().find(ignores) + ignores.size()), nullptr, 16);
  EXPECT_EQ(mask & (std::uint64_t{1} << (SIGUSR1 - 1)), 0U);  // of the C library's own, nobody can say
}

TEST_F(CanaryTest, AStopEndsTheChild) {
  Canary canary(readiness_, {.most = 1h, .pause = 0s});
  canary.use(shell("exec sleep 3600"));
  fail(canary, Canary::kFailures);
  EXPECT_TRUE(eventually([&] { return said() == "2\n"; }));
  canary.stop();  // or for an hour
  fail(canary, 100);
  EXPECT_EQ(said(), "2\n");
}

// CUDA's errors: none; no memory, a driver that was exchanged (35, 803), held by another process, a limit of the
// operating system (304), MPS without a place (805 to 809); invalid value, no device, ECC, illegal address, unknown.
TEST(DeviceCheck, TellsADeviceThatIsBrokenFromOneThatIsTaken) {
  EXPECT_EQ(device_status(0), Canary::kWorks);
  for (const int error : {2, 35, 46, 304, 803, 805, 806, 807, 808, 809})
    EXPECT_EQ(device_status(error), Canary::kUnknown) << error;
  for (const int error : {1, 100, 214, 700, 999}) EXPECT_EQ(device_status(error), Canary::kBroken) << error;
}

}  // namespace
}  // namespace echotrain::server
