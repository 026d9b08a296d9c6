// The headers say much of EPI's readouts.
#include "protocol/data/epi_description.h"

#include <gtest/gtest.h>

#include <memory>
#include <pugixml.hpp>
#include <string>

namespace echotrain::protocol {
namespace {

/// An element `encoding`, as it is in a header.
class EncodingXml {
 public:
  explicit EncodingXml(const std::string& text) {
    EXPECT_TRUE(document_.load_string(("<encoding>" + text + "</encoding>").c_str())) << text;
  }
  const pugi::xml_node element() const { return document_.child("encoding"); }

 private:
  pugi::xml_document document_;
};

std::shared_ptr<const TrajectoryDescription> described(const std::string& text) {
  return trajectory_description(EncodingXml(text).element());
}
std::shared_ptr<const Multiband> multiband_of(const std::string& text) {
  return multiband(EncodingXml(text).element());
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
  const auto found = described(text);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->identifier, "ConventionalEPI");
  EXPECT_EQ(found->value("rampUpTime"), 190.0);
  EXPECT_EQ(found->value("dwellTime"), 3.5);
  EXPECT_EQ(found->value("nested"), 2.0);
  EXPECT_EQ(found->value("etl"), std::nullopt);
  EXPECT_EQ(found->value("flatTopTime"), std::nullopt);
  EXPECT_FALSE(described(""));
  EXPECT_FALSE(trajectory_description({}));
}

/// A header is kept several times: what it may say is bounded.
TEST(TrajectoryDescriptionTest, ValuesAreBounded) {
  std::string text = "<trajectoryDescription>";
  for (std::size_t i = 0; i < TrajectoryDescription::kMostValues + 10; ++i)
    text += "<userParameterLong><name>n" + std::to_string(i) + "</name><value>1</value></userParameterLong>";
  const auto found = described(text + "</trajectoryDescription>");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->values.size(), TrajectoryDescription::kMostValues);
  EXPECT_TRUE(found->value("n0"));
}

TEST(TrajectoryDescriptionTest, PrefixesDoNotMatter) {
  const std::string text =
      "<m:trajectoryDescription><m:identifier>Own</m:identifier><m:userParameterLong><m:name>numSamples</m:name>"
      "<m:value>136</m:value></m:userParameterLong></m:trajectoryDescription>";
  const auto found = described(text);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->identifier, "Own");
  EXPECT_EQ(found->value("numSamples"), 136.0);
}

TEST(MultibandTest, WhatTheHeaderSays) {
  const std::string all =
      "<parallelImaging><accelerationFactor/><multiband><spacing><dZ>22.5</dZ><dZ> 20 "
      "</dZ></spacing><spacing><dZ>x</dZ>"
      "</spacing><deltaKz>-0.0125</deltaKz><multiband_factor>4</multiband_factor></multiband></parallelImaging>";
  const auto found = multiband_of(all);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->factor, 4u);
  EXPECT_EQ(found->delta_kz, -0.0125);
  EXPECT_EQ(found->spacing_mm, (std::vector<double>{22.5, 20}));
  EXPECT_FALSE(multiband_of(""));
  const auto with = [](const std::string& factor) {
    return multiband_of("<parallelImaging><multiband><multiband_factor>" + factor +
                        "</multiband_factor></multiband></parallelImaging>");
  };
  ASSERT_TRUE(with("2"));
  EXPECT_TRUE(with("2")->spacing_mm.empty());
  EXPECT_EQ(with("2")->delta_kz, 0);
  for (const char* factor : {"", "0", "1.5", "two", "1e9"}) EXPECT_FALSE(with(factor)) << factor;
  std::string many;
  for (std::uint32_t i = 0; i < Multiband::kMostSlices + 10; ++i) many += "<dZ>1</dZ>";
  EXPECT_EQ(with("2</multiband_factor><spacing>" + many + "</spacing><multiband_factor>2")->spacing_mm.size(),
            Multiband::kMostSlices);
}

}  // namespace
}  // namespace echotrain::protocol
