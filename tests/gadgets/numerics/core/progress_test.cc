#include "gadgets/numerics/core/progress.h"

#include <gtest/gtest.h>

#include "gadgets/numerics/core/context.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

using namespace std::chrono_literals;
using Clock = ProgressAge::Clock;

class ProgressTest : public ::testing::Test {
 protected:
  /// Returns the progress's age so much later.
  double look(Clock::duration later) {
    now_ += later;
    return std::chrono::duration<double>(age_.look(now_)).count();
  }
  const std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
  Clock::time_point now_ = Clock::now();
  ProgressAge age_{progress_, now_};
};

TEST_F(ProgressTest, AgesUntilTheNextStep) {
  EXPECT_EQ(look(1s), 1);
  EXPECT_EQ(look(1s), 2);
  progress_->step();
  EXPECT_EQ(look(1s), 0);
  EXPECT_EQ(look(1s), 1);
}

TEST_F(ProgressTest, DoesNotAgeWhileItWaits) {
  look(1s);
  {
    const Progress::Wait client(*progress_);
    const Progress::Wait turn(*progress_);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(look(1s), 0);
  }
  EXPECT_EQ(look(1s), 0);  // the end of a wait is a step
  EXPECT_EQ(look(1s), 1);
  progress_->end();
  EXPECT_EQ(look(1s), 0);
  EXPECT_EQ(look(1s), 0);
}

// A process that was stopped for an hour has not hung for an hour, nor for a small max_step_s.
TEST_F(ProgressTest, DoesNotAgeWhileNobodyLooks) { EXPECT_EQ(look(1h), 1); }

TEST_F(ProgressTest, KnowsWhereItIs) {
  EXPECT_EQ(progress_->at(), nullptr);
  const std::string outer = "fft", inner = "image";
  {
    const Progress::Stay here(progress_.get(), outer);
    {
      const Progress::Stay there(progress_.get(), inner);
      EXPECT_EQ(*progress_->at(), "image");
    }
    EXPECT_EQ(*progress_->at(), "fft");
    const Progress::Stay nobody(nullptr, inner);
  }
  EXPECT_EQ(progress_->at(), nullptr);
}

/// Returns the steps that a thread shows while it runs `work`.
template <class Work>
std::uint64_t steps_of(const Work& work) {
  const auto progress = std::make_shared<Progress>();
  Progress::of_thread() = progress;
  work();
  Progress::of_thread() = nullptr;
  EXPECT_FALSE(progress->on_device());  // of the CPU
  return progress->steps();
}

TEST(Progress, CountsLooksAtTheStopToken) {
  const std::uint64_t steps = steps_of([] {
    Context compute(Backend::cpu, test_resources());
    for (int i = 0; i < 10; ++i) compute.check_stop();
    StopCheck check(compute.threads());
    for (int i = 0; i < 1 << 15; ++i) check();
  });
  EXPECT_EQ(steps, 12U);  // the second looks once in 2^14 calls
}

TEST(Progress, CountsPiecesOfParallelLoops) {
  std::stop_source source;
  const std::uint64_t steps = steps_of([&] {
    Context compute(Backend::cpu, test_resources(/*threads=*/1), {.stop_token = source.get_token()});
    compute.threads().parallel_for(50, 1, [](std::int64_t begin, std::int64_t end) {
      for (; begin < end; ++begin) std::this_thread::sleep_for(6ms);
    });
  });
  EXPECT_GE(steps, 50U);  // of 5 ms, which one element exceeds
}

TEST(Progress, IsNobodysWhereNobodyLooks) {
  const auto progress = std::make_shared<Progress>();
  Context compute(Backend::cpu, test_resources());
  compute.check_stop();
  EXPECT_EQ(Progress::of_thread(), nullptr);
  EXPECT_EQ(progress->steps(), 0U);
}

}  // namespace
}  // namespace echotrain::numerics
