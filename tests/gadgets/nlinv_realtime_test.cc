// nlinv_realtime in chains: images against objects known in closed form, and how frames follow each other.
#include <gmock/gmock.h>

#include <regex>

#include "tests/gadgets/scan.h"
#include "tests/support/direct_sum.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kN = 32, kCoils = 6;

std::string radial_chain(const std::string& options = "", const std::string& keys = "") {
  return yaml("  - density_compensation: {method: ramp, share: equal}\n  - nlinv_realtime: {" + options +
                  "}\n  - image: {component: magnitude}\n",
              keys);
}
std::string cartesian_chain(const std::string& options = "", const std::string& before = "") {
  return yaml("  - cartesian_kspace\n  - encoding\n" + before + "  - nlinv_realtime: {" + options +
              "}\n  - image: {component: magnitude}\n");
}
std::string attribute(const protocol::Image& image, const std::string& name) {
  std::smatch found;
  const std::regex pattern("<name>" + name + "</name>\\s*<value>([^<]*)");
  return std::regex_search(image.attributes, found, pattern) ? found[1].str() : "";
}

/// A disc with a hole, `shift` voxels off the centre, seen by coils around it.
struct Scene {
  std::vector<cfloat> images;  // [coil, y, x]
  std::vector<float> truth;    // root of the sum of squares

  explicit Scene(double shift) {
    std::vector<double> power(kN * kN);
    for (int c = 0; c < kCoils; ++c) {
      const double angle = 2 * std::numbers::pi * c / kCoils, cx = 0.55 * std::cos(angle), cy = 0.55 * std::sin(angle);
      for (int y = 0; y < kN; ++y)
        for (int x = 0; x < kN; ++x) {
          const double u = (x - kN / 2 - shift) / kN, v = (y - kN / 2) / double{kN};
          const double object = std::hypot(u, v) < 0.33 ? (std::hypot(u - 0.12, v) < 0.1 ? 0.3 : 1.0) : 0.0;
          const double dx = (x - kN / 2) / double{kN} - cx, dy = v - cy;
          const cdouble value = object * std::polar(std::exp(-(dx * dx + dy * dy) / 0.4), 1.5 * dx - 1.0 * dy + angle);
          images.emplace_back(value);
          power[static_cast<std::size_t>(y * kN + x)] += std::norm(value);
        }
    }
    for (const double p : power) truth.push_back(static_cast<float>(std::sqrt(p)));
  }
};

/// Coordinates [sample, 2] of a readout, and its samples.
Acquisition readout_at(const Scene& scene, const std::vector<double>& k, bool with_trajectory) {
  const auto values = direct_forward(k, scene.images, kCoils, {kN, kN});  // [sample, coil]
  std::vector<cfloat> data;
  for (std::size_t c = 0; c < kCoils; ++c)
    for (std::size_t s = 0; s < k.size() / 2; ++s) data.emplace_back(values[s * kCoils + c]);
  return readout(kCoils, std::move(data),
                 with_trajectory ? std::vector<float>(k.begin(), k.end()) : std::vector<float>{});
}

/// Spokes by the golden angle, on and on over the frames.
std::vector<Acquisition> spokes(int frame, int count, const Scene& scene, int slice = 0) {
  std::vector<Acquisition> out;
  for (int i = 0; i < count; ++i) {
    const double angle = std::numbers::pi * 0.618033988749895 * (frame * count + i);
    std::vector<double> k;
    for (int s = 0; s < 2 * kN; ++s) {
      const double r = (s - kN) / (2.0 * kN);
      // The positions are floats, which is how they are sent.
      k.push_back(static_cast<double>(static_cast<float>(r * std::cos(angle))));
      k.push_back(static_cast<double>(static_cast<float>(r * std::sin(angle))));
    }
    out.push_back(readout_at(scene, k, true));
    out.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
    out.back().head.idx.repetition = static_cast<std::uint16_t>(frame);
    out.back().head.idx.slice = static_cast<std::uint16_t>(slice);
  }
  set_flag(out.back(), kLastInSlice);
  return out;
}
/// Every third line, others in each frame, and the four about the centre.
std::vector<Acquisition> lines(int frame, const Scene& scene) {
  std::vector<Acquisition> out;
  for (int y = 0; y < kN; ++y) {
    if (y % 3 != frame % 3 && std::abs(y - kN / 2) > 2) continue;
    std::vector<double> k;
    for (int x = 0; x < kN; ++x) {
      k.push_back((x - kN / 2) / double{kN});
      k.push_back((y - kN / 2) / double{kN});
    }
    out.push_back(readout_at(scene, k, false));
    out.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
    out.back().head.idx.repetition = static_cast<std::uint16_t>(frame);
  }
  set_flag(out.back(), kLastInSlice);
  return out;
}
protocol::Header radial_header() { return header({.encoded = {kN, kN, 1}, .trajectory = "goldenangle"}); }
protocol::Header cartesian_header() { return header({.encoded = {kN, kN, 1}, .limits = step_limit(kN)}); }

