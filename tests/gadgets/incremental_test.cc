// Frames that are gridded while their readouts come, sliding windows, and plans that frames and sessions share.
#include "protocol/data/meta.h"
#include "tests/gadgets/blob.h"

namespace echotrain::testing {
namespace {

std::string gridded(const std::string& density, const std::string& gridding, const std::string& keys = "",
                    int dims = 2) {
  return yaml(fmt::format("  - density_compensation: {{{}}}\n  - gridding: {{dimensions: {}, {}}}\n  - fft\n"
                          "  - deapodization\n  - coil_combine: {{method: none}}\n  - image: {{component: complex}}\n",
                          density, dims, gridding),
              keys);
}
const std::string kAtOnce = "incremental: false", kInParts = "incremental: true";

void append_repetition(std::vector<Acquisition>& scan, std::vector<Acquisition> frame, int repetition) {
  for (auto& a : frame) {
    a.head.idx.repetition = static_cast<std::uint16_t>(repetition);
    scan.push_back(std::move(a));
  }
}

/// Each image of `out` against that of `expected`, relative L2. The two grid the same weighted samples in another order
/// of fp32 sums; 1e-5 is what the design allows.
void expect_same_images(const Outcome& out, const Outcome& expected, double tolerance = 1e-5) {
  ASSERT_EQ(out.images.size(), expected.images.size());
  for (std::size_t i = 0; i < out.images.size(); ++i)
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[i]), pixels<cfloat>(expected.images[i])), tolerance) << "image " << i;
}

using IncrementalTest = OnEachBackend;

RunOptions split_by(Backend backend, std::size_t readouts) {
  return {.backend = backend, .split = [readouts](std::size_t) { return readouts; }};
}

TEST_P(IncrementalTest, ARepeatedTrajectoryIsGriddedOnArrival) {
  std::vector<Acquisition> scan;
  const Blob first{2, {3, -2, 0}}, second{2, {-2, 4, 0}};
  append_repetition(scan, sample(radial(151, 96), {first, second}), 0);
  append_repetition(scan, sample(radial(151, 96), {second, first}), 1);
  append_repetition(scan, sample(radial(151, 96), {first, first}), 2);
  const auto h = header({.encoded = {48, 47, 1}, .trajectory = "radial"});
  const auto out = run(gridded("method: ramp", kInParts), h, scan, split_by(GetParam(), 10));
  const auto at_once = run(gridded("method: ramp", kAtOnce), h, scan, split_by(GetParam(), 10));
  EXPECT_EQ(at_once.counts.work.frames_in_parts, 0u);
  // The first frame too, if this process has seen such a scan before.
  EXPECT_GE(out.counts.work.frames_in_parts, 2u);
  EXPECT_GE(out.counts.work.plans_reused, 2u);
  expect_same_images(out, at_once);
  ASSERT_EQ(out.images.size(), 3u);
  const auto truth = second.image({48, 47, 1});
  EXPECT_LT(largest_error(pixels<cfloat>(out.images[0]), 1, truth), 2e-3);
  EXPECT_LT(largest_error(pixels<cfloat>(out.images[1]), 0, truth), 2e-3);
}

// A frame that begins like one before it and then continues differently.
TEST_P(IncrementalTest, WhatIsNotAsExpectedIsGriddedAnew) {
  const Blob blob{2, {3, -2, 0}}, other{2, {-2, 4, 0}};
  const Path usual = radial(151, 96);
  Path turned = usual, shorter = usual, longer = usual;
  for (std::size_t i = 80; i < turned.k.size(); ++i) turned.k[i] = radial(151, 96, -std::numbers::pi / 151).k[i - 79];
  shorter.k.resize(120);
  longer.k.push_back(radial(302, 96).k[151]);
  for (const Path& path : {turned, shorter, longer}) {
    std::vector<Acquisition> scan;
    append_repetition(scan, sample(usual, {blob}), 0);
    append_repetition(scan, sample(path, {other}), 1);
    append_repetition(scan, sample(usual, {blob}), 2);  // it should repeat the frame before it, but does not
    append_repetition(scan, sample(usual, {other}), 3);
    const auto h = header({.encoded = {48, 46, 1}, .trajectory = "radial"});
    const auto out = run(gridded("method: ramp", kInParts), h, scan, split_by(GetParam(), 7));
    const auto at_once = run(gridded("method: ramp", kAtOnce), h, scan, split_by(GetParam(), 7));
    EXPECT_GE(out.counts.work.frames_in_parts, 1u);
    expect_same_images(out, at_once);
    EXPECT_LT(largest_error(pixels<cfloat>(out.images[3]), 0, other.image({48, 46, 1})), 2e-3);
  }
}

