// Corrected trajectories in a chain: where positions lie then, the image, what waits, and what is said.
#include <cstring>
#include <memory>

#include "gadgets/numerics/mri/trajectory/gradient_delays.h"
#include "tests/gadgets/blob.h"

namespace echotrain::testing {
namespace {

using numerics::GradientDelays;
constexpr GradientDelays kTruth{-0.6, 0.45, 0.2};
constexpr int kMatrix = 48, kSamples = 96;

protocol::Header measurement(const std::string& trajectory = "radial") {
  return header({.encoded = {kMatrix, kMatrix, 1}, .encoded_fov = {200, 200, 5}, .trajectory = trajectory});
}

/// Three coils of a blob each, not in the middle.
const std::vector<Blob> kBlobs = {{2, {5, -3, 0}, 3}, {2, {-6, 2, 0}, 2.5}, {2, {1, 8, 0}, 3}};

/// Golden spokes numbered from `first`; the data are where `played` says, the trajectory is the nominal one.
std::vector<Acquisition> delayed(int spokes, const GradientDelays& played, int first = 0, double step = 0) {
  if (step == 0) step = std::numbers::pi * (std::sqrt(5.0) - 1) / 2;
  Path nominal = radial(first + spokes, kSamples, step), real = nominal;
  nominal.k.erase(nominal.k.begin(), nominal.k.begin() + first);
  real.k.erase(real.k.begin(), real.k.begin() + first);
  for (auto& k : real.k) {
    const std::array<double, 2> v{k[2] - k[0], k[3] - k[1]};
    for (std::size_t s = 0; s < kSamples; ++s) {
      k[2 * s] += played.x * v[0] + played.xy * v[1];
      k[2 * s + 1] += played.xy * v[0] + played.y * v[1];
    }
  }
  auto data = sample(real, kBlobs), scan = sample(nominal, kBlobs);
  for (std::size_t i = 0; i < scan.size(); ++i) {
    scan[i].data = data[i].data;
    scan[i].head.sample_time_us = 5;
    scan[i].head.read_dir[0] = scan[i].head.phase_dir[1] = scan[i].head.slice_dir[2] = 1;
    scan[i].head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(first + static_cast<int>(i));
  }
  return scan;
}

std::string gadgets(const std::string& parameters) {
  return "  - trajectory_correction: {" + parameters +
         "}\n  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - coil_combine: {method: none}\n"
         "  - image: {component: complex}\n";
}

/// The positions of all readouts as they leave the gadget, x, y, in pairs.
struct Left {
  std::vector<std::vector<float>> readouts;
  Outcome outcome;
};
Left corrected(const std::string& parameters, const std::vector<Acquisition>& scan, const std::string& keys = "",
               RunOptions options = {}) {
  Left left;
  options.tap = "trajectory_correction";
  options.on_item = [&](const Item& item, numerics::Context&) {
    const auto* batch = std::get_if<Readouts>(&item);
    if (batch == nullptr || !batch->trajectory) return;
    const auto& shape = batch->trajectory.shape();
    const float* k = batch->trajectory.data();
    for (std::int64_t i = 0; i < shape[0]; ++i, k += shape[1] * shape[2])
      left.readouts.emplace_back(k, k + shape[1] * shape[2]);
  };
  left.outcome = run(yaml(gadgets(parameters), keys), measurement(), scan, options);
  return left;
}

std::vector<float> trajectory_of(const Acquisition& a) {
  std::vector<float> out(a.trajectory.bytes.size() / sizeof(float));
  a.trajectory.copy_to(out.data());
  return out;
}

/// The delays by which the k-th readout was moved along its own direction and across it, against those given.
void expect_moved(const std::vector<float>& now, const Acquisition& readout, const GradientDelays& by, double within) {
  const std::vector<float> before = trajectory_of(readout);
  ASSERT_EQ(now.size(), before.size());
  const double dx = (before[before.size() - 2] - before[0]) / (kSamples - 1.0),
               dy = (before[before.size() - 1] - before[1]) / (kSamples - 1.0);
  const double x = by.x * dx + by.xy * dy, y = by.xy * dx + by.y * dy;
  for (std::size_t s = 0; s < before.size(); s += 2) {
    EXPECT_NEAR(now[s] - before[s], x, within / kSamples + 1e-7);
    EXPECT_NEAR(now[s + 1] - before[s + 1], y, within / kSamples + 1e-7);
  }
}

using TrajectoryCorrectionTest = OnEachBackend;

TEST_P(TrajectoryCorrectionTest, TheImageIsTheObjectAgain) {
  const std::array n{kMatrix, kMatrix, 1};
  // Nearly the same on both axes: where they differ, ramp weights are off near k = 0 (docs/trajectories.md).
  const auto scan = delayed(377, {-0.62, -0.58, 0.01});
  RunOptions options = here();
  options.split = [](std::size_t) { return std::size_t{32}; };
  for (const auto& [method, within] : {std::pair{"ring", 2e-3}, {"cross_correlation", 0.02}}) {
    SCOPED_TRACE(method);
    const auto out = run(yaml(gadgets(fmt::format("method: {}", method))), measurement(), scan, options);
    ASSERT_EQ(out.images.size(), 1u);
    const auto image = pixels<cfloat>(out.images[0]);
    // A position that is wrong by d samples turns voxel r by 2 pi d r / 96: 0.5 d at the blobs. blob_test: 2e-3, ramp
    // weights: 2e-3.
    for (std::size_t i = 0; i < kBlobs.size(); ++i)
      EXPECT_LT(largest_error(image, i, kBlobs[i].image(n)), 4e-3 + 0.5 * within) << i;
    EXPECT_EQ(out.said(protocol::Level::info, std::string(method) + " of 64 spokes"), 1);
    EXPECT_NE(out.images[0].attributes.find("trajectory_delays"), std::string::npos);
  }
  // Without it the blobs are smeared.
  const auto plain = run(yaml(gadgets("method: given")), measurement(), scan, here());
  EXPECT_GT(largest_error(pixels<cfloat>(plain.images.at(0)), 0, kBlobs[0].image(n)), 0.015);
}

ECHOTRAIN_ON_BACKENDS(TrajectoryCorrectionTest);

TEST(TrajectoryCorrection, EverySpokeIsMovedHoweverTheScanIsCut) {
  const auto scan = delayed(100, kTruth);
  for (const std::size_t batch : {1u, 7u, 100u}) {
    const auto left = corrected("method: ring, spokes: 40", scan, "", {.split = [&](std::size_t) { return batch; }});
    EXPECT_EQ(left.outcome.said(protocol::Level::info, "ring of 40 spokes"), 1);
    ASSERT_EQ(left.readouts.size(), scan.size());
    for (std::size_t i = 0; i < scan.size(); ++i) expect_moved(left.readouts[i], scan[i], kTruth, 2e-3);
    EXPECT_EQ(left.outcome.images.size(), 1u);
    EXPECT_EQ(left.outcome.warned("trajectory_correction"), 0);
  }
}

TEST(TrajectoryCorrection, FramesBeforeTheEstimateWaitAndLoseNothing) {
  // Frames of 10 spokes: the first has too few; the second's end makes 20, which is enough.
  std::vector<Acquisition> scan = delayed(40, kTruth);
  std::vector<std::size_t> images_after;
  std::size_t given = 0, left_after_first = 99, left_after_second = 0;
  RunOptions options;
  std::size_t left_so_far = 0;
  options.tap = "trajectory_correction";
  options.on_item = [&](const Item& item, numerics::Context&) {
    if (const auto* batch = std::get_if<Readouts>(&item)) left_so_far += batch->heads.size();
  };
  options.split = [&](std::size_t) {
    if (given == 10) left_after_first = left_so_far;
    if (given == 20) left_after_second = left_so_far;
    given += 10;
    return std::size_t{10};
  };
  const auto out = run(yaml(gadgets("method: ring"), "frame: {readouts: 10}\n"), measurement(), scan, options);
  EXPECT_EQ(out.images.size(), 4u);
  EXPECT_EQ(left_after_first, 0u);
  EXPECT_EQ(left_after_second, 20u);
  EXPECT_EQ(left_so_far, 40u);
  for (const auto& image : out.images) EXPECT_NE(image.attributes.find("trajectory_delays"), std::string::npos);
}

TEST(TrajectoryCorrection, SlidingWindowsMoveAReadoutOnce) {
  const auto scan = delayed(60, kTruth);
  const auto left = corrected("method: ring", scan, "frame: {readouts: 21, stride: 13}\n");
  ASSERT_GT(left.readouts.size(), 60u);  // windows overlap
  for (std::size_t i = 0; i < left.readouts.size(); ++i)
    expect_moved(left.readouts[i], scan[i / 21 * 13 + i % 21], kTruth, 2e-3);
}

TEST(TrajectoryCorrection, LinearOrdersWaitUntilSpokesGoRound) {
  // 64 of 200 spokes cover a third of the half circle: no delays can be told yet.
  const auto scan = delayed(200, kTruth, 0, std::numbers::pi / 200);
  const auto left = corrected("method: ring, spokes: 64", scan);
  ASSERT_EQ(left.readouts.size(), 200u);
  for (std::size_t i = 0; i < 200; i += 11) expect_moved(left.readouts[i], scan[i], kTruth, 2e-3);
  // Spokes of a half circle do not oppose each other: ring, with a warning.
  const auto half = corrected("method: cross_correlation", scan);
  EXPECT_EQ(half.outcome.warned("do not oppose each other"), 1);
  EXPECT_EQ(half.outcome.warned("ring is used instead"), 1);
  expect_moved(half.readouts.at(7), scan[7], kTruth, 2e-3);
  EXPECT_NE(half.outcome.images.at(0).attributes.find("<value>ring</value>"), std::string::npos)
      << half.outcome.images.at(0).attributes;
}

TEST(TrajectoryCorrection, WhatWaitsIsBounded) {
  // Spokes that never go round: 16 x 8 readouts wait, and then it is settled without delays.
  const auto scan = delayed(140, kTruth, 0, 1e-3);
  std::size_t given = 0, left_so_far = 0, before_128 = 99, after_128 = 0;
  RunOptions options;
  options.tap = "trajectory_correction";
  options.on_item = [&](const Item& item, numerics::Context&) {
    if (const auto* batch = std::get_if<Readouts>(&item)) left_so_far += batch->heads.size();
  };
  options.split = [&](std::size_t) {
    if (given == 127) before_128 = left_so_far;
    if (given == 128) after_128 = left_so_far;
    ++given;
    return std::size_t{1};
  };
  const auto out = run(yaml(gadgets("method: ring, spokes: 8")), measurement(), scan, options);
  EXPECT_EQ(before_128, 0u);
  EXPECT_EQ(after_128, 128u);
  EXPECT_EQ(out.warned("the trajectory is kept as it came; 128 spokes do not tell delays"), 1);
  EXPECT_NE(out.images.at(0).attributes.find("<value>none</value>"), std::string::npos);
}

TEST(TrajectoryCorrection, OrientationsHaveDelaysOfTheirOwn) {
  // Two slices; the second is turned, and so are its delays.
  auto scan = delayed(30, kTruth);
  auto other = delayed(30, {0.3, -0.2, -0.1});
  for (auto& a : other) {
    a.head.idx.slice = 1;
    a.head.read_dir[0] = a.head.phase_dir[1] = 0;
    a.head.read_dir[1] = 1;
    a.head.phase_dir[0] = -1;
  }
  scan.insert(scan.end(), other.begin(), other.end());
  const auto left = corrected("method: ring", scan);
  ASSERT_EQ(left.readouts.size(), 60u);
  expect_moved(left.readouts[3], scan[3], kTruth, 2e-3);
  expect_moved(left.readouts[33], scan[33], {0.3, -0.2, -0.1}, 2e-3);
  EXPECT_EQ(left.outcome.images.size(), 2u);
}

TEST(TrajectoryCorrection, GivenDelaysAreSamplesOrMicroseconds) {
  auto scan = delayed(5, {});
  for (const auto& [parameters, by] : {std::pair{"method: given, x: -0.6, y: 0.45, xy: 0.2", kTruth},
                                       {"method: given, x: -3, y: 2.25, xy: 1, unit: us", kTruth},  // of 5 us
                                       {"method: given", GradientDelays{}}}) {
    const auto left = corrected(parameters, scan);
    ASSERT_EQ(left.readouts.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) expect_moved(left.readouts[i], scan[i], by, 1e-4);
  }
  for (auto& a : scan) a.head.sample_time_us = 0;
  const auto left = corrected("method: given, x: -3, unit: us", scan);
  EXPECT_EQ(left.outcome.warned("without sample_time_us"), 1);
  expect_moved(left.readouts.at(1), scan[1], {}, 1e-9);
}

TEST(TrajectoryCorrection, TheSameDelaysFindTheSamePlans) {
  // Noise moves an estimate by less than the rounding to 1/1000, so that a repeated scan has the trajectory of the
  // first.
  const auto resources = test_resources();
  const auto once = [&](unsigned seed) {
    auto scan = delayed(377, kTruth);
    std::mt19937 random(seed);
    for (auto& a : scan) {
      std::vector<cfloat> data(a.data.bytes.size() / sizeof(cfloat));
      a.data.copy_to(data.data());
      for (auto& v : data) v += noise(1, random, 1e-5)[0];
      a.data = protocol::Payload::take(std::move(data));
    }
    return run(yaml(gadgets("method: ring")), measurement(), scan, {.resources = resources}).counts;
  };
  EXPECT_EQ(once(1).work.plans_made, 1u);
  const auto second = once(2);
  EXPECT_EQ(second.work.plans_made, 0u);
  EXPECT_GE(second.work.plans_reused, 1u);
}

/// An image of the role `girf`: responses of a delay per axis [us].
protocol::Image responses(const std::array<double, 3>& delays_us, double gain = 1) {
  std::vector<std::complex<double>> voxels;
  const int n = 4001;
  const auto khz = [](int i) { return -100 + 0.05 * i; };
  for (int i = 0; i < n; ++i) voxels.emplace_back(khz(i));
  for (const double delay : delays_us)
    for (int i = 0; i < n; ++i) voxels.push_back(std::polar(gain, -2 * std::numbers::pi * khz(i) * 1e3 * delay * 1e-6));
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = 8;
  image.head.channels = 4;
  image.head.matrix_size[0] = n;
  image.head.matrix_size[1] = image.head.matrix_size[2] = 1;
  image.attributes = "<ismrmrdMeta><meta><name>role</name><value>girf</value></meta></ismrmrdMeta>";
  image.pixels = protocol::Payload::take(std::move(voxels));
  return image;
}

TEST(TrajectoryCorrection, ResponsesComeFromAnAssetOrTheClient) {
  auto scan = delayed(8, {});
  for (auto& a : scan) {  // read along the gradients' Y, phase along -X
    a.head.read_dir[0] = a.head.phase_dir[1] = 0;
    a.head.read_dir[1] = 1;
    a.head.phase_dir[0] = -1;
  }
  RunOptions from_file, from_client;
  from_file.read_asset = [&](const std::string& name) {
    EXPECT_EQ(name, "girf.h5");
    return std::vector{responses({2, 4, 1})};
  };
  from_client.images = {responses({2, 4, 1})};
  for (const auto& [parameters, options] :
       {std::pair{"method: girf, girf: girf.h5", from_file}, {"method: girf", from_client}}) {
    const auto left = corrected(parameters, scan, "", options);
    ASSERT_EQ(left.readouts.size(), 8u);
    // x is played by Y, 4 us late of 5 us a sample, y by X.
    for (std::size_t i = 0; i < 8; ++i) expect_moved(left.readouts[i], scan[i], {-0.8, -0.4, 0}, 1e-3);
    EXPECT_EQ(left.outcome.warned("trajectory_correction"), 0);
  }
}

TEST(TrajectoryCorrection, ResponsesThatDoNotFitAreSaid) {
  auto scan = delayed(8, {});
  RunOptions options;
  options.images = {responses({2, 4, 1}, 1000)};
  const auto says = [&](const std::string& part) {
    const std::string text = client_error([&] { run(yaml(gadgets("method: girf")), measurement(), scan, options); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says("not near 1");
  options.images = {responses({2, 4, 1})};
  options.images[0].head.channels = 2;
  options.images[0].head.matrix_size[0] = 8002;
  says("an image of 2 channels");
  options.images.clear();
  says("no image was given");
  options.images = {responses({2, 4, 1})};
  for (auto& a : scan) a.head.read_dir[0] = 0;
  const auto turned = corrected("method: girf", scan, "", options);
  EXPECT_EQ(turned.outcome.warned("are no directions"), 1);
  expect_moved(turned.readouts.at(2), scan[2], {-0.4, -0.8, 0}, 1e-3);
  for (auto& a : scan) a.head.sample_time_us = 0;
  EXPECT_EQ(corrected("method: girf", scan, "", options).outcome.warned("without sample_time_us"), 1);
}

TEST(TrajectoryCorrection, WhatIsNoSpokeIsKept) {
  const auto scan = sample(spiral(20, 200, 4), kBlobs);
  for (const char* method : {"ring", "cross_correlation"}) {
    const auto out =
        run(yaml("  - trajectory_correction: {method: " + std::string(method) +
                 "}\n  - density_compensation: {method: from_data}\n  - gridding\n  - fft\n  - deapodization\n"
                 "  - image\n"),
            measurement("spiral"), scan);
    EXPECT_EQ(out.images.size(), 1u);
    EXPECT_EQ(out.warned("its readouts are no spokes"), 1);
  }
  const std::string text = client_error([&] { run(yaml(gadgets("")), measurement("cartesian"), {}); });
  EXPECT_NE(text.find("header's trajectory is 'cartesian'"), std::string::npos) << text;
}

TEST(TrajectoryCorrection, ABrokenScanGivesNothing) {
  const auto scan = delayed(10, kTruth);
  const auto out = run(yaml(gadgets("")), measurement(), scan, {.end = End::truncated});
  EXPECT_TRUE(out.images.empty());
}

}  // namespace
}  // namespace echotrain::testing
