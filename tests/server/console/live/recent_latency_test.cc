#include "server/console/live/recent_latency.h"

#include <gtest/gtest.h>

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

constexpr Clock::time_point kStart{1000s};

TEST(RecentLatency, RanksAsANearestRankDoes) {
  RecentLatency delays;
  for (int i = 200; i >= 1; --i) delays.add(static_cast<float>(i), kStart + 5s);
  delays.add(1000, kStart + 6s);
  const RecentLatency::Strip strip = delays.strip(kStart + 6s);
  EXPECT_EQ(strip.all.count, 201U);
  EXPECT_EQ(strip.all.p50, 101);  // 1..200 and 1000: the 101st of 201
  EXPECT_EQ(strip.all.p99, 199);  // ceil(0.99 * 201) = 199
  EXPECT_EQ(strip.seconds[58].count, 200U);
  EXPECT_EQ(strip.seconds[58].p50, 100);
  EXPECT_EQ(strip.seconds[58].p99, 198);
  EXPECT_EQ(strip.seconds[59].p50, 1000);
  EXPECT_EQ(strip.seconds[57].count, 0U);
}

TEST(RecentLatency, ForgetsAfterAMinute) {
  RecentLatency delays;
  delays.add(7, kStart);
  EXPECT_EQ(delays.strip(kStart + 59s).seconds[0].p50, 7);
  EXPECT_EQ(delays.strip(kStart + 60s).all.count, 0U);
  delays.add(8, kStart + 60s);  // in the place of the first
  const RecentLatency::Strip strip = delays.strip(kStart + 60s);
  EXPECT_EQ(strip.all.count, 1U);
  EXPECT_EQ(strip.all.p99, 8);
}

TEST(RecentLatency, KeepsTheNewestOfASecond) {
  RecentLatency delays;
  for (std::size_t i = 0; i < 3 * RecentLatency::kMostOfSecond; ++i)
    delays.add(i < 2 * RecentLatency::kMostOfSecond ? 1.0f : 5.0f, kStart);
  const RecentLatency::Strip strip = delays.strip(kStart);
  EXPECT_EQ(strip.all.count, 3 * RecentLatency::kMostOfSecond);
  EXPECT_EQ(strip.all.p50, 5);
}

}  // namespace
}  // namespace echotrain::server
