#include "server/scan/scan_load.h"

#include <gtest/gtest.h>

#include <cmath>

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

const Clock::time_point kBirth{1000s};

TEST(ScanLoad, NothingIsKnownOfANewScan) {
  const ScanLoad load(kBirth);
  EXPECT_DOUBLE_EQ(load.share(kBirth), ScanLoad::kNew);
  // The prior counts like 0.1 s of the mean.
  EXPECT_NEAR(load.share(kBirth + 100ms), ScanLoad::kNew / 2, 1e-9);
  EXPECT_NEAR(load.share(kBirth + 900ms), ScanLoad::kNew / 10, 1e-9);
}

// 1.2 ms for each image of 15 ms: 8 %. In an exponential mean of 1 s, an image more or less is 0.0012.
TEST(ScanLoad, APacedScanHasTheShareThatItsImagesTake) {
  ScanLoad load(kBirth);
  auto now = kBirth;
  for (int i = 0; i < 300; ++i, now += 15ms) load.image(now, now + 1200us);
  EXPECT_NEAR(load.share(now), 0.08, 0.0015);
}

TEST(ScanLoad, AThreadThatComputesCountsBeforeItEnds) {
  ScanLoad load(kBirth);
  load.begin(kBirth);
  EXPECT_NEAR(load.share(kBirth + 900ms), 1 - (1 - ScanLoad::kNew) / 10, 1e-9);
  EXPECT_GT(load.share(kBirth + 5s), 0.99);
  load.end(kBirth + 5s);
  EXPECT_NEAR(load.share(kBirth + 6s), std::exp(-1.0), 0.01);
  EXPECT_LT(load.share(kBirth + 10s), 0.01);
}

// Images that overlap, and that are in work while the thread waits, are counted once.
TEST(ScanLoad, ImagesThatOverlapCountOnce) {
  ScanLoad load(kBirth);
  for (int i = 0; i < 500; ++i) {
    const auto begin = kBirth + i * 10ms;
    load.begin(begin);
    load.end(begin + 1ms);
    load.image(begin, begin + 25ms);
  }
  const double share = load.share(kBirth + 5s);
  EXPECT_GT(share, 0.98);
  EXPECT_LE(share, 1);
}

}  // namespace
}  // namespace echotrain::server
