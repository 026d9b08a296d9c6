// Spokes by rotation: where their samples lie, and the image they give.
#include "tests/gadgets/blob.h"

namespace echotrain::testing {
namespace {

constexpr double kGoldenDegrees = 111.246117975;  // 180 / 1.6180339887

/// Readouts of `samples` samples without a trajectory, numbered in their order.
std::vector<Acquisition> bare(int count, int samples) {
  std::vector<Acquisition> scan;
  for (int i = 0; i < count; ++i) {
    scan.push_back(readout(1, std::vector<cfloat>(static_cast<std::size_t>(samples), 1.0f)));
    scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
    scan.back().head.scan_counter = static_cast<std::uint32_t>(i);
  }
  return scan;
}

protocol::Header measurement(int n, const std::string& limits = "", const std::string& trajectory = "radial") {
  return header({.encoded = {n, n, 1}, .encoded_fov = {200, 200, 5}, .trajectory = trajectory, .limits = limits});
}

std::string gadgets(const std::string& parameters) {
  return "  - radial_trajectory: {" + parameters +
         "}\n  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - coil_combine: {method: none}\n"
         "  - image: {component: complex}\n";
}

/// Positions x, y of one readout.
using Spoke = std::vector<std::array<double, 2>>;
std::vector<Spoke> spokes(const protocol::Header& h, const std::vector<Acquisition>& scan,
                          const std::string& parameters, const std::string& keys = "", RunOptions options = {}) {
  std::vector<Spoke> out;
  options.tap = "radial_trajectory";
  options.on_item = [&](const Item& item, numerics::Context&) {
    const auto& readouts = std::get<Readouts>(item);
    if (!readouts.trajectory) return;
    EXPECT_EQ(readouts.trajectory.shape()[2], 2);
    const float* k = readouts.trajectory.data();
    for (std::int64_t i = 0; i < readouts.trajectory.shape()[0]; ++i) {
      out.emplace_back();
      for (std::int64_t s = 0; s < readouts.trajectory.shape()[1]; ++s, k += 2) out.back().push_back({k[0], k[1]});
    }
  };
  run(yaml(gadgets(parameters), keys), h, scan, options);
  return out;
}

/// A spoke's angle in degrees, by its last sample, and whether all of it lies on that line.
double angle_of(const Spoke& spoke) {
  const auto& end = spoke.back();
  const double angle = std::atan2(end[1], end[0]);
  for (const auto& k : spoke) EXPECT_NEAR(k[0] * std::sin(angle) - k[1] * std::cos(angle), 0, 1e-7);
  return angle * 180 / std::numbers::pi;
}
void expect_angle(const Spoke& spoke, double degrees) {
  EXPECT_NEAR(std::remainder(angle_of(spoke) - degrees, 360), 0, 2e-5);  // float32 of numbers up to 0.5
}

TEST(RadialTrajectoryTest, Angles) {
  const auto scan = bare(40, 16);
  const auto h = measurement(16, step_limit(40));
  const struct {
    const char* parameters;
    double first, step;
  } cases[] = {{"", 0, kGoldenDegrees},
               {"order: tiny_golden_angle", 0, 23.62814},  // Wundrak et al.: N = 7
               {"order: tiny_golden_angle, tiny_number: 2", 0, 68.75388},
               {"order: tiny_golden_angle, tiny_number: 1", 0, kGoldenDegrees},
               {"order: linear", 0, 180.0 / 40},
               {"order: linear, span_deg: 360, offset_deg: -30", -30, 360.0 / 40},
               {"order: linear, spokes: 8, offset_deg: 12.5", 12.5, 180.0 / 8}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.parameters);
    const auto made = spokes(h, scan, c.parameters);
    ASSERT_EQ(made.size(), 40u);
    // The table's steps have seven digits: 40 of them are good to 4e-4 degrees.
    for (std::size_t i = 0; i < 40; ++i)
      EXPECT_NEAR(std::remainder(angle_of(made[i]) - c.first - static_cast<double>(i) * c.step, 360), 0, 5e-4) << i;
  }
}

TEST(RadialTrajectoryTest, TheCounterIsTheEncodingStep) {
  auto scan = bare(4, 16);
  const int steps[] = {7, 3, 9, 5};
  for (std::size_t i = 0; i < 4; ++i) scan[i].head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(steps[i]);
  const auto made = spokes(measurement(16, limit("kspace_encoding_step_1", 3, 10, 6)), scan, "");
  ASSERT_EQ(made.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) expect_angle(made[i], (steps[i] - 3) * kGoldenDegrees);
}

TEST(RadialTrajectoryTest, ArrivalRunsOnThroughRepetitionsForEachSlice) {
  auto scan = bare(24, 16);
  for (std::size_t i = 0; i < 24; ++i) {  // two slices in turn, three repetitions of four spokes
    scan[i].head.idx.slice = static_cast<std::uint16_t>(i % 2);
    scan[i].head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i / 2 % 4);
    scan[i].head.idx.repetition = static_cast<std::uint16_t>(i / 8);
  }
  for (const bool counted : {true, false}) {
    if (!counted)
      for (auto& a : scan) a.head.scan_counter = 0;
    for (const std::size_t batch : {1u, 24u}) {
      const auto made = spokes(measurement(16, step_limit(4)), scan, "counter: arrival", "",
                               {.split = [&](std::size_t) { return batch; }});
      ASSERT_EQ(made.size(), 24u);
      // A batch holds the spokes of one slice; each slice sees 0, 1, 2, ...
      std::vector<double> angles;
      for (const Spoke& spoke : made) angles.push_back(angle_of(spoke));
      for (int n = 0; n < 12; ++n)
        EXPECT_EQ(std::count_if(angles.begin(), angles.end(),
                                [&](double a) { return std::abs(std::remainder(a - n * kGoldenDegrees, 360)) < 2e-5; }),
                  2)
            << n;
    }
  }
}