// A frame whose last batch is what another frame is as a whole: all of its readouts count.
TEST_P(IncrementalTest, TheEndOfAFrameIsNotTakenForAFrameKnownBefore) {
  constexpr std::size_t kBatch = 50;
  const Blob blob{2, {3, -2, 0}}, other{2, {-2, 4, 0}};
  const Path usual = radial(151, 96);
  Path end = usual;
  end.k.erase(end.k.begin(), end.k.end() - kBatch);
  Path whole = usual;
  whole.k.erase(whole.k.begin(), whole.k.end() - 3 * kBatch);
  std::vector<Acquisition> scan;
  append_repetition(scan, sample(end, {blob}), 0);
  append_repetition(scan, sample(whole, {other}), 1);
  const auto h = header({.encoded = {48, 45, 1}, .trajectory = "radial"});
  const auto out = run(gridded("method: ramp", kInParts), h, scan, split_by(GetParam(), kBatch));
  expect_same_images(out, run(gridded("method: ramp", kAtOnce), h, scan, split_by(GetParam(), kBatch)));
}

TEST_P(IncrementalTest, WeightsThatComeWithTheDataNeedNoWaiting) {
  const Blob blob{2, {3, -2, 0}};
  const auto scan = sample(spiral(31, 300, 4), {blob, blob, blob});
  const auto h = header({.encoded = {40, 41, 1}, .trajectory = "spiral"});
  const auto out = run(gridded("method: from_data", kInParts), h, scan, split_by(GetParam(), 4));
  EXPECT_EQ(out.counts.work.frames_in_parts, 1u);
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_LT(largest_error(pixels<cfloat>(out.images[0]), 2, blob.image({40, 41, 1})), 3e-3);
  expect_same_images(out, run(gridded("method: from_data", kAtOnce), h, scan, {.backend = GetParam()}));
}

TEST_P(IncrementalTest, ThreeDimensions) {
  const Blob blob{3, {2, -1, 1}};
  const Path path = kooshball(700, 48);
  std::vector<Acquisition> scan;
  append_repetition(scan, sample(path, {blob}), 0);
  append_repetition(scan, sample(path, {blob}), 1);
  const auto h = header({.encoded = {20, 18, 17}, .trajectory = "other"});
  const auto out = run(gridded("method: ramp", kInParts, "", 3), h, scan, split_by(GetParam(), 130));
  EXPECT_GE(out.counts.work.frames_in_parts, 1u);
  expect_same_images(out, run(gridded("method: ramp", kAtOnce, "", 3), h, scan, {.backend = GetParam()}));
}

/// Golden-angle spokes of a blob that moves by `step` pixels along x from spoke to spoke.
std::vector<Acquisition> moving_scan(int spokes, int samples, double step) {
  std::vector<Acquisition> scan;
  const Path path = golden_radial(spokes, samples);
  for (int i = 0; i < spokes; ++i) {
    Path one;
    one.k.push_back(path.k[static_cast<std::size_t>(i)]);
    auto readout = sample(one, {{2, {-8 + step * i, 3, 0}}, {2, {0, 8 - step * i, 0}}});
    readout[0].head.flags = 0;
    scan.push_back(std::move(readout[0]));
  }
  return scan;
}

double centroid_x(const std::vector<cfloat>& image, int n) {
  double sum = 0, moment = 0;
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      const double v = image[static_cast<std::size_t>(y * n + x)].real();
      if (std::abs(y - n / 2 - 3) > 6) continue;  // the blob's rows
      sum += v;
      moment += v * (x - n / 2);
    }
  return moment / sum;
}

