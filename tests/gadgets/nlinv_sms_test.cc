// nlinv_sms: slices that were excited at once, simulated in float64, told apart again without calibration.
#include <gmock/gmock.h>

#include <regex>

#include "tests/gadgets/shared/slices.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

std::string sms_nlinv(const std::string& options, const std::string& keys = "") {
  return yaml("  - nlinv_sms: {" + options + "}\n  - image: {component: complex}\n", keys);
}
std::string meta(const protocol::Image& image, const std::string& name) {
  std::smatch found;
  const std::regex pattern("<name>" + name + "</name>\\s*<value>([^<]*)");
  return std::regex_search(image.attributes, found, pattern) ? found[1].str() : "";
}

using NlinvSmsTest = OnEachBackend;

// Two and three slices, phases of all numbers at the same angles and at angles between one another; half the angles
// that an image needs. Of another slice's object an image is off by more than 0.3.
TEST_P(NlinvSmsTest, TellsSlicesApartWithoutCalibration) {
  for (const int m : {2, 3})
    for (const double turned : {0.0, 1.0 / m}) {
      const SmsSlices slices(m);
      const auto out = run(sms_nlinv(fmt::format("slices: {}", m)), sms_header(m), slices.frame(16, turned), here());
      ASSERT_EQ(out.images.size(), static_cast<std::size_t>(m));
      for (int s = 0; s < m; ++s) {
        const auto& image = out.images[static_cast<std::size_t>(s)];
        EXPECT_LT(error_of_slice(image, slices.objects[static_cast<std::size_t>(s)]), 0.07) << m << turned << s;
        EXPECT_EQ(image.head.slice, s);
        EXPECT_FLOAT_EQ(image.head.position[2], static_cast<float>(30 + 5 * (s - (m - 1) / 2.0)));
        EXPECT_FLOAT_EQ(image.head.field_of_view[2], 5);
        EXPECT_EQ(meta(image, "multiband"), std::to_string(m));
        EXPECT_EQ(meta(image, "nlinv_inner_steps"), "2 4 6 8 10 12");
        EXPECT_LT(std::stod(meta(image, "nlinv_residual")), 0.1);
      }
      EXPECT_GT(error_of_slice(out.images[1], slices.objects[0]), 0.3);
    }
}

// One slice is what nlinv_realtime makes of it, but for the two ways of gridding: their accuracy of 1e-5, which 126
// steps of conjugate gradients carry on. The other way of counting the phases makes more than 1e-2 of two slices.
TEST_P(NlinvSmsTest, OneSliceIsThatOfNlinvRealtime) {
  const SmsSlices slices(1);
  auto scan = slices.frame(10, 0), second = slices.frame(10, 0, 1);
  scan.insert(scan.end(), second.begin(), second.end());
  const auto out = run(sms_nlinv("slices: 1, accuracy: 1e-5, field: 1.2"), sms_header(), scan, here()),
             single = run(yaml("  - density_compensation: {method: ramp, share: equal}\n"
                               "  - nlinv_realtime: {accuracy: 1e-5, field: 1.2}\n  - image: {component: complex}\n"),
                          sms_header(), scan, here());
  ASSERT_EQ(out.images.size(), 2u);
  ASSERT_EQ(single.images.size(), 2u);
  for (std::size_t f = 0; f < 2; ++f) {
    std::vector<double> expected, got;
    for (const auto v : pixels<cfloat>(single.images[f])) expected.push_back(std::abs(cdouble(v)));
    for (const auto v : pixels<cfloat>(out.images[f])) got.push_back(std::abs(cdouble(v)));
    EXPECT_LT(nrmse(got, expected), 1e-3) << f;
    EXPECT_NEAR(std::stod(meta(out.images[f], "nlinv_residual")), std::stod(meta(single.images[f], "nlinv_residual")),
                1e-3);
  }
}

