// cg_sense_sms: slices that were excited at once, simulated in float64, told apart again.
#include <gmock/gmock.h>

#include "tests/gadgets/shared/slices.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

std::string sms_chain(const std::string& options, const std::string& keys = "") {
  return yaml("  - cg_sense_sms: {" + options + "}\n  - image: {component: complex}\n", keys);
}
using CgSenseSmsTest = OnEachBackend;

// Two and three slices, phases of all numbers at the same angles and at angles between one another. A third of the
// angles that an image needs; maps are those of the middle of k-space, which limits what is found. With the numbers
// mixed up, slices leak into each other: their objects differ by more than 0.3.
TEST_P(CgSenseSmsTest, TellsSlicesApart) {
  for (const int m : {2, 3})
    for (const double turned : {0.0, 1.0 / m}) {
      const SmsSlices slices(m);
      const auto out = run(sms_chain(fmt::format("slices: {}, iterations: 25, lambda: 0, tikhonov: 0.0005, "
                                                 "calibration: 12, block: 5",
                                                 m)),
                           sms_header(m), slices.frame(16, turned), here());
      ASSERT_EQ(out.images.size(), static_cast<std::size_t>(m));
      for (int s = 0; s < m; ++s) {
        const auto& image = out.images[static_cast<std::size_t>(s)];
        EXPECT_LT(error_of_slice(image, slices.objects[static_cast<std::size_t>(s)]), 0.08) << m << turned << s;
        EXPECT_EQ(image.head.slice, s);
        EXPECT_FLOAT_EQ(image.head.position[2], static_cast<float>(30 + 5 * (s - (m - 1) / 2.0)));
        EXPECT_FLOAT_EQ(image.head.field_of_view[2], 5);
      }
      EXPECT_GT(error_of_slice(out.images[1], slices.objects[0]), 0.3);
    }
}

// One coil sees all slices alike, its map is 1, and each number has all angles that an image needs: phases alone tell
// the slices apart, and the objects are left, whose corners of k-space are empty to 1e-3. Numbers may be counted by
// spoke, and turn the other way. Counted wrongly, slices are exchanged: their objects differ by more than 0.3.
TEST_P(CgSenseSmsTest, PhasesAloneWithOneCoil) {
  const SmsSlices slices(3, 1);
  const std::string options = "slices: 3, iterations: 30, lambda: 0, tikhonov: 0, accuracy: 1e-5, calibration: 12";
  const auto worst = [&](const std::string& more, std::vector<Acquisition> scan) {
    const auto out = run(sms_chain(options + more), sms_header(), std::move(scan), here());
    EXPECT_EQ(out.images.size(), 3u);
    double error = 0;
    for (std::size_t s = 0; s < out.images.size(); ++s)
      error = std::max(error, nrmse(pixels<cfloat>(out.images[s]), slices.objects[s]));
    return error;
  };
  EXPECT_LT(worst("", slices.frame(32, 0.4)), 1e-2);
  EXPECT_LT(worst(", direction: negative", slices.frame(32, 0.4, 0, -1)), 1e-2);
  EXPECT_GT(worst("", slices.frame(32, 0.4, 0, -1)), 0.3);
  auto by_spoke = slices.frame(32, 0.4);
  for (std::size_t i = 0; i < by_spoke.size(); ++i) {
    by_spoke[i].head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
    by_spoke[i].head.idx.kspace_encode_step_2 = 0;
  }
  EXPECT_LT(worst(", number: kspace_encode_step_1", by_spoke), 1e-2);
}