TEST_P(IncrementalTest, ASlidingWindowFollowsAMovingPhantom) {
  constexpr int kSpokes = 400, kWindow = 55, kStride = 5, kMatrix = 32;
  constexpr double kStep = 16.0 / kSpokes;
  const auto scan = moving_scan(kSpokes, 64, kStep);
  const auto h = header({.encoded = {kMatrix, kMatrix, 1}, .trajectory = "goldenangle"});
  const std::string frame = fmt::format("frame: {{readouts: {}, stride: {}}}\n", kWindow, kStride),
                    density = "method: ramp, share: equal";
  const auto expected = run(gridded(density, kAtOnce, frame), h, scan, split_by(GetParam(), 9));
  ASSERT_EQ(expected.images.size(), (kSpokes - kWindow) / kStride + 1u);
  EXPECT_EQ(expected.counts.work.frames_in_parts, 0u);
  // The grid is made anew now and then, in every move, and never: adding and subtracting leaves rounding behind.
  for (const int every : {7, 1, 1000000}) {
    const auto out = run(gridded(density, fmt::format("{}, rebuild_every: {}", kInParts, every), frame), h, scan,
                         split_by(GetParam(), 9));
    EXPECT_EQ(out.counts.work.frames_in_parts, expected.images.size());
    expect_same_images(out, expected);
    for (std::size_t i = 0; i < out.images.size(); i += 10) {
      // The mean place over the window's spokes; streaks of so few spokes move it by some hundredths of a pixel.
      const double middle = -8 + kStep * (static_cast<double>(i) * kStride + (kWindow - 1) / 2.0);
      EXPECT_NEAR(centroid_x(pixels<cfloat>(out.images[i]), kMatrix), middle, 0.15) << "image " << i;
    }
  }
}

// Window and stride have no common factor, so readouts that came together leave at different times.
TEST_P(IncrementalTest, WindowsOfAnyStride) {
  const auto scan = moving_scan(120, 48, 0.1);
  const auto h = header({.encoded = {24, 24, 1}, .trajectory = "goldenangle"});
  for (const auto& [window, stride] : {std::pair{34, 8}, {21, 1}, {13, 12}, {10, 10}}) {
    const std::string frame = fmt::format("frame: {{readouts: {}, stride: {}}}\n", window, stride),
                      density = "method: ramp, share: equal";
    const auto out = run(gridded(density, kInParts, frame), h, scan, split_by(GetParam(), 3));
    EXPECT_GE(out.counts.work.frames_in_parts, out.images.size());
    expect_same_images(out, run(gridded(density, kAtOnce, frame), h, scan, {.backend = GetParam()}));
  }
}

// Weights by angular gaps depend on the whole window, so each is gridded by itself.
TEST_P(IncrementalTest, WindowsWhoseWeightsDependOnAllReadouts) {
  const auto scan = moving_scan(80, 48, 0.1);
  const auto h = header({.encoded = {24, 24, 1}, .trajectory = "goldenangle"});
  const std::string frame = "frame: {readouts: 34, stride: 8}\n";
  const auto out = run(gridded("method: ramp", kInParts, frame), h, scan, split_by(GetParam(), 3));
  EXPECT_EQ(out.counts.work.frames_in_parts, 0u);
  expect_same_images(out, run(gridded("method: ramp", kAtOnce, frame), h, scan, {.backend = GetParam()}), 1e-9);
}

TEST_P(IncrementalTest, EqualSharesAreThoseOfTheWholeFrame) {
  // Evenly spread spokes: by gaps or equally is the same.
  const Blob blob{2, {3, -2, 0}};
  const auto scan = sample(radial(151, 96), {blob});
  const auto h = header({.encoded = {48, 45, 1}, .trajectory = "radial"});
  const std::string frame = "frame: {readouts: 151}\n";
  const auto gaps = run(gridded("method: ramp", kAtOnce, frame), h, scan, {.backend = GetParam()});
  for (const std::string& keys : {frame, std::string("frame: auto\n")})
    expect_same_images(run(gridded("method: ramp, share: equal", kAtOnce, keys), h, scan, {.backend = GetParam()}),
                       gaps, 1e-6);
  const auto out = run(gridded("method: ramp, share: equal", kInParts, frame), h, scan, split_by(GetParam(), 20));
  EXPECT_EQ(out.counts.work.frames_in_parts, 1u);
  expect_same_images(out, gaps);
}

TEST_P(IncrementalTest, ASecondSessionFindsThePlan) {
  const Blob blob{2, {3, -2, 0}};
  const auto scan = sample(radial(131, 90), {blob});
  const auto h = header({.encoded = {45, 44, 1}, .trajectory = "radial"});
  const std::string text = gridded("method: ramp", kInParts);
  const RunOptions options = split_by(GetParam(), 10);  // all with the same resources
  const auto first = run(text, h, scan, options), second = run(text, h, scan, options);
  EXPECT_EQ(first.counts.work.plans_made, 1u);
  EXPECT_EQ(first.counts.work.frames_in_parts, 0u);
  EXPECT_EQ(second.counts.work.plans_made, 0u);
  EXPECT_EQ(second.counts.work.plans_reused, 1u);
  EXPECT_EQ(second.counts.work.frames_in_parts, 1u);
  expect_same_images(second, first);
  // The same header with another trajectory.
  const auto other = sample(radial(131, 90, -std::numbers::pi / 131), {blob});
  const auto third = run(text, h, other, options);
  EXPECT_EQ(third.counts.work.plans_made, 1u);
  EXPECT_LT(largest_error(pixels<cfloat>(third.images[0]), 0, blob.image({45, 44, 1})), 3e-3);
}

