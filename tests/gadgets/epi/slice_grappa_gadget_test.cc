// Simultaneous slices become images of their own, against Gaussians that are known in closed form.
#include "gadgets/epi/slice_grappa_gadget.h"

#include <algorithm>
#include <cmath>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr int kN = 24, kCoils = 5, kPhaseCorrection = 24;
constexpr double kApart = 12.5;  // mm, of slices that are excited at once

/// A Gaussian in each slice, at a place of its own; each coil sees a slice with one weight everywhere.
struct Slices {
  int factor = 2, groups = 2;
  int shift = 2;        ///< blips: a field of view over this from slice to slice
  bool spacing = true;  ///< the header tells it; else positions of references do
  bool epi = false;     ///< each other line is read backwards, in which coils see slices otherwise

  int count() const { return factor * groups; }
  static cdouble seen(int slice, int coil) {
    return std::polar(1 + 0.4 * ((3 * slice + coil) % 4), 1.9 * slice * coil + 0.3 * coil);
  }
  /// What lines that are read backwards see: no phase along x makes up for it.
  static cdouble seen_back(int slice, int coil) {
    return seen(slice, coil) * std::polar(1 + 0.3 * (coil % 2), 0.9 * slice - 0.7 * coil + 0.4);
  }
  static double sigma(int slice) { return 2.0 + 0.2 * slice; }
  static double x_of(int slice) { return slice - 3; }

  std::vector<cdouble> image(int slice) const {
    std::vector<cdouble> out;
    for (int c = 0; c < kCoils; ++c)
      for (int y = -kN / 2; y < kN / 2; ++y)
        for (int x = -kN / 2; x < kN / 2; ++x) {
          const double r2 = (x - x_of(slice)) * (x - x_of(slice)) + (y + 2) * (y + 2);
          out.push_back(seen(slice, c) * std::exp(-r2 / (2 * sigma(slice) * sigma(slice))));
        }
    return out;
  }
  /// A line of one slice, or of all of a group.
  Acquisition line(int first, bool at_once, int y, int repetition = 0, bool backwards = false) const {
    std::vector<cfloat> data;
    const double pi = std::numbers::pi, ky = (y - kN / 2) / static_cast<double>(kN);
    for (int c = 0; c < kCoils; ++c)
      for (int x = 0; x < kN; ++x) {
        const double kx = ((backwards ? kN - 1 - x : x) - kN / 2) / static_cast<double>(kN);
        cdouble sum = 0;
        for (int m = 0; m < (at_once ? factor : 1); ++m) {
          const int slice = first + m * groups;
          const double s = sigma(slice), size = 2 * pi * s * s * std::exp(-2 * pi * pi * s * s * (kx * kx + ky * ky));
          const double blips = at_once && shift > 0 ? 2 * pi * m * (y - kN / 2) / shift : 0;
          sum +=
              (backwards ? seen_back : seen)(slice, c) * std::polar(size, blips - 2 * pi * (kx * x_of(slice) - 2 * ky));
        }
        data.push_back(cfloat(sum));
      }
    Acquisition out = readout(kCoils, std::move(data));
    out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
    out.head.idx.slice = static_cast<std::uint16_t>(first);
    out.head.idx.repetition = static_cast<std::uint16_t>(repetition);
    if (backwards) set_flag(out, kReverse);
    out.head.slice_dir[2] = 1;
    out.head.position[2] = static_cast<float>(kApart * (first / groups) + 3 * (first % groups));
    return out;
  }
  /// Lines of each slice; EPI has two trains of them, + - + - and - + - +.
  std::vector<Acquisition> references(int lines = 14, int trains = 2) const {
    std::vector<Acquisition> out;
    for (int slice = 0; slice < count(); ++slice)
      for (int train = 0; train < (epi ? trains : 1); ++train)
        for (int y = kN / 2 - lines / 2; y < kN / 2 + lines / 2; ++y) {
          out.push_back(line(slice, false, y, 0, epi && (y + train) % 2 == 1));
          set_flag(out.back(), kCalibration);
        }
    return out;
  }
  std::vector<Acquisition> frames(int repetitions = 1) const {
    std::vector<Acquisition> out;
    for (int r = 0; r < repetitions; ++r)
      for (int group = 0; group < groups; ++group) {
        for (int y = 0; y < kN; ++y) out.push_back(line(group, true, y, r, epi && y % 2 == 1));
        set_flag(out.back(), kLastInSlice);
      }
    return out;
  }
  /// Puts three lines without phase encoding before each train.
  std::vector<Acquisition> with_navigators(const std::vector<Acquisition>& lines) const {
    std::vector<Acquisition> out;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto& idx = lines[i].head.idx;
      const bool at_once = (lines[i].head.flags & 1ull << (kCalibration - 1)) == 0;
      const bool begins = i == 0 || lines[i - 1].head.idx.slice != idx.slice ||
                          lines[i - 1].head.idx.kspace_encode_step_1 >= idx.kspace_encode_step_1;
      for (int l = 0; l < 3 && begins; ++l) {
        out.push_back(line(idx.slice, at_once, kN / 2, idx.repetition, l % 2 == 1));
        set_flag(out.back(), kPhaseCorrection);
      }
      out.push_back(lines[i]);
    }
    return out;
  }
  std::vector<Acquisition> scan(int repetitions = 1) const {
    auto out = references();
    for (auto& each : frames(repetitions)) out.push_back(std::move(each));
    return out;
  }
  protocol::Header header_with(const std::string& multiband) const {
    return header({.encoded = {kN, kN, 1},
                   .trajectory = epi ? "epi" : "cartesian",
                   .limits = step_limit(kN) + limit("slice", 0, count() - 1, 0) + limit("repetition", 0, 9, 0),
                   .parallel = "<accelerationFactor><kspace_encoding_step_1>1</kspace_encoding_step_1>"
                               "<kspace_encoding_step_2>1</kspace_encoding_step_2></accelerationFactor>"
                               "<calibrationMode>separate</calibrationMode>" +
                               multiband});
  }
  protocol::Header header_of() const {
    return header_with(
        fmt::format("<multiband>{}<deltaKz>{}</deltaKz><multiband_factor>{}</multiband_factor>"
                    "<calibration>separable2D</calibration><calibration_encoding>0</calibration_encoding></multiband>",
                    spacing ? fmt::format("<spacing><dZ>{}</dZ></spacing>", kApart) : "",
                    shift > 0 ? 1 / (shift * kApart) : 0, factor));
  }
};

