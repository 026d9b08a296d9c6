// Pairs of images of opposite blips in a chain: what is corrected by which, what waits, and what is said.
#include <gmock/gmock.h>

#include "tests/gadgets/sent_images.h"
#include "tests/support/distorted_lines.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kPairRows = 64, kPairColumns = 24;
constexpr double kPairMost = 3;

const DistortedLines& lines_of(bool rising) {
  static const DistortedLines up(kPairRows, kPairColumns, kPairMost), down(kPairRows, kPairColumns, -kPairMost);
  return rising ? up : down;
}

protocol::Image blips(const std::string& polarity, int repetition, int slice = 0) {
  const std::vector<cfloat>& one = lines_of(polarity != "down").distorted;
  std::vector<cfloat> coils = one;  // the second is twice as bright, and turned
  for (const cfloat& value : one) coils.push_back(value * cfloat(0, 2));
  Attributes meta;
  if (!polarity.empty()) meta.emplace_back("epi_blips", polarity);
  protocol::Image out = sent_image(coils, {kPairColumns, kPairRows, 1}, meta, 5);
  out.head.repetition = static_cast<std::uint16_t>(repetition);
  out.head.slice = static_cast<std::uint16_t>(slice);
  return out;
}

/// The shift changes by 0.3 rad of its sine from column to column and 0.088 rad along y: the smoothness, 0.02 (0.3^2 +
/// 0.088^2) = 0.002 beside 4 0.088^2 = 0.031, takes 6 % of it, 0.13 voxels in the mean. Blobs of 2.2 voxels that turn
/// by 0.2 rad a voxel then differ by 0.13 sqrt(1 / (2 2.2^2) + 0.2^2) = 0.05, and by 0.01 each for the brightness and
/// for what UnwarpTest leaves.
constexpr double kWithin = 0.07;

class BlipUpDownTest : public OnEachBackend {
 protected:
  Outcome correct(std::vector<protocol::Image> images, const std::string& parameters = "") const {
    return run_images("  - blip_up_down: {" + parameters + "}\n  - image: {component: complex}\n", std::move(images),
                      here());
  }
};

/// Returns the error of the first coil.
double error_of(const protocol::Image& image) {
  auto values = pixels<cfloat>(image);
  values.resize(static_cast<std::size_t>(kPairRows * kPairColumns));
  return nrmse(values, lines_of(true).object);
}

TEST_P(BlipUpDownTest, TheFirstPairCorrectsItselfAndWhatFollows) {
  const double distorted = nrmse(lines_of(true).distorted, lines_of(true).object);
  const auto out = correct({blips("up", 0), blips("up", 1), blips("down", 2), blips("down", 3), blips("up", 4)});
  ASSERT_EQ(out.images.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(out.images[i].head.repetition, i);
    EXPECT_LT(error_of(out.images[i]), kWithin) << i << ", distorted " << distorted;
    ASSERT_EQ(meta_of(out.images[i], "blip_up_down").size(), 1u);
    EXPECT_NEAR(std::stod(meta_of(out.images[i], "blip_up_down")[0]), kPairMost, 0.3);
    EXPECT_EQ(meta_of(out.images[i], "blip_difference").size(), 1u);
  }
  EXPECT_GT(distorted, 0.3);
  // A tenth of the smoothness takes a tenth of that.
  EXPECT_LT(error_of(correct({blips("up", 0), blips("down", 0)}, "smoothness: 0.002").images.at(0)), 0.03);
}

TEST_P(BlipUpDownTest, SlicesHavePairsOfTheirOwn) {
  const auto out = correct({blips("up", 0, 0), blips("down", 0, 1), blips("up", 1, 1), blips("up", 1, 0)});
  ASSERT_EQ(out.images.size(), 4u);
  for (const auto& image : out.images)
    EXPECT_EQ(meta_of(image, "blip_up_down") == Values{"none"}, image.head.slice == 0) << image.head.repetition;
  EXPECT_EQ(out.warned("2 images have no partner"), 1);
}

TEST_P(BlipUpDownTest, ImagesThatWaitTooLongLeaveAsTheyAre) {
  std::vector<protocol::Image> images;
  for (int n = 0; n < 5; ++n) images.push_back(blips("up", n));
  images.push_back(blips("down", 5));
  images.push_back(blips("up", 6));
  const auto out = correct(images, "wait: 3");
  ASSERT_EQ(out.images.size(), 7u);
  EXPECT_EQ(out.warned("more than 3 images of a slice have come, all with blips that run up"), 1);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(out.images[i].head.repetition, i);
    EXPECT_EQ(meta_of(out.images[i], "blip_up_down") == Values{"none"}, i < 5) << i;
  }
  EXPECT_LT(error_of(out.images[6]), kWithin);
}

TEST_P(BlipUpDownTest, WhatCannotBePairedIsRefusedOrSaid) {
  const auto plain = correct({blips("", 0)});
  EXPECT_EQ(plain.warned("without the meta attribute epi_blips"), 1);
  EXPECT_EQ(meta_of(plain.images.at(0), "blip_up_down"), Values{"none"});
  const auto other = [](int rows) {
    auto image = sent_image(std::vector<cfloat>(static_cast<std::size_t>(20 * rows), 1), {20, rows, 1},
                            {{"epi_blips", "down"}}, 5);
    return image;
  };
  EXPECT_THAT(client_error([&] { correct({blips("up", 0), other(30)}); }), HasSubstr("they must be alike"));
  EXPECT_THAT(client_error([&] {
                correct({blips("up", 0), blips("down", 1), other(30)});
              }),
              HasSubstr("those that told the distortion"));
  const auto same = correct({blips("up", 0), blips("down", 1)}, "modulate: false");
  EXPECT_GT(error_of(same.images.at(0)), 0.05);  // places alone
}

ECHOTRAIN_ON_BACKENDS(BlipUpDownTest);

}  // namespace
}  // namespace echotrain::testing
