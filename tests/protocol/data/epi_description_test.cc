// The headers say much of EPI's readouts.
#include "protocol/data/epi_description.h"

#include <gtest/gtest.h>

#include <string>

namespace echotrain::protocol {
namespace {

AcquisitionHeader flagged(std::initializer_list<int> flags) {
  AcquisitionHeader head{};
  for (const int flag : flags) head.flags = head.flags | std::uint64_t{1} << (flag - 1);
  return head;
}

TEST(EpiReadoutTest, ReversedLinesOfEpiAreLines) {
  EXPECT_EQ(readout_kind(flagged({22}), Trajectory::epi), ReadoutKind::imaging);
  EXPECT_EQ(readout_kind(flagged({22}), Trajectory::cartesian), ReadoutKind::other);
  EXPECT_EQ(readout_kind(flagged({20, 22}), Trajectory::epi), ReadoutKind::calibration);
  EXPECT_EQ(readout_kind(flagged({24, 22}), Trajectory::epi), ReadoutKind::phase_correction);
  EXPECT_EQ(readout_kind(flagged({27, 22}), Trajectory::epi), ReadoutKind::other);  // a dummy scan
  EXPECT_EQ(readout_kind(flagged({}), Trajectory::epi), ReadoutKind::imaging);
}

std::string header(const std::string& first, const std::string& second, const std::string& prefix = "") {
  const auto encoding = [&](const std::string& text) {
    return "<" + prefix + "encoding>" + text + "</" + prefix + "encoding>";
  };
  return "<" + prefix + "ismrmrdHeader>" + encoding(first) + encoding(second) + "</" + prefix + "ismrmrdHeader>";
}

TEST(TrajectoryDescriptionTest, NumbersByName) {
  const std::string text =
      "<trajectoryDescription><identifier> ConventionalEPI </identifier>"
      "<userParameterLong><name>rampUpTime</name><value> 190 </value></userParameterLong>"
      "<userParameterLong><name>etl</name><value>many</value></userParameterLong>"
      "<userParameterDouble><name>dwellTime</name><value>3.5</value></userParameterDouble>"
      "<userParameterString><name>flatTopTime</name><value>160</value></userParameterString>"
      "<userParameterDouble><name>nested</name><value>\n <value>2</value>\n</value></userParameterDouble>"
      "</trajectoryDescription>";
  const auto found = trajectory_description(header("", text), 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->identifier, "ConventionalEPI");
  EXPECT_EQ(found->value("rampUpTime"), 190.0);
  EXPECT_EQ(found->value("dwellTime"), 3.5);
  EXPECT_EQ(found->value("nested"), 2.0);
  EXPECT_EQ(found->value("etl"), std::nullopt);
  EXPECT_EQ(found->value("flatTopTime"), std::nullopt);
  EXPECT_FALSE(trajectory_description(header("", text), 0));
  EXPECT_FALSE(trajectory_description(header("", text), 2));
  EXPECT_FALSE(trajectory_description("not XML", 0));
}

TEST(TrajectoryDescriptionTest, PrefixesDoNotMatter) {
  const std::string text =
      "<m:trajectoryDescription><m:identifier>Own</m:identifier><m:userParameterLong><m:name>numSamples</m:name>"
      "<m:value>136</m:value></m:userParameterLong></m:trajectoryDescription>";
  const auto found = trajectory_description(header(text, "", "m:"), 0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->identifier, "Own");
  EXPECT_EQ(found->value("numSamples"), 136.0);
}

TEST(MultibandTest, WhatTheHeaderSays) {
  const std::string all =
      "<parallelImaging><accelerationFactor/><multiband><spacing><dZ>22.5</dZ><dZ> 20 "
      "</dZ></spacing><spacing><dZ>x</dZ>"
      "</spacing><deltaKz>-0.0125</deltaKz><multiband_factor>4</multiband_factor></multiband></parallelImaging>";
  const auto found = multiband(header("", all), 1);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->factor, 4u);
  EXPECT_EQ(found->delta_kz, -0.0125);
  EXPECT_EQ(found->spacing_mm, (std::vector<double>{22.5, 20}));
  EXPECT_FALSE(multiband(header("", all), 0));
  const auto with = [](const std::string& factor) {
    return multiband(header("<parallelImaging><multiband><multiband_factor>" + factor +
                                "</multiband_factor></multiband></parallelImaging>",
                            ""),
                     0);
  };
  ASSERT_TRUE(with("2"));
  EXPECT_TRUE(with("2")->spacing_mm.empty());
  EXPECT_EQ(with("2")->delta_kz, 0);
  for (const char* factor : {"", "0", "1.5", "two", "1e9"}) EXPECT_FALSE(with(factor)) << factor;
}

}  // namespace
}  // namespace echotrain::protocol