TEST(RadialTrajectoryTest, AReadoutKeepsItsNumberInASlidingWindow) {
  auto scan = bare(20, 16);
  const auto made = spokes(measurement(16), scan, "counter: arrival", "frame: {readouts: 8, stride: 4}\n");
  ASSERT_EQ(made.size(), 32u);  // windows 0..7, 4..11, 8..15, 12..19
  for (std::size_t i = 0; i < made.size(); ++i)
    expect_angle(made[i], static_cast<double>(i / 8 * 4 + i % 8) * kGoldenDegrees);
}

TEST(RadialTrajectoryTest, SamplesSpanTheEncodedKspace) {
  const struct {
    int samples, centre, pre, post;
    double first, last;
  } cases[] = {{32, 16, 0, 0, -0.5, 15.0 / 32},        // as many as the encoded matrix
               {64, 32, 0, 0, -0.5, 31.0 / 64},        // readout oversampling: finer steps
               {33, 16, 0, 0, -16.0 / 33, 16.0 / 33},  // odd
               {40, 8, 0, 0, -8.0 / 64, 31.0 / 64},    // partial echo of 64
               {40, 32, 0, 0, -0.5, 7.0 / 64},         // the same, cut at the other end
               {24, 0, 0, 0, 0, 23.0 / 48},            // centre-out
               {70, 36, 4, 2, -36.0 / 64, 33.0 / 64}};
  for (const auto& c : cases) {
    auto scan = bare(1, c.samples);
    scan[0].head.center_sample = static_cast<std::uint16_t>(c.centre);
    scan[0].head.discard_pre = static_cast<std::uint16_t>(c.pre);
    scan[0].head.discard_post = static_cast<std::uint16_t>(c.post);
    const auto made = spokes(measurement(32), scan, "");
    ASSERT_EQ(made.size(), 1u);
    const double step = (c.last - c.first) / (c.samples - 1);
    for (std::size_t s = 0; s < made[0].size(); ++s) {
      EXPECT_NEAR(made[0][s][0], c.first + static_cast<double>(s) * step, 1e-7) << c.samples << ' ' << c.centre;
      EXPECT_EQ(made[0][s][1], 0);
    }
  }
  // Echoes may move within a scan.
  auto scan = bare(2, 40);
  scan[0].head.center_sample = 8;
  const auto made = spokes(measurement(32), scan, "order: linear, spokes: 1, span_deg: 360");
  ASSERT_EQ(made.size(), 2u);
  EXPECT_NEAR(made[0][0][0], -8.0 / 64, 1e-7);
  EXPECT_NEAR(made[1][0][0], -0.5, 1e-7);
}

TEST(RadialTrajectoryTest, UnitsAreThePipelines) {
  // 40 x 50 pixels of 5 x 4 mm; spoke 1 lies at 111.246 degrees.
  const auto h = header({.encoded = {40, 50, 1}, .encoded_fov = {200, 200, 5}, .trajectory = "radial"});
  const auto scan = bare(2, 16);
  const double x = -0.5 * std::cos(kGoldenDegrees * std::numbers::pi / 180),
               y = -0.5 * std::sin(kGoldenDegrees * std::numbers::pi / 180);
  const struct {
    const char* unit;
    double x, y;
  } cases[] = {{"cycles_per_pixel", 1, 1},
               {"cycles_per_fov", 40, 50},
               {"radians_per_pixel", 2 * std::numbers::pi, 2 * std::numbers::pi},
               {"cycles_per_m", 200, 250}};
  for (const auto& c : cases) {
    const auto made = spokes(h, scan, "", fmt::format("trajectory_unit: {}\n", c.unit));
    ASSERT_EQ(made.size(), 2u);
    EXPECT_NEAR(made[1][0][0], x * c.x, 1e-6 * c.x) << c.unit;
    EXPECT_NEAR(made[1][0][1], y * c.y, 1e-6 * c.y) << c.unit;
  }
}