// Frames of few spokes, each from the one before: the fourth is better than the first, and within 0.02 of the objects.
// The same bits however readouts arrive; a frame that lacks a number is an image all the same, and the client hears of
// it.
TEST_P(NlinvSmsTest, FramesInAScan) {
  const SmsSlices slices(2);
  std::vector<Acquisition> scan;
  for (int f = 0; f < 4; ++f)
    for (auto& a : slices.frame(7, 0.5, f))
      if (f != 2 || a.head.idx.kspace_encode_step_2 == 0) scan.push_back(std::move(a));
  const auto whole = run(sms_nlinv("slices: 2"), sms_header(2), scan, here());
  ASSERT_EQ(whole.images.size(), 8u);
  EXPECT_EQ(whole.warned("nlinv_sms: a frame has readouts of 1 of the 2 numbers"), 1);
  for (std::size_t s = 0; s < 2; ++s) {
    const double first = error_of_slice(whole.images[s], slices.objects[s]),
                 fourth = error_of_slice(whole.images[6 + s], slices.objects[s]);
    EXPECT_LT(fourth, first) << s;
    EXPECT_LT(fourth, 0.04) << s;
  }
  const auto split = run(sms_nlinv("slices: 2"), sms_header(2), scan,
                         {.backend = GetParam(), .split = [](std::size_t) { return 3u; }});
  ASSERT_EQ(split.images.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(pixels<cfloat>(split.images[i]), pixels<cfloat>(whole.images[i])) << i;

  // The median of two frames is the smaller of their magnitudes, slice by slice.
  const auto medians = run(sms_nlinv("slices: 2, median: 2"), sms_header(2), scan, here());
  ASSERT_EQ(medians.images.size(), 8u);
  for (std::size_t s = 0; s < 2; ++s) {
    const auto before = pixels<cfloat>(whole.images[s]), after = pixels<cfloat>(whole.images[2 + s]),
               median = pixels<cfloat>(medians.images[2 + s]);
    for (std::size_t v = 0; v < median.size(); ++v)
      EXPECT_NEAR(std::abs(median[v]), std::min(std::abs(before[v]), std::abs(after[v])), 1e-5f) << s << v;
    EXPECT_EQ(meta(medians.images[2 + s], "nlinv_median"), "2");
  }
}

// Sets 0, 2 and 1, 3 have frames of their own, and phases may turn from spoke to spoke, the other way round.
TEST_P(NlinvSmsTest, SetsOfSlicesAndOtherCounters) {
  const SmsSlices slices(3);
  auto negative = slices.frame(12, 0.3, 0, -1);
  for (std::size_t i = 0; i < negative.size(); ++i) {
    negative[i].head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
    negative[i].head.idx.kspace_encode_step_2 = 0;
  }
  std::vector<Acquisition> scan;
  for (std::uint16_t set = 0; set < 2; ++set)
    for (auto a : negative) {
      a.head.idx.slice = set;
      scan.push_back(std::move(a));
    }
  const auto out = run(sms_nlinv("slices: 3, number: kspace_encode_step_1, direction: negative, distance: 12"),
                       sms_header(1, 6), scan, here());
  ASSERT_EQ(out.images.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(out.images[i].head.slice, i / 3 + 2 * (i % 3)) << i;
    EXPECT_FLOAT_EQ(out.images[i].head.position[2], 30 + 12 * (static_cast<float>(i % 3) - 1)) << i;
    EXPECT_LT(error_of_slice(out.images[i], slices.objects[i % 3]), 0.07) << i;
  }
  for (std::size_t s = 0; s < 3; ++s) EXPECT_EQ(pixels<cfloat>(out.images[s]), pixels<cfloat>(out.images[3 + s]));
}

TEST_P(NlinvSmsTest, RefusesWhatItCannotDo) {
  const SmsSlices slices(2, 1);
  const auto refusal = [&](const std::string& options, const protocol::Header& h, std::vector<Acquisition> scan) {
    return client_error([&] { run(sms_nlinv(options), h, std::move(scan), here()); });
  };
  EXPECT_THAT(refusal("", sms_header(2), slices.frame(2, 0)), HasSubstr("nlinv_sms: the header has no multiband"));
  EXPECT_THAT(refusal("slices: 3", sms_header(2), {}),
              HasSubstr("nlinv_sms: the header's encoded matrix has 2 planes"));
  EXPECT_THAT(refusal("slices: 2", header({.encoded = {kSmsSide, kSmsSide, 1}}), {}), HasSubstr("slice_grappa"));
  EXPECT_THAT(refusal("slices: 2, weights: from_data", sms_header(2), slices.frame(2, 0)),
              HasSubstr("nlinv_sms: readouts come with 2 trajectory dimensions, but 3 are needed"));
  EXPECT_THAT(refusal("slices: 2", sms_header(2), with_components(slices.frame(2, 0), {}, kSmsSide)),
              HasSubstr("trajectory_unit"));
  EXPECT_THAT(
      refusal("slices: 2, field: 2", header({.encoded = {600, 600, 1}, .trajectory = "radial"}), {}),
      HasSubstr("nlinv_sms: it solves for 4 to 1024 voxels an axis, but the header's recon matrix is 600 x 600, "
                "which `field: 2` makes 1200 x 1200"));
  EXPECT_ANY_THROW(run(sms_nlinv("slices: 17"), sms_header(), {}, here()));
  EXPECT_ANY_THROW(run(sms_nlinv("slices: 2, newton_steps: 0"), sms_header(), {}, here()));
}

ECHOTRAIN_ON_BACKENDS(NlinvSmsTest);

}  // namespace
}  // namespace echotrain::testing