std::string apart_pipeline(const std::string& options = "regularization: 1e-7") {
  return yaml("  - slice_grappa: {" + options + "}\n  - cartesian_kspace: {calibration: none}\n  - fft\n" +
              "  - image: {component: complex}\n");
}

std::string note_of(const protocol::Image& image, const std::string& name) {
  const auto at = image.attributes.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "(none)";
  const auto begin = image.attributes.find("<value>", at) + 7;
  return image.attributes.substr(begin, image.attributes.find('<', begin) - begin);
}

using SliceGrappaTest = OnEachBackend;

// Weights are float32, and slices that are seen alike to a tenth; Gaussians reach 1e-5 of their energy over the edges.
constexpr double kApartGood = 2e-3;

TEST_P(SliceGrappaTest, SlicesBecomeImagesOfTheirOwn) {
  for (const Slices& scan : {Slices{}, Slices{.factor = 3, .groups = 1, .shift = 3},
                             Slices{.shift = 2, .spacing = false}, Slices{.shift = 0}})
    for (const std::size_t batch : {1, 7, 1000}) {
      SCOPED_TRACE(fmt::format("factor {}, shift {}, batches of {}", scan.factor, scan.shift, batch));
      RunOptions options = here();
      options.split = [&](std::size_t) { return batch; };
      protocol::Header header = scan.header_of();
      header.xml.clear();  // it is not read again
      const Outcome out = run(apart_pipeline(), header, scan.scan(2), options);
      ASSERT_EQ(out.images.size(), static_cast<std::size_t>(2 * scan.count()));
      std::vector<int> seen(static_cast<std::size_t>(scan.count()));
      for (const auto& image : out.images) {
        const int slice = image.head.slice;
        ++seen.at(static_cast<std::size_t>(slice));
        EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(slice)), kApartGood) << "slice " << slice;
        EXPECT_FLOAT_EQ(image.head.position[2],
                        static_cast<float>(kApart * (slice / scan.groups) + 3 * (slice % scan.groups)));
        EXPECT_EQ(note_of(image, "multiband"), std::to_string(scan.factor));
        EXPECT_LT(std::stod(note_of(image, "slice_grappa_residual")), 1e-3);
        EXPECT_EQ(note_of(image, "missing_lines"), "0");
      }
      for (const int times : seen) EXPECT_EQ(times, 2);
      EXPECT_EQ(out.warned(""), 0);
    }
}