TEST_P(IncrementalTest, DroppedSamplesAreSaidInEverySession) {
  Path path = radial(151, 120);  // stretched, so that |k| reaches 0.6
  for (auto& k : path.k)
    for (double& v : k) v *= 1.2;
  const Blob blob{2, {3, -2, 0}};
  const auto scan = sample(path, {blob});
  const auto h = header({.encoded = {48, 44, 1}, .trajectory = "radial"});
  const RunOptions options = split_by(GetParam(), 10);  // the second scan finds the first one's trajectory
  for (int session = 0; session < 2; ++session) {
    const auto out = run(gridded("method: ramp", kInParts), h, scan, options);
    EXPECT_EQ(out.warned("lie beyond 0.5 cycles/pixel and are dropped"), 1);
    EXPECT_LT(largest_error(pixels<cfloat>(out.images[0]), 0, blob.image({48, 44, 1})), 2e-3);
  }
}

// Whether most samples are out of bounds is decided for the whole frame, not for readouts that happen to come together.
TEST_P(IncrementalTest, AReadoutBeyondTheEdgeIsNotTheFrame) {
  Path path = spiral(31, 300, 4);
  for (double& k : path.k[7]) k += 0.6;  // one arm astray
  const auto scan = sample(path, {{2, {3, -2, 0}}});
  const auto h = header({.encoded = {40, 39, 1}, .trajectory = "spiral"});
  const std::string text = gridded("method: from_data", kInParts);
  const auto whole = run(text, h, scan, {.backend = GetParam()}), parts = run(text, h, scan, split_by(GetParam(), 1));
  EXPECT_EQ(whole.warned("lie beyond 0.5 cycles/pixel and are dropped"), 1);
  EXPECT_EQ(parts.warned("lie beyond 0.5 cycles/pixel and are dropped"), 1);
  EXPECT_EQ(whole.texts, parts.texts);
  expect_same_images(parts, whole);
  // All arms are in another unit: the frame is refused, however they come.
  Path wide = spiral(31, 300, 4);
  for (auto& arm : wide.k)
    for (double& k : arm) k *= 40;
  const auto other = sample(wide, {{2, {3, -2, 0}}});
  for (const std::size_t readouts : {1u, 31u})
    EXPECT_NE(client_error([&] { run(text, h, other, split_by(GetParam(), readouts)); }).find("cycles_per_fov"),
              std::string::npos);
}

// Weights that come with the data and are all zero give an error and no image.
TEST_P(IncrementalTest, NoImageIsMadeOfNothing) {
  Path path = spiral(11, 100, 4);
  for (auto& w : path.weights) std::fill(w.begin(), w.end(), 0.0);
  const auto h = header({.encoded = {16, 16, 1}, .trajectory = "spiral"});
  for (const std::size_t readouts : {2u, 11u}) {
    int images = 0;
    auto options = split_by(GetParam(), readouts);
    EXPECT_NE(
        client_error([&] {
          images += static_cast<int>(
              run(gridded("method: from_data", kInParts), h, sample(path, {{2, {3, -2, 0}}}), options).images.size());
        }).find("sum to nothing"),
        std::string::npos);
    EXPECT_EQ(images, 0);
  }
}