// Frames of few spokes, each from the one before: the fourth is better than the first, which had a mean of itself alone
// for its maps. The same bits however readouts arrive; a frame that lacks a number is an image all the same.
TEST_P(CgSenseSmsTest, FramesInAScan) {
  const SmsSlices slices(2);
  std::vector<Acquisition> scan;
  for (int f = 0; f < 4; ++f)
    for (auto& a : slices.frame(7, 0.5, f))
      if (f != 2 || a.head.idx.kspace_encode_step_2 == 0) scan.push_back(std::move(a));
  const std::string text = sms_chain("slices: 2, iterations: 12, lambda: 0.01, calibration: 12, block: 5, average: 4");
  const auto whole = run(text, sms_header(2), scan, here());
  ASSERT_EQ(whole.images.size(), 8u);
  for (std::size_t s = 0; s < 2; ++s) {
    const double first = error_of_slice(whole.images[s], slices.objects[s]),
                 third = error_of_slice(whole.images[4 + s], slices.objects[s]),
                 fourth = error_of_slice(whole.images[6 + s], slices.objects[s]);
    EXPECT_LT(fourth, 0.8 * first) << s;
    EXPECT_LT(third, 0.08) << s;
  }
  const auto split = run(text, sms_header(2), scan, {.backend = GetParam(), .split = [](std::size_t) { return 3u; }});
  ASSERT_EQ(split.images.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(pixels<cfloat>(split.images[i]), pixels<cfloat>(whole.images[i])) << i;
}

// A spike of 1e30 in one readout spoils its frame. The next one begins anew, with maps in which the spike has no part;
// a spike in the scan's first frame is in the maps of that frame only.
TEST_P(CgSenseSmsTest, AFrameAfterASpike) {
  const SmsSlices slices(2);
  std::vector<Acquisition> scan;
  for (int f = 0; f < 6; ++f)
    for (auto& a : slices.frame(8, 0.5, f)) scan.push_back(std::move(a));
  const std::string text =
      sms_chain("slices: 2, iterations: 12, lambda: 0.01, calibration: 12, block: 5, average: 4, refresh: 2");
  const auto without = run(text, sms_header(2), scan, here());
  ASSERT_EQ(without.images.size(), 12u);
  EXPECT_EQ(without.warned("spike"), 0);
  for (const std::size_t spoiled : {0u, 3u}) {
    auto spiky = scan;
    Acquisition& one = spiky[16 * spoiled + 3];
    std::vector<cfloat> data(static_cast<std::size_t>(slices.coils) * kSmsSamples);
    one.data.copy_to(data.data());
    data[kSmsSamples + 20] = cfloat(1e30f, -1e30f);
    one.data = protocol::Payload::take(data);
    const auto out = run(text, sms_header(2), std::move(spiky), here());
    ASSERT_EQ(out.images.size(), 12u);
    for (std::size_t i = 0; i < 12; ++i) {
      if (i / 2 == spoiled) continue;
      // The measure of a frame that begins with nothing is the first of the scan without a spike.
      const auto& truth = slices.objects[i % 2];
      EXPECT_LT(error_of_slice(out.images[i], truth), 1.1 * error_of_slice(without.images[i % 2], truth))
          << spoiled << ", " << i;
    }
    EXPECT_EQ(out.warned("(a spike?)"), 1);
  }
}

// The sets of slices 0, 2 and 1, 3 have frames of their own. The header says how many slices are excited at once.
TEST_P(CgSenseSmsTest, SetsOfSlices) {
  const SmsSlices slices(2);
  std::vector<Acquisition> scan;
  for (int set = 0; set < 2; ++set)
    for (auto& a : slices.frame(6, 0.5)) {
      a.head.idx.slice = static_cast<std::uint16_t>(set);
      scan.push_back(std::move(a));
    }
  protocol::Header measured = sms_header(1, 4,
                                         "<accelerationFactor><kspace_encoding_step_1>1</kspace_encoding_step_1>"
                                         "<kspace_encoding_step_2>1</kspace_encoding_step_2></accelerationFactor>"
                                         "<multiband><spacing><dZ>12</dZ></spacing><deltaKz>1</deltaKz>"
                                         "<multiband_factor>2</multiband_factor><calibration>separable2D</calibration>"
                                         "<calibration_encoding>0</calibration_encoding></multiband>");
  measured.xml.clear();  // it is not read again
  const auto out = run(sms_chain("distance: 12"), measured, scan, here());
  ASSERT_EQ(out.images.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(out.images[i].head.slice, i / 2 + 2 * (i % 2)) << i;
    EXPECT_FLOAT_EQ(out.images[i].head.position[2], i % 2 == 0 ? 24 : 36) << i;
  }
  EXPECT_EQ(pixels<cfloat>(out.images[0]), pixels<cfloat>(out.images[2]));
}

// Images are made, but somebody has to hear that they are not what they seem.
TEST_P(CgSenseSmsTest, WarnsOfNumbersThatMissOrAreTooMany) {
  const auto heard = [&](const std::string& options, std::vector<Acquisition> scan) {
    const auto out = run(sms_chain(options + ", iterations: 2"), sms_header(), std::move(scan), here());
    EXPECT_EQ(out.images.size(), 2u);
    return std::pair(out.warned("readouts of 1 of the 2 numbers"), out.warned("kspace_encode_step_2 of up to 2"));
  };
  auto whole = SmsSlices(2).frame(6, 0.5), one = whole;
  for (auto& a : one) a.head.idx.kspace_encode_step_2 = 0;
  EXPECT_EQ(heard("slices: 2", whole), std::pair(0, 0));
  EXPECT_EQ(heard("slices: 2", one), std::pair(1, 0));
  EXPECT_EQ(heard("slices: 2", SmsSlices(3).frame(6, 0.3)), std::pair(0, 1));
  EXPECT_EQ(heard("slices: 2, number: kspace_encode_step_1", whole), std::pair(0, 0));
}

TEST_P(CgSenseSmsTest, RefusesWhatItCannotDo) {
  const SmsSlices slices(2, 1);
  const auto refusal = [&](const std::string& options, const protocol::Header& h, std::vector<Acquisition> scan) {
    return client_error([&] { run(sms_chain(options), h, std::move(scan), here()); });
  };
  EXPECT_THAT(refusal("", sms_header(2), slices.frame(2, 0)), HasSubstr("say it by `slices`"));
  EXPECT_THAT(refusal("slices: 3", sms_header(2), slices.frame(2, 0)), HasSubstr("has 2 planes, but 3 slices"));
  EXPECT_THAT(refusal("slices: 2", header({.encoded = {kSmsSide, kSmsSide, 1}}), {}), HasSubstr("slice_grappa"));
  EXPECT_THAT(refusal("slices: 2, weights: from_data", sms_header(2), slices.frame(2, 0)),
              HasSubstr("2 trajectory dimensions, but 3 are needed"));
  // A fourth component would be the weight, and the third kz.
  EXPECT_THAT(refusal("slices: 2, weights: from_data", sms_header(2), with_components(slices.frame(2, 0), {0, 1})),
              HasSubstr("4 trajectory dimensions, but 3 are needed"));
  EXPECT_THAT(refusal("slices: 2, weights: from_data", sms_header(2), with_components(slices.frame(2, 0), {0})),
              HasSubstr("weights sum to nothing"));
  EXPECT_THAT(refusal("slices: 2", sms_header(2), with_components(slices.frame(2, 0), {}, kSmsSide)),
              HasSubstr("trajectory_unit"));
  // Slice 2 with the one excited with slice 0 would have the same number.
  auto third = slices.frame(2, 0);
  for (auto& a : third) a.head.idx.slice = 2;
  EXPECT_THAT(refusal("slices: 2", sms_header(1, 4), third), HasSubstr("announce 2 set(s) of 2 slices"));
  EXPECT_THAT(refusal("slices: 2", sms_header(1, 65535), {}), HasSubstr("more than can be numbered"));
  EXPECT_ANY_THROW(run(sms_chain("slices: 17"), sms_header(), {}, here()));
}

// Encodings of other matrices, by turns: each has the images that it has by itself.
TEST_P(CgSenseSmsTest, SeveralEncodings) {
  const SmsSlices slices(2);
  const HeaderSpec first{.encoded = {kSmsSide, kSmsSide, 1}, .trajectory = "radial"},
      second{.encoded = {kSmsSide + 4, kSmsSide + 4, 1}, .trajectory = "radial"};
  const std::string text = sms_chain("slices: 2, iterations: 4, calibration: 12, distance: 5");
  std::vector<Acquisition> scan;
  std::vector<std::vector<Acquisition>> alone(2);
  for (int f = 0; f < 3; ++f)
    for (std::uint16_t e = 0; e < 2; ++e)
      for (auto& a : slices.frame(7, 0.5, f)) {
        alone[e].push_back(a);
        a.head.encoding_space_ref = e;
        scan.push_back(std::move(a));
      }
  const auto out = run(text, header({first, second}), scan, here());
  ASSERT_EQ(out.images.size(), 12u);
  for (std::size_t e = 0; e < 2; ++e) {
    const auto by_itself = run(text, header(e == 0 ? first : second), alone[e], here());
    ASSERT_EQ(by_itself.images.size(), 6u);
    for (std::size_t f = 0; f < 3; ++f)
      for (std::size_t s = 0; s < 2; ++s)
        EXPECT_EQ(pixels<cfloat>(out.images[4 * f + 2 * e + s]), pixels<cfloat>(by_itself.images[2 * f + s])) << e << f;
  }
}

// Images have the scale of the data, also far from 1.
TEST_P(CgSenseSmsTest, DataOfAnyScale) {
  const SmsSlices slices(2);
  const std::string text = sms_chain("slices: 2, iterations: 8, calibration: 12");
  const auto expected = run(text, sms_header(2), slices.frame(12, 0.5), here());
  for (const float scale : {1e-30f, 1e30f}) {
    auto scan = slices.frame(12, 0.5);
    for (auto& a : scan) {
      std::vector<cfloat> data(static_cast<std::size_t>(slices.coils) * kSmsSamples);
      a.data.copy_to(data.data());
      for (auto& v : data) v *= scale;
      a.data = protocol::Payload::take(data);
    }
    const auto out = run(text, sms_header(2), scan, here());
    ASSERT_EQ(out.images.size(), 2u);
    for (std::size_t s = 0; s < 2; ++s) {
      std::vector<cdouble> scaled;
      for (const auto v : pixels<cfloat>(expected.images[s])) scaled.push_back(cdouble(v) * double{scale});
      EXPECT_LT(nrmse(pixels<cfloat>(out.images[s]), scaled), 1e-4) << scale << s;
    }
  }
}

ECHOTRAIN_ON_BACKENDS(CgSenseSmsTest);

}  // namespace
}  // namespace echotrain::testing