/// Kernels of groups after the first are made aside, or by whoever needs them first: in whatever order frames come, and
/// also where references of a group come only after the first frame of another, images are the same.
TEST_P(SliceGrappaTest, OtherGroupsAreFittedMeanwhile) {
  const Slices scan{.groups = 3};
  const Outcome once = run(apart_pipeline(), scan.header_of(), scan.scan(), here());
  ASSERT_EQ(once.images.size(), 6u);
  auto backwards = scan.references();
  for (int group = scan.groups - 1; group >= 0; --group)
    for (int y = 0; y < kN; ++y) {
      backwards.push_back(scan.line(group, true, y));
      if (y == kN - 1) set_flag(backwards.back(), kLastInSlice);
    }
  std::vector<Acquisition> later, of_last;  // references of group 2, slices 2 and 5, come after the frame of group 0
  for (auto& each : scan.references()) (each.head.idx.slice % scan.groups == 2 ? of_last : later).push_back(each);
  const auto frames = scan.frames();
  later.insert(later.end(), frames.begin(), frames.begin() + kN);
  later.insert(later.end(), of_last.begin(), of_last.end());
  later.insert(later.end(), frames.begin() + kN, frames.end());
  std::vector<Acquisition> partly,
      rest;  // of group 2, some lines do, when its kernels may have been made of the others
  for (auto& each : scan.references()) {
    const bool outer = each.head.idx.slice % scan.groups == 2 && each.head.idx.kspace_encode_step_1 >= kN / 2 + 3;
    (outer ? rest : partly).push_back(each);
  }
  partly.insert(partly.end(), frames.begin(), frames.begin() + kN);
  partly.insert(partly.end(), rest.begin(), rest.end());
  partly.insert(partly.end(), frames.begin() + kN, frames.end());
  for (const auto& readouts : {backwards, later, partly}) {
    const Outcome out = run(apart_pipeline(), scan.header_of(), readouts, here());
    ASSERT_EQ(out.images.size(), 6u);
    EXPECT_EQ(out.warned(""), 0);
    for (const auto& image : out.images) {
      EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(image.head.slice)), kApartGood) << image.head.slice;
      const auto same = std::find_if(once.images.begin(), once.images.end(),
                                     [&](const auto& other) { return other.head.slice == image.head.slice; });
      EXPECT_EQ(pixels<cfloat>(image), pixels<cfloat>(*same)) << image.head.slice;
    }
  }
}

TEST_P(SliceGrappaTest, AShiftMayBeGiven) {
  const Slices scan{.shift = 2, .spacing = false};
  const auto header = scan.header_with("<multiband><multiband_factor>2</multiband_factor></multiband>");
  const Outcome out = run(apart_pipeline("regularization: 1e-7, fov_shift: 2"), header, scan.scan(), here());
  ASSERT_EQ(out.images.size(), 4u);
  for (const auto& image : out.images)
    EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(image.head.slice)), kApartGood);
  const Outcome without = run(apart_pipeline(), header, scan.scan(), here());
  EXPECT_GT(nrmse(pixels<cfloat>(without.images.at(1)), scan.image(2)), 0.5);
}

TEST_P(SliceGrappaTest, TheSplitIsForPhasesThatReferencesDoNotHave) {
  const Slices scan;
  const Outcome out = run(apart_pipeline("regularization: 1e-7, split: false"), scan.header_of(), scan.scan(), here());
  ASSERT_EQ(out.images.size(), 4u);
  for (const auto& image : out.images) EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(image.head.slice)), 0.02);
}

TEST_P(SliceGrappaTest, LinesThatDidNotComeAreCounted) {
  const Slices scan{.groups = 1};
  auto readouts = scan.scan();
  readouts.erase(readouts.end() - 3);  // line 21
  const Outcome out = run(apart_pipeline(), scan.header_of(), readouts, here());
  ASSERT_EQ(out.images.size(), 2u);
  for (const auto& image : out.images) {
    EXPECT_EQ(note_of(image, "missing_lines"), "1");
    EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(image.head.slice)), 0.05);
  }
}

/// The second repetition lacks its first and its last line, which hold less than 1e-3 of the energy.
TEST_P(SliceGrappaTest, OuterLinesMayBeMissingFromLaterFrames) {
  const Slices scan{.groups = 1};
  auto readouts = scan.scan(2);
  const auto second = readouts.end() - kN;
  set_flag(*(readouts.end() - 2), kLastInSlice);
  readouts.pop_back();
  readouts.erase(second);
  const Outcome out = run(apart_pipeline(), scan.header_of(), readouts, here());
  ASSERT_EQ(out.images.size(), 4u);
  for (const auto& image : out.images) {
    EXPECT_EQ(note_of(image, "missing_lines"), image.head.repetition == 0 ? "0" : "2");
    EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(image.head.slice)), 0.05);
  }
}