// Gadgets that run as one give what they give one after another. A tap makes them separate.
TEST_P(IncrementalTest, FusedIsUnfused) {
  const auto check = [&](const std::string& text, const protocol::Header& h, const std::vector<Acquisition>& scan) {
    RunOptions apart = here();
    apart.tap = "gridding";
    int grids = 0;
    apart.on_item = [&](const Item& item, numerics::Context&) { grids += std::holds_alternative<Grid>(item) ? 1 : 0; };
    const auto fused = run(text, h, scan, here()), unfused = run(text, h, scan, apart);
    EXPECT_EQ(grids, 1);
    ASSERT_EQ(fused.images.size(), 1u);
    expect_same_images(fused, unfused, 1e-6);
  };
  const Blob blob{2, {3, -2, 0}}, other{2, {-1, 4, 0}};
  const auto plane = sample(radial(151, 96), {blob, other, blob});
  const auto h =
      header({.encoded = {48, 43, 1}, .recon = {40, 43, 1}, .recon_fov = {40, 43, 1}, .trajectory = "radial"});
  check(gridded("method: ramp", kAtOnce), h, plane);
  check(yaml("  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - coil_combine\n"
             "  - image: {component: complex}\n"),
        h, plane);
  check(gridded("method: ramp", kAtOnce, "", 3), header({.encoded = {20, 18, 17}, .trajectory = "other"}),
        sample(kooshball(700, 48), {{3, {2, -1, 1}}, {3, {0, 0, 0}}}));
  // The other sign of the exponent is not fused, and turns the image about its centre.
  const std::string forward = yaml(
      "  - density_compensation\n  - gridding\n  - fft: {direction: forward}\n"
      "  - deapodization\n  - image: {component: complex}\n");
  const auto turned =
      run(forward, header({.encoded = {47, 47, 1}, .trajectory = "radial"}), sample(radial(151, 96), {blob}), here());
  const Blob mirrored{2, {-3, 2, 0}};
  EXPECT_LT(largest_error(pixels<cfloat>(turned.images[0]), 0, mirrored.image({47, 47, 1})), 2e-3);
}

ECHOTRAIN_ON_BACKENDS(IncrementalTest);

TEST(GriddingOptionsTest, AccuracyExcludesWhatItChooses) {
  const auto problem = [](const std::string& gridding) {
    try {
      PipelinePlan::check(config::read_pipeline(gridded("method: ramp", gridding), "test.yaml"));
      return std::string();
    } catch (const config::ConfigError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(problem("accuracy: 1e-3"), "");
  EXPECT_NE(problem("accuracy: 1e-3, kernel_width: 6").find("accuracy chooses"), std::string::npos);
  EXPECT_NE(problem("accuracy: 0.5").find("0.1"), std::string::npos) << problem("accuracy: 0.5");
}

TEST_P(IncrementalTest, AccuracyIsReachedOrRefused) {
  const Blob blob{2, {3, -2, 0}};
  const auto scan = sample(radial(151, 96), {blob});
  const auto h = header({.encoded = {48, 48, 1}, .trajectory = "radial"});
  const auto exact =
      run(gridded("method: ramp", "kernel_width: 8, oversampling: 2.0"), h, scan, {.backend = GetParam()});
  double last = 1;
  for (const char* accuracy : {"1e-2", "1e-3", "1e-5"}) {
    const auto out =
        run(gridded("method: ramp", std::string("accuracy: ") + accuracy), h, scan, {.backend = GetParam()});
    const double error = nrmse(pixels<cfloat>(out.images.at(0)), pixels<cfloat>(exact.images.at(0)));
    EXPECT_LT(error, 1.3 * std::stod(accuracy));
    EXPECT_LT(error, last);
    last = error;
  }
  EXPECT_NE(client_error([&] { run(gridded("method: ramp", "accuracy: 1e-9"), h, scan); }).find("cannot be reached"),
            std::string::npos);
}

// Frames that are left out leave the others as they are: a window's grid loses and gains what it must.
TEST_P(IncrementalTest, FramesLeftOutLeaveTheOthersAsTheyAre) {
  const auto scan = moving_scan(160, 64, 0.05);
  const auto h = header({.encoded = {32, 32, 1}, .trajectory = "goldenangle"});
  const std::string density = "method: ramp, share: equal", rule = "frame: {readouts: 21, stride: 3";
  const auto wait = run(gridded(density, kInParts, rule + "}\n"), h, scan, {.backend = GetParam()});
  for (const std::size_t batch : {1u, 12u, 40u, 160u}) {
    RunOptions live = split_by(GetParam(), batch);
    live.waiting = 0;
    const auto out = run(gridded(density, kInParts, rule + ", when_behind: drop_oldest}\n"), h, scan, live);
    EXPECT_EQ(out.images.size() + out.counts.work.frames_dropped, wait.images.size()) << batch;
    EXPECT_EQ(out.counts.work.frames_dropped > 0, batch > 1) << batch;
    for (std::size_t i = 0; i < out.images.size(); ++i) {
      const std::string missing = protocol::meta_value(out.images[i].attributes, "echotrain_frames_dropped");
      const std::size_t number = i + (missing.empty() ? 0 : std::stoul(missing));
      ASSERT_LT(number, wait.images.size());
      EXPECT_LT(nrmse(pixels<cfloat>(out.images[i]), pixels<cfloat>(wait.images[number])), 1e-5) << number;
    }
  }
}

}  // namespace
}  // namespace echotrain::testing
