// register in chains: a torso that breathes lies still afterwards; which image is the reference, and what is refused.
#include "gadgets/images/register_gadget.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/gadgets/sent_images.h"
#include "tests/support/moving_torso.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kTorsoNx = MovingTorso::kNx, kTorsoNy = MovingTorso::kNy;
constexpr std::size_t kTorsoSize = static_cast<std::size_t>(kTorsoNx) * kTorsoNy;

/// The torso, breathed down by `peak` voxels.
protocol::Image breathed(double peak, int repetition, int slice = 0) {
  const auto u = MovingTorso::breathing(peak);
  protocol::Image image =
      sent_image(torso_image(u, 50, static_cast<unsigned>(10 * slice + repetition)), {kTorsoNx, kTorsoNy, 1});
  image.head.repetition = static_cast<std::uint16_t>(repetition);
  image.head.slice = static_cast<std::uint16_t>(slice);
  return image;
}

/// The root of the mean square of the difference from the torso itself, where it is.
double off_torso(const protocol::Image& image, double peak) {
  const auto values = pixels<float>(image), truth = torso_image(MovingTorso::breathing(peak), 0, 0);
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < kTorsoSize; ++i) {
    const auto x = static_cast<double>(i % kTorsoNx), y = static_cast<double>(i / kTorsoNx);
    if (MovingTorso::inside(x, y, 80, 96, 66, 84) < 0.5) continue;
    sum += std::pow(static_cast<double>(values.at(i)) - static_cast<double>(truth[i]), 2);
    ++count;
  }
  return std::sqrt(sum / count);
}

class RegisterGadgetTest : public OnEachBackend {
 protected:
  Outcome registered(const std::string& parameters, std::vector<protocol::Image> images) const {
    return run_images("  - register: {" + parameters + "}\n  - image: {component: real, type: float}\n",
                      std::move(images), here());
  }
};

TEST_P(RegisterGadgetTest, ImagesComeToLieOnTheFirst) {
  const double before = off_torso(breathed(6, 1), 0);
  EXPECT_GT(before, 0.09);
  for (const char* method : {"fast", "robust"}) {
    const auto out = registered(fmt::format("method: {}", method), {breathed(0, 0), breathed(6, 1), breathed(-4, 2)});
    ASSERT_EQ(out.images.size(), 3u);
    for (const auto& image : out.images) {
      // Noise is 0.012, and an error of 0.2 voxels at edges of 0.3 and more is as much again.
      EXPECT_LE(off_torso(image, 0), 0.04) << method;
      EXPECT_EQ(meta_of(image, "registration"), Values{fmt::format("{}, to first", method)});
      EXPECT_EQ(meta_of(image, "ImageProcessingHistory"), (Values{"REGISTER", "ECHOTRAIN"}));
    }
    EXPECT_EQ(out.images[1].head.repetition, 1);
  }
}

TEST_P(RegisterGadgetTest, TheReferenceIsTheFirstANumberOrTheMedian) {
  const auto series = [] { return std::vector{breathed(0, 0), breathed(4, 1), breathed(2, 2)}; };
  const std::pair<const char*, double> cases[] = {{"to: 1", 4}, {"to: median", 2}};
  for (const auto& [to, peak] : cases) {
    const auto out = registered(to, series());
    ASSERT_EQ(out.images.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(out.images[i].head.repetition, i);  // in the order they came
      EXPECT_LE(off_torso(out.images[i], peak), 0.05) << to << i;
    }
  }
}

TEST_P(RegisterGadgetTest, SlicesHaveReferencesOfTheirOwn) {
  const auto out = registered("", {breathed(0, 0, 0), breathed(5, 0, 1), breathed(3, 1, 0), breathed(2, 1, 1)});
  ASSERT_EQ(out.images.size(), 4u);
  for (const auto& image : out.images) EXPECT_LE(off_torso(image, image.head.slice == 0 ? 0 : 5), 0.04);
}

TEST_P(RegisterGadgetTest, FieldsFollowTheirImages) {
  const auto out = registered("fields: true", {breathed(0, 0), breathed(6, 1)});
  ASSERT_EQ(out.images.size(), 3u);
  const protocol::Image& field = out.images[2];
  EXPECT_EQ(field.head.channels, 2);
  EXPECT_EQ(field.head.image_series_index, 8);
  EXPECT_EQ(meta_of(field, "role"), Values{"displacement"});
  const auto values = pixels<float>(field);
  // Image 1 is the torso at p + u(p), so what moves it back is -u(p + field): at the liver's middle along y only.
  const std::size_t at = 135 * kTorsoNx + 58;
  const double x = 58 + static_cast<double>(values[at]), y = 135 + static_cast<double>(values[kTorsoSize + at]);
  EXPECT_NEAR(values[kTorsoSize + at], -MovingTorso::breathing(6)(x, y).y, 0.3);
}

TEST_P(RegisterGadgetTest, WhatDoesNotComeIsTold) {
  const auto out = registered("to: 5", {breathed(0, 0), breathed(6, 1)});
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_NEAR(off_torso(out.images[1], 6), 0.012, 0.002);  // as it was
  EXPECT_EQ(out.warned("2 images of a slice keep their places, as number 5 did not come"), 1);
}

TEST_P(RegisterGadgetTest, WhatItCannotTakeIsRefused) {
  const auto plain = [](int nx, int ny) {
    return sent_image(std::vector<float>(static_cast<std::size_t>(nx) * static_cast<std::size_t>(ny)), {nx, ny, 1});
  };
  EXPECT_THAT(client_error([&] { registered("", {plain(40, 15)}); }), HasSubstr("images of 15 x 40 are too small"));
  EXPECT_THAT(client_error([&] { registered("", {plain(40, 20), plain(20, 20)}); }), HasSubstr("they must be alike"));
  EXPECT_THROW(Register({.to = "last"}), std::invalid_argument);
  EXPECT_THROW(Register({.to = "-1"}), std::invalid_argument);
  EXPECT_THROW(Register({.regularisation = 0.2}), std::invalid_argument);
}

ECHOTRAIN_ON_BACKENDS(RegisterGadgetTest);

}  // namespace
}  // namespace echotrain::testing