std::string both_ways(const std::string& dual, const std::string& method = "none") {
  return yaml("  - epi_phase_correction: {method: " + method + ", dual_polarity: " + dual +
              "}\n  - slice_grappa: {regularization: 1e-7}\n  - cartesian_kspace: {calibration: none}\n  - fft\n" +
              "  - image: {component: complex}\n");
}

TEST_P(SliceGrappaTest, LinesThatWereReadBackwardsAreMadeForward) {
  for (const Slices& scan : {Slices{.epi = true}, Slices{.groups = 3, .shift = 0, .epi = true}})
    for (const std::size_t batch : {1, 7, 1000}) {
      SCOPED_TRACE(fmt::format("{} groups, batches of {}", scan.groups, batch));
      RunOptions options = here();
      options.split = [&](std::size_t) { return batch; };
      const Outcome out = run(both_ways("true"), scan.header_of(), scan.scan(2), options);
      ASSERT_EQ(out.images.size(), static_cast<std::size_t>(2 * scan.count()));
      EXPECT_EQ(out.warned(""), 0);
      for (const auto& image : out.images) {
        EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(image.head.slice)), kApartGood) << image.head.slice;
        EXPECT_LT(std::stod(note_of(image, "epi_dual_polarity")), 1e-3);
      }
    }
  const Slices scan{.epi = true};
  const Outcome without = run(both_ways("false"), scan.header_of(), scan.scan(), here());
  for (const auto& image : without.images)
    EXPECT_GT(nrmse(pixels<cfloat>(image), scan.image(image.head.slice)), 100 * kApartGood);
}

/// References of one train hold each line once: kernels of one direction serve, as without the option, and each slice
/// loses the odd/even phase that its own navigators tell.
TEST_P(SliceGrappaTest, WithoutReferencesOfBothDirectionsTheseDoNotCount) {
  for (const std::string method : {"none", "linear"}) {
    SCOPED_TRACE(method);
    const Slices scan{.epi = true};
    auto readouts = scan.references(14, 1);
    for (auto& each : scan.frames()) readouts.push_back(std::move(each));
    readouts = scan.with_navigators(readouts);
    const Outcome told = run(both_ways("true", method), scan.header_of(), readouts, here()),
                  off = run(both_ways("false", method), scan.header_of(), readouts, here());
    EXPECT_EQ(told.warned("slices of group 0 are told apart without dual_polarity: no reference line of slice 0 came "
                          "with both directions"),
              1);
    ASSERT_EQ(told.images.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(pixels<cfloat>(told.images[i]), pixels<cfloat>(off.images[i]));
  }
}

/// Trains of all slices, then those that begin the other way: which phase is shared does not depend on their order.
TEST_P(SliceGrappaTest, NavigatorsOfAGroupShareTheirPhaseInAnyOrder) {
  const Slices scan{.epi = true};
  std::vector<Acquisition> readouts;
  const auto references = scan.references();
  for (int train = 0; train < 2; ++train)
    for (std::size_t i = 0; i < references.size(); ++i)
      if (static_cast<int>(i / 14) % 2 == train) readouts.push_back(references[i]);
  for (auto& each : scan.frames()) readouts.push_back(std::move(each));
  const Outcome out = run(both_ways("true", "linear"), scan.header_of(), scan.with_navigators(readouts), here());
  ASSERT_EQ(out.images.size(), 4u);
  EXPECT_EQ(out.warned(""), 0);
  for (const auto& image : out.images)
    EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(image.head.slice)), kApartGood) << image.head.slice;
}

/// Without slice_grappa, slices stay on top of each other, as without the option.
TEST_P(SliceGrappaTest, ForPipelinesThatTellNoSlicesApartDirectionsEnd) {
  const Slices scan{.epi = true};
  const auto with = [&](const std::string& dual) {
    return run(yaml("  - epi_phase_correction: {dual_polarity: " + dual +
                    "}\n  - cartesian_kspace: {calibration: none}\n  - fft\n  - image: {component: complex}\n"),
               scan.header_of(), scan.with_navigators(scan.scan()), here());
  };
  const Outcome on = with("true"), off = with("false");
  EXPECT_EQ(on.warned("without slice_grappa after this gadget"), 1);
  ASSERT_EQ(on.images.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(pixels<cfloat>(on.images[i]), pixels<cfloat>(off.images.at(i)));
}

TEST_P(SliceGrappaTest, DirectionsAreThoseOfTheFirstFrame) {
  const Slices scan{.groups = 1, .epi = true};
  auto readouts = scan.scan();
  for (int y = 0; y < kN; ++y) readouts.push_back(scan.line(0, true, y, 1, y % 2 == 0));
  set_flag(readouts.back(), kLastInSlice);
  EXPECT_NE(client_error([&] {
              run(both_ways("true"), scan.header_of(), readouts, here());
            }).find("line 0 of a frame of group 0 was read the other way"),
            std::string::npos);
}

ECHOTRAIN_ON_BACKENDS(SliceGrappaTest);

TEST(SliceGrappaInputTest, ScansOfSingleSlicesPass) {
  const Slices one{.factor = 1, .groups = 2, .shift = 0};
  for (const char* multiband : {"", "<multiband><multiband_factor>1</multiband_factor></multiband>"}) {
    const Outcome out = run(apart_pipeline(), one.header_with(multiband), one.scan());
    ASSERT_EQ(out.images.size(), 2u);
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[1]), one.image(1)), 1e-3);
    EXPECT_EQ(note_of(out.images[1], "multiband"), "(none)");
  }
}