using RadialImageTest = OnEachBackend;

TEST_P(RadialImageTest, TheImageIsTheObject) {
  // The data is sampled where the formulas say; the trajectory is thrown away and made again.
  const std::vector<Blob> blobs = {{2, {3, -2, 0}}, {2, {-1.5, 4, 0}}};
  const std::array n{48, 48, 1};
  const struct {
    Path path;
    const char* parameters;
  } cases[] = {{radial(377, 96, kGoldenDegrees * std::numbers::pi / 180), ""}, {radial(151, 96), "order: linear"}};
  for (const auto& c : cases) {
    auto scan = sample(c.path, blobs);
    for (auto& a : scan) {
      a.trajectory = {};
      a.head.trajectory_dimensions = 0;
    }
    for (const char* unit : {"cycles_per_pixel", "cycles_per_m"}) {
      const auto out = run(yaml(gadgets(c.parameters), fmt::format("trajectory_unit: {}\n", unit)),
                           measurement(48, step_limit(static_cast<int>(scan.size()))), scan, here());
      ASSERT_EQ(out.images.size(), 1u);
      const auto image = pixels<cfloat>(out.images[0]);
      for (std::size_t i = 0; i < blobs.size(); ++i)
        EXPECT_LT(largest_error(image, i, blobs[i].image(n)), 2e-3) << c.parameters;  // as in blob_test
      EXPECT_EQ(out.warned(""), 0);
    }
  }
}

ECHOTRAIN_ON_BACKENDS(RadialImageTest);

TEST(RadialTrajectoryTest, AStackGetsItsSpokesBeforeOrAfterPartitionFft) {
  auto scan = bare(12, 16);
  for (std::size_t i = 0; i < 12; ++i) {
    scan[i].head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i / 3);
    scan[i].head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(i % 3);
  }
  const auto h = header({.encoded = {16, 16, 3}, .trajectory = "radial", .limits = step_limit(4)});
  const std::string rest = "  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - image\n";
  const auto image = [&](const std::string& front) {
    const auto out = run(yaml(front + rest), h, scan);
    EXPECT_EQ(out.images.size(), 1u);
    return pixels<std::uint32_t>(out.images.at(0));
  };
  const auto after = image("  - partition_fft\n  - radial_trajectory\n");
  EXPECT_EQ(image("  - radial_trajectory\n  - partition_fft\n"), after);
  EXPECT_EQ(image("  - partition_fft\n  - radial_trajectory: {counter: arrival}\n"), after);
  const std::string text =
      client_error([&] { image("  - radial_trajectory: {counter: arrival}\n  - partition_fft\n"); });
  EXPECT_NE(text.find("put it after partition_fft"), std::string::npos) << text;
}

TEST(RadialTrajectoryTest, ATrajectoryOfItsOwnIsKept) {
  const auto scan = sample(radial(5, 16, 0.1), {{2, {0, 0, 0}}});
  const auto made = spokes(measurement(16), scan, "");
  ASSERT_EQ(made.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) expect_angle(made[i], static_cast<double>(i) * 0.1 * 180 / std::numbers::pi);
  const auto out = run(yaml(gadgets("")), measurement(16), scan);
  EXPECT_EQ(out.said(protocol::Level::info, "which is kept"), 1);
}

TEST(RadialTrajectoryTest, WhatMakesNoSpokesIsRefused) {
  for (const std::string trajectory : {"cartesian", "epi", "spiral"}) {
    const std::string text = client_error([&] { run(yaml(gadgets("")), measurement(16, "", trajectory), {}); });
    EXPECT_NE(text.find("the header's trajectory is '" + trajectory + "'"), std::string::npos) << text;
  }
  const std::string text = client_error([&] { run(yaml(gadgets("order: linear")), measurement(16), {}); });
  EXPECT_NE(text.find("set radial_trajectory's spokes"), std::string::npos) << text;
  auto scan = bare(1, 16);
  scan[0].head.discard_pre = 9;  // discards its centre
  const std::string centre = client_error([&] { run(yaml(gadgets("")), measurement(16), scan); });
  EXPECT_NE(centre.find("cannot have its centre at sample 8"), std::string::npos) << centre;
}

}  // namespace
}  // namespace echotrain::testing
