// field_map and distortion_correction in chains: their maps, images and refusals.
#include <gmock/gmock.h>

#include "tests/gadgets/sent_images.h"
#include "tests/support/distorted_lines.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kNx = 40, kNy = 36;
constexpr double kDelta = 2.46e-3;

double field_at(int x, int y) {  // wraps at 203 Hz
  return 150 * std::sin(0.12 * (x - kNx / 2)) + 6.0 * (y - kNy / 2) + 40;
}

/// Two coils' images of an echo that is `late` seconds later than the first.
protocol::Image echo(double late, int contrast, int slice = 0) {
  std::vector<cfloat> pixels;
  for (const double coil : {0.7, -1.1})
    for (int y = 0; y < kNy; ++y)
      for (int x = 0; x < kNx; ++x)
        pixels.emplace_back(
            std::polar(1 + 0.02 * coil * x, coil * y * 0.1 + 2 * std::numbers::pi * field_at(x, y) * late));
  protocol::Image image = sent_image(pixels, {kNx, kNy, 1}, {}, 5);
  image.head.contrast = static_cast<std::uint16_t>(contrast);
  image.head.slice = static_cast<std::uint16_t>(slice);
  return image;
}

class FieldGadgetsTest : public OnEachBackend {
 protected:
  Outcome map(const std::string& parameters, std::vector<protocol::Image> images) const {
    return run_images("  - field_map: {" + parameters + "}\n  - image: {component: real}\n", std::move(images), here());
  }
};

TEST_P(FieldGadgetsTest, TwoEchoesAreAMapInHz) {
  // The echoes come in any order, slices interleaved, and with an echo that has no part in it.
  const auto out = map("delta_ms: 2.46, smooth: 0",
                       {echo(0, 0), echo(kDelta, 1, 1), echo(2 * kDelta, 2), echo(kDelta, 1), echo(0, 0, 1)});
  ASSERT_EQ(out.images.size(), 2u);
  for (const auto& image : out.images) {
    const auto hz = pixels<float>(image);
    double worst = 0;
    for (int y = 0; y < kNy; ++y)
      for (int x = 0; x < kNx; ++x)
        worst =
            std::max(worst, std::abs(static_cast<double>(hz[static_cast<std::size_t>(y * kNx + x)]) - field_at(x, y)));
    EXPECT_LT(worst, 0.01);
    EXPECT_EQ(image.head.channels, 1);
    EXPECT_EQ(meta_of(image, "field_map_regions"), Values{"1"});
    EXPECT_EQ(meta_of(image, "field_map_wrap"), Values{"406.50"});
  }
  EXPECT_EQ(out.said(protocol::Level::info, "contrast 2 are not used"), 1);
  EXPECT_EQ(map("delta_ms: 2.46", {echo(0, 0)}).warned("1 images of contrast 0 or 1 have no partner"), 1);
}

// An echo waits for its partner until the next repetition brings the same one.
TEST_P(FieldGadgetsTest, AnEchoWaitsUntilTheNextRepetition) {
  const auto in = [](int repetition, protocol::Image image) {
    image.head.repetition = static_cast<std::uint16_t>(repetition);
    return image;
  };
  const auto with = map("delta_ms: 2.46", {in(0, echo(0, 0)), in(1, echo(0, 0)), in(1, echo(kDelta, 1))});
  EXPECT_EQ(with.images.size(), 1u);
  EXPECT_EQ(with.warned("1 images of contrast 0 or 1 have no partner"), 1);
  const auto late = map("delta_ms: 2.46", {in(0, echo(0, 0)), in(1, echo(0, 0)), in(0, echo(kDelta, 1))});
  EXPECT_EQ(late.images.size(), 0u);
  EXPECT_EQ(late.warned("3 images of contrast 0 or 1 have no partner"), 1);
  // Another slice's echo is not in the way.
  const auto slices = map("delta_ms: 2.46", {in(0, echo(0, 0)), in(1, echo(0, 0, 1)), in(0, echo(kDelta, 1))});
  EXPECT_EQ(slices.images.size(), 1u);
}

TEST_P(FieldGadgetsTest, OddEchoesAreRefused) {
  EXPECT_THAT(client_error([&] { map("", {echo(0, 0), echo(kDelta, 1)}); }), HasSubstr("delta_ms"));
  auto other = sent_image(std::vector<cfloat>(2 * 30 * 36), {30, 36, 1}, {}, 5);
  other.head.contrast = 1;
  EXPECT_THAT(client_error([&] { map("delta_ms: 2", {echo(0, 0), other}); }), HasSubstr("must be alike"));
  auto nothing = echo(0, 0), nor_this = echo(0, 1);
  nothing.pixels = nor_this.pixels = protocol::Payload::take(std::vector<cfloat>(2 * kNx * kNy));
  EXPECT_EQ(map("delta_ms: 2", {nothing, nor_this}).warned("no signal"), 1);
}

// A branch makes the map of a scan's echoes; images behind it are corrected by it, in the same pipeline.
TEST_P(FieldGadgetsTest, ABranchGivesTheMapToWhatFollows) {
  const DistortedLines lines(64, 24, 4);
  std::vector<protocol::Image> images;
  for (const double late : {0.0, 0.1e-3}) {
    std::vector<cfloat> pixels;
    for (const float hz : lines.hz)
      pixels.emplace_back(std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(hz) * late));
    images.push_back(sent_image(pixels, {24, 64, 1}, {}, 5));
    images.back().head.contrast = late > 0 ? 1 : 0;
  }
  images.push_back(sent_image(lines.distorted, {24, 64, 1}, {}, 5));
  images.back().head.contrast = 2;
  const auto corrected = [&](const std::string& order) {
    const auto out = run_images(
        fmt::format(
            "  - branch:\n      when: {{contrast: [0, 1]}}\n      pass_on: false\n      role: field_map\n      "
            "pipeline:\n        - field_map: {{delta_ms: 0.1, smooth: 0}}\n        - image: {{component: real}}\n"
            "  - distortion_correction: {{line_interval_us: {}, order: {}}}\n  - image: {{component: complex}}\n",
            1e6 * DistortedLines::kLine / 64, order),
        images, here());
    EXPECT_EQ(out.images.size(), 1u);
    EXPECT_EQ(meta_of(out.images.at(0), "distortion_correction"), Values{"4.00"});
    return nrmse(pixels<cfloat>(out.images.at(0)), lines.object);
  };
  EXPECT_LT(corrected("ascending"), 8e-3);  // as UnwarpTest.TheObjectComesBack
  EXPECT_GT(corrected("descending"), nrmse(lines.distorted, lines.object));
}

TEST_P(FieldGadgetsTest, CorrectionNeedsAMapAndAnInterval) {
  const auto image = sent_image(std::vector<cfloat>(kNx * kNy), {kNx, kNy, 1}, {}, 5);
  EXPECT_THAT(client_error([&] {
                run_images("  - distortion_correction: {line_interval_us: 500}\n  - image\n", {image}, here());
              }),
              HasSubstr("role is field_map"));
  std::string said;
  try {
    run_images("  - distortion_correction\n  - image\n", {image}, here());
  } catch (const std::exception& error) {
    said = error.what();
  }
  EXPECT_THAT(said, HasSubstr("line_interval_us is needed"));
}

ECHOTRAIN_ON_BACKENDS(FieldGadgetsTest);

}  // namespace
}  // namespace echotrain::testing