TEST(SliceGrappaInputTest, WithoutReferencesSlicesStayTogether) {
  const Slices scan;
  const Outcome out = run(apart_pipeline(), scan.header_of(), scan.frames());
  EXPECT_EQ(out.images.size(), 2u);
  EXPECT_EQ(
      out.warned("slices of group 0 are not told apart, and lie on top of each other in its images: slice 0 has no "
                 "single-band reference lines; send 24"),
      1);
  auto few = scan.references(4);
  for (auto& each : scan.frames()) few.push_back(std::move(each));
  const Outcome out_of_few = run(apart_pipeline(), scan.header_of(), few);
  EXPECT_EQ(out_of_few.images.size(), 2u);
  EXPECT_EQ(out_of_few.warned("reaches over 5 lines, and there are 4 reference lines"), 2);
}

TEST(SliceGrappaInputTest, WhatDoesNotFitIsRefused) {
  const Slices scan;
  const auto refused = [&](const protocol::Header& header, const std::vector<Acquisition>& readouts) {
    return client_error([&] { run(apart_pipeline(), header, readouts); });
  };
  const std::string three = "<multiband><multiband_factor>3</multiband_factor></multiband>";
  EXPECT_NE(refused(scan.header_with(three), {}).find("multiband_factor is 3, but its encodingLimits have 4 slice(s)"),
            std::string::npos);
  const std::string gaps =
      "<multiband><spacing><dZ>5</dZ><dZ>6</dZ></spacing><multiband_factor>4</multiband_factor></multiband>";
  EXPECT_NE(refused(scan.header_with(gaps), {}).find("2 spacings (dZ) for 4 slices"), std::string::npos);
  auto numbered = scan.scan();
  for (auto& each : numbered)
    if ((each.head.flags & 1ull << (kCalibration - 1)) == 0) each.head.idx.slice = 3;
  EXPECT_NE(refused(scan.header_of(), numbered).find("names slice 3, but 4 slices, 2 at once, are 2 groups"),
            std::string::npos);
  auto narrow = scan.references();
  for (auto& each : narrow) {
    const auto head = each.head;
    each = readout(2, std::vector<cfloat>(2 * kN, 1));
    each.head.idx = head.idx;
    each.head.flags = head.flags;
  }
  for (auto& each : scan.frames()) narrow.push_back(std::move(each));
  EXPECT_NE(refused(scan.header_of(), narrow)
                .find("reference lines of slice 0 have 2 coils and 24 samples, but lines of "
                      "images have 5 and 24"),
            std::string::npos);
}

/// Virtual coils of each slice have nothing in common with those of the other slices of its group.
TEST(SliceGrappaInputTest, SlicesShareTheirVirtualCoils) {
  const Slices scan;
  const auto with = [&](const std::string& before, const std::string& after) {
    return run(yaml(before + "  - slice_grappa: {regularization: 1e-7}\n" + after +
                    "  - cartesian_kspace: {calibration: none}\n  - fft\n  - coil_combine: {method: rss}\n  - image\n"),
               scan.header_of(), scan.scan());
  };
  const std::string by_slice = "  - coil_compression: {channels: 4, per: slice}\n";
  EXPECT_NE(client_error([&] { with(by_slice, ""); }).find("use coil_compression: {per: scan}"), std::string::npos);
  EXPECT_EQ(with("  - coil_compression: {channels: 4, per: scan}\n", "").images.size(), 4u);
  EXPECT_EQ(with("", by_slice).images.size(), 4u);
  EXPECT_EQ(with("  - coil_compression: {channels: 5, per: slice}\n", "").images.size(), 4u)
      << "5 coils stay as they are";
}

}  // namespace
}  // namespace echotrain::testing