void append(std::vector<Acquisition>& to, std::vector<Acquisition> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

using NlinvRealtimeTest = OnEachBackend;

// 13 spokes where 50 are wanted. Found: 0.17 in the frame in which the disc jumps by two voxels, less in the others.
// An image of where it was, and one that is only gridded, are off by more than 0.2.
TEST_P(NlinvRealtimeTest, FollowsADiscWithoutCalibration) {
  std::vector<Acquisition> scan;
  const std::vector<double> shifts{0, 0, 2, 2};
  for (int f = 0; f < 4; ++f) append(scan, spokes(f, 13, Scene(shifts[static_cast<std::size_t>(f)])));
  const auto out = run(radial_chain(), radial_header(), scan, here());
  ASSERT_EQ(out.images.size(), 4u);
  for (std::size_t f = 0; f < 4; ++f) {
    EXPECT_LT(nrmse(pixels<float>(out.images[f]), Scene(shifts[f]).truth), 0.19) << f;
    EXPECT_EQ(attribute(out.images[f], "nlinv_newton_steps"), "6");
    EXPECT_EQ(attribute(out.images[f], "nlinv_inner_steps"), "2 4 6 8 10 12");
    const double residual = std::stod(attribute(out.images[f], "nlinv_residual"));
    EXPECT_GT(residual, 0);
    EXPECT_LT(residual, 0.1);
  }
  const auto gridded = run(yaml("  - density_compensation: {method: ramp}\n  - gridding\n  - fft\n  - deapodization\n"
                                "  - coil_combine: {method: rss}\n  - image: {component: magnitude}\n"),
                           radial_header(), spokes(0, 13, Scene(0)), here());
  EXPECT_GT(nrmse(pixels<float>(gridded.images.at(0)), Scene(0).truth), 0.2);
  EXPECT_GT(nrmse(Scene(0).truth, Scene(2).truth), 0.2);
}

// However the scan comes in batches. Samples are added in another order, and 126 steps of conjugate gradients make 1e-4
// of that rounding; a readout that is missing makes more than 1e-2.
TEST_P(NlinvRealtimeTest, BatchesAndWindowsDoNotShow) {
  const Scene scene(0);
  std::vector<Acquisition> scan = spokes(0, 13, scene);
  append(scan, spokes(1, 13, scene));
  RunOptions options = here();
  const auto whole = run(radial_chain(), radial_header(), scan, options);
  options.split = [](std::size_t) { return std::size_t{3}; };
  const auto parts = run(radial_chain(), radial_header(), scan, options);
  ASSERT_EQ(parts.images.size(), 2u);
  for (std::size_t f = 0; f < 2; ++f)
    EXPECT_LT(nrmse(pixels<float>(parts.images[f]), pixels<float>(whole.images.at(f))), 1e-3) << f;

  const auto windows = run(radial_chain("", "frame: {readouts: 13, stride: 5}\n"), radial_header(), scan, options);
  ASSERT_EQ(windows.images.size(), 3u);  // of readouts 0 to 12, 5 to 17, 10 to 22
  EXPECT_LT(nrmse(pixels<float>(windows.images[0]), pixels<float>(whole.images.at(0))), 1e-3);
  for (const auto& image : windows.images) EXPECT_LT(nrmse(pixels<float>(image), scene.truth), 0.19);
}

TEST_P(NlinvRealtimeTest, CartesianLinesMayBeOthersInEachFrame) {
  std::vector<Acquisition> scan;
  for (int f = 0; f < 3; ++f) append(scan, lines(f, Scene(f)));
  const auto out = run(cartesian_chain(), cartesian_header(), scan, here());
  ASSERT_EQ(out.images.size(), 3u);
  for (int f = 0; f < 3; ++f)
    EXPECT_LT(nrmse(pixels<float>(out.images[static_cast<std::size_t>(f)]), Scene(f).truth), 0.18) << f;
  const auto folded = run(yaml("  - cartesian_kspace\n  - fft\n  - coil_combine: {method: rss}\n"
                               "  - image: {component: magnitude}\n"),
                          cartesian_header(), lines(0, Scene(0)), here());
  EXPECT_GT(nrmse(pixels<float>(folded.images.at(0)), Scene(0).truth), 0.22);
}

TEST_P(NlinvRealtimeTest, SlicesDoNotKnowOfEachOther) {
  std::vector<Acquisition> both, one;
  for (int f = 0; f < 2; ++f) {
    append(both, spokes(f, 13, Scene(0), 0));
    append(both, spokes(f, 13, Scene(4), 1));
    append(one, spokes(f, 13, Scene(4), 1));
  }
  const auto out = run(radial_chain(), radial_header(), both, here()),
             alone = run(radial_chain(), radial_header(), one, here());
  ASSERT_EQ(out.images.size(), 4u);
  for (std::size_t f = 0; f < 2; ++f)
    EXPECT_LT(nrmse(pixels<float>(out.images[2 * f + 1]), pixels<float>(alone.images.at(f))), 1e-3);
}

TEST_P(NlinvRealtimeTest, TheMedianIsThatOfTheLastFrames) {
  std::vector<Acquisition> scan;
  for (int f = 0; f < 4; ++f) append(scan, lines(f, Scene(f)));
  const auto plain = run(cartesian_chain(), cartesian_header(), scan, here()),
             smooth = run(cartesian_chain("median: 3"), cartesian_header(), scan, here());
  ASSERT_EQ(smooth.images.size(), 4u);
  for (std::size_t f = 0; f < 4; ++f) {
    std::vector<float> median;
    for (std::size_t v = 0; v < kN * kN; ++v) {
      std::vector<float> values;
      for (std::size_t i = f < 2 ? 0 : f - 2; i <= f; ++i) values.push_back(pixels<float>(plain.images.at(i))[v]);
      std::sort(values.begin(), values.end());
      median.push_back(values[(values.size() - 1) / 2]);
    }
    EXPECT_LT(nrmse(pixels<float>(smooth.images[f]), median), 1e-6) << f;
  }
  EXPECT_EQ(attribute(smooth.images[1], "nlinv_median"), "2");
  EXPECT_EQ(attribute(smooth.images[3], "nlinv_median"), "3");
}

// Two frames of the same samples, of which the first is solved once: the second is what one frame is that is solved
// twice, and the third pass likewise. Tolerance as above; a pass more or less makes 1e-2.
TEST_P(NlinvRealtimeTest, TheFirstFrameIsSolvedAsOftenAsAsked) {
  const Scene scene(0);
  std::vector<Acquisition> scan = spokes(0, 13, scene), again = spokes(0, 13, scene);
  for (Acquisition& spoke : again) spoke.head.idx.repetition = 1;
  append(scan, std::move(again));
  const auto once = run(radial_chain("first_frame_passes: 1"), radial_header(), scan, here()),
             twice = run(radial_chain(), radial_header(), scan, here()),
             thrice = run(radial_chain("first_frame_passes: 3"), radial_header(), scan, here());
  ASSERT_EQ(twice.images.size(), 2u);
  EXPECT_LT(nrmse(pixels<float>(once.images.at(1)), pixels<float>(twice.images[0])), 1e-3);
  EXPECT_LT(nrmse(pixels<float>(twice.images[1]), pixels<float>(thrice.images.at(0))), 1e-3);
  EXPECT_GT(nrmse(pixels<float>(once.images[0]), pixels<float>(twice.images[0])), 1e-2);
  EXPECT_GT(nrmse(pixels<float>(twice.images[0]), pixels<float>(twice.images[1])), 5e-3);
}

// The object reaches beyond the image; a field of 2 holds it.
TEST_P(NlinvRealtimeTest, AWiderFieldHoldsALargerObject) {
  const Scene scene(0);
  const auto narrow = header({.encoded = {kN, kN, 1},
                              .recon = {kN / 2, kN / 2, 1},
                              .recon_fov = {kN / 2, kN / 2, 1},
                              .trajectory = "goldenangle"});
  std::vector<float> middle;
  for (int y = 0; y < kN / 2; ++y)
    for (int x = 0; x < kN / 2; ++x)
      middle.push_back(scene.truth[static_cast<std::size_t>((y + kN / 4) * kN + x + kN / 4)]);
  const auto scan = spokes(0, 21, scene);
  const auto wide = run(radial_chain("field: 2"), narrow, scan, here()),
             cut = run(radial_chain(), narrow, scan, here());
  ASSERT_EQ(pixels<float>(wide.images.at(0)).size(), middle.size());
  EXPECT_LT(nrmse(pixels<float>(wide.images[0]), middle), 0.1);
  EXPECT_GT(nrmse(pixels<float>(cut.images.at(0)), middle), 0.1);
}

TEST_P(NlinvRealtimeTest, RefusesWhatItCannotSolve) {
  const Scene scene(0);
  EXPECT_THAT(client_error([&] {
                run(radial_chain(), header({.encoded = {kN, kN, 4}, .trajectory = "goldenangle"}), {}, here());
              }),
              HasSubstr("planes"));
  EXPECT_THAT(
      client_error([&] { run(cartesian_chain("", "  - coil_maps\n"), cartesian_header(), lines(0, scene), here()); }),
      HasSubstr("leave out coil_maps"));
  EXPECT_ANY_THROW(run(cartesian_chain("field: 1.5"), cartesian_header(), lines(0, scene), here()));
  EXPECT_ANY_THROW(run(radial_chain("first_frame_passes: 0"), radial_header(), spokes(0, 5, scene), here()));
  EXPECT_ANY_THROW(run(radial_chain("newton_steps: 0"), radial_header(), spokes(0, 5, scene), here()));
}

// Extents are refused before any data come: these scans have none.
TEST_P(NlinvRealtimeTest, RefusesExtentsAtTheStart) {
  const auto said = [this](const std::string& chain, const std::string& trajectory, std::uint16_t nx,
                           std::uint16_t ny) {
    return client_error([&] { run(chain, header({.encoded = {nx, ny, 1}, .trajectory = trajectory}), {}, here()); });
  };
  EXPECT_THAT(said(radial_chain(), "goldenangle", 1100, 64),
              HasSubstr("4 to 1024 voxels an axis, but the header's recon matrix is 1100 x 64; reconstruct"));
  EXPECT_THAT(said(radial_chain(), "goldenangle", 2, 64), HasSubstr("2 x 64"));
  EXPECT_THAT(said(radial_chain("field: 2"), "goldenangle", 600, 500),
              HasSubstr("600 x 500, which `field: 2` makes 1200 x 1000; a smaller `field`"));
  EXPECT_THAT(said(cartesian_chain(), "cartesian", 64, 1026), HasSubstr("64 x 1026"));
  EXPECT_THAT(said(cartesian_chain(), "cartesian", 3, 64), HasSubstr("3 x 64"));
}

/// Gives the readouts weights of their own, all the same.
std::vector<Acquisition> weighted(std::vector<Acquisition> scan, float weight) {
  for (Acquisition& a : scan) {
    std::vector<float> positions(a.trajectory.bytes.size() / sizeof(float)), trajectory;
    a.trajectory.copy_to(positions.data());
    for (std::size_t i = 0; i < positions.size(); i += 2)
      trajectory.insert(trajectory.end(), {positions[i], positions[i + 1], weight});
    a.head.trajectory_dimensions = 3;
    a.trajectory = protocol::Payload::take(trajectory);
  }
  return scan;
}

// A first frame that leads nowhere is refused at once: there is no frame before to blame. A later one is tried again.
TEST_P(NlinvRealtimeTest, AFirstFrameWithoutASolutionIsRefusedAtOnce) {
  const Scene scene(0);
  Scene huge(0);
  for (cfloat& value : huge.images) value *= 1e30f;
  for (const bool first : {true, false}) {
    std::vector<std::string> said;
    numerics::Context compute(GetParam(), test_resources());
    const std::string text =
        yaml("  - density_compensation: {method: from_data}\n  - nlinv_realtime\n  - image: {component: magnitude}\n");
    Pipeline pipeline(PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
                      {[](protocol::Image&&, const ImageTimes&) {},
                       [&](protocol::Level, const std::string& line) { said.push_back(line); }},
                      {}, nullptr);
    EXPECT_THAT(client_error([&] {
                  pipeline.start(radial_header());
                  if (!first) pipeline.push(weighted(spokes(0, 13, scene), 1), std::nullopt);
                  // F^H W d is not finite in single precision, the sum of W |d|^2 is in double.
                  pipeline.push(weighted(spokes(1, 13, huge), 1e12f), std::nullopt);
                  pipeline.finish(End::complete);
                  pipeline.wait();
                }),
                HasSubstr("no image can be solved for"));
    const auto again = std::count_if(said.begin(), said.end(),
                                     [](const auto& line) { return line.find("led nowhere") != std::string::npos; });
    EXPECT_EQ(again, first ? 0 : 1);
  }
}

ECHOTRAIN_ON_BACKENDS(NlinvRealtimeTest);

}  // namespace
}  // namespace echotrain::testing
