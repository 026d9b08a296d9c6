// Stamps that cannot be times since an R wave.
#include "gadgets/readouts/gating/stamp_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace echotrain::testing {
namespace {

/// Returns the check's text for readouts every `step_ms`, whose stamp is `since_ms` of their time in units of
/// `stamp_tick_ms`.
std::string said(double step_ms, const std::function<double(double)>& since_ms, double stamp_tick_ms = 2.5,
                 double until_ms = 10000) {
  StampCheck check({.stamp = 1});
  for (double ms = 0; ms < until_ms; ms += step_ms) {
    protocol::AcquisitionHeader head{};
    head.acquisition_time_stamp = static_cast<std::uint32_t>(ms / 2.5);
    head.physiology_time_stamp[1] = static_cast<std::uint32_t>(since_ms(ms) / stamp_tick_ms);
    const std::string wrong = check.add(head);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

TEST(StampCheckTest, TimesSinceAnRWavePass) {
  for (const double step : {1.0, 3.8, 7.9, 80.0, 333.0})
    for (const double interval : {118.0, 800.0, 3000.0})
      EXPECT_EQ(said(step, [&](double ms) { return std::fmod(ms + 50, interval); }), "") << step << ", " << interval;
  EXPECT_EQ(said(5, [](double) { return 0.0; }), "");  // nobody wrote them
}

TEST(StampCheckTest, AnotherUnitIsNamed) {
  const auto beats = [](double ms) { return std::fmod(ms, 900); };
  const std::string milliseconds = said(5, beats, 1);
  EXPECT_NE(milliseconds.find("physiology_time_stamp[1] rises by 2.5"), std::string::npos) << milliseconds;
  EXPECT_NE(milliseconds.find("stamp_tick_ms (2.5)"), std::string::npos);
  const std::string coarse = said(5, beats, 10);
  EXPECT_NE(coarse.find("rises by 0.2"), std::string::npos) << coarse;
}

TEST(StampCheckTest, AStampThatStaysIsNamed) {
  const std::string stays = said(5, [](double) { return 42.5; });
  EXPECT_NE(stays.find("physiology_time_stamp[1] stays 17 while"), std::string::npos) << stays;
  EXPECT_NE(stays.find("stamp: 0, 1 or 2"), std::string::npos);
}

TEST(StampCheckTest, OneWrongStretchIsNoReason) {
  EXPECT_EQ(said(5, [](double ms) { return ms > 4000 && ms < 4900 ? 4000 : ms; }), "");
}

TEST(StampCheckTest, WithoutAnIntervalItSaysWhatItSaw) {
  StampCheck check({});
  protocol::AcquisitionHeader head{};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(check.add(head), "");
  EXPECT_NE(check.no_interval(0).find("physiology_time_stamp[0] is 0 in all 5 readouts, which nobody wrote"),
            std::string::npos);
  head.physiology_time_stamp[0] = 3;
  check.add(head);
  EXPECT_NE(check.no_interval(1).find("found 1 heartbeats in physiology_time_stamp[0]"), std::string::npos);
}

}  // namespace
}  // namespace echotrain::testing
