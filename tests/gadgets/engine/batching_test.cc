// The way in which a scan arrives does not change its images: any split into batches gives the same bits or, where
// readouts are gridded as they come, the same numbers up to the rounding of sums in another order.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include "tests/gadgets/blob.h"
#include "tests/support/sources.h"

namespace echotrain::testing {
namespace {

std::string shipped(const std::string& name) {
  std::ifstream file(shipped_pipelines() / (name + ".yaml"));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Acquisition> noise_scan(int coils, std::mt19937& random) {
  std::vector<Acquisition> scan;
  for (int i = 0; i < 3; ++i) {
    scan.push_back(readout(coils, noise(static_cast<std::size_t>(coils) * 40, random)));
    set_flag(scan.back(), kNoise);
  }
  return scan;
}

/// `tolerance`: relative L2 distance of images; 0: the same bits.
void expect_same(const std::string& text, const protocol::Header& h, const std::vector<Acquisition>& scan,
                 std::size_t images, Backend backend, double tolerance = 0) {
  const Outcome whole = run(text, h, scan, {.backend = backend});
  ASSERT_EQ(whole.images.size(), images);
  std::mt19937 random(11);
  const std::vector<Split> splits = {[](std::size_t) { return 1u; }, [](std::size_t) { return 7u; },
                                     [&](std::size_t) { return 1 + random() % 20; },
                                     [&](std::size_t left) { return 1 + random() % left; }};
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const Outcome out = run(text, h, scan, {.backend = backend, .split = splits[i]});
    ASSERT_EQ(out.images.size(), images) << "split " << i;
    for (std::size_t n = 0; n < images; ++n) {
      if (tolerance == 0)
        EXPECT_EQ(pixels<std::uint32_t>(out.images[n]), pixels<std::uint32_t>(whole.images[n])) << "split " << i;
      else
        EXPECT_LT(nrmse(pixels<float>(out.images[n]), pixels<float>(whole.images[n])), tolerance) << "split " << i;
      EXPECT_EQ(out.images[n].attributes, whole.images[n].attributes);
      EXPECT_EQ(std::memcmp(&out.images[n].head, &whole.images[n].head, sizeof(protocol::ImageHeader)), 0);
    }
    EXPECT_EQ(out.texts, whole.texts);
    EXPECT_EQ(out.counts.frames, whole.counts.frames);
  }
}

using BatchingTest = OnEachBackend;

TEST_P(BatchingTest, Cartesian) {
  // Two interleaved slices, two averages, two repetitions, and noise readouts before and in the middle.
  std::mt19937 random(1);
  auto scan = noise_scan(3, random);
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int average = 0; average < 2; ++average)
      for (int y = 0; y < 12; ++y)
        for (int slice = 0; slice < 2; ++slice) {
          scan.push_back(readout(3, noise(3 * 16, random)));
          auto& idx = scan.back().head.idx;
          idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
          idx.slice = static_cast<std::uint16_t>(slice);
          idx.average = static_cast<std::uint16_t>(average);
          idx.repetition = static_cast<std::uint16_t>(repetition);
          scan.back().head.sample_time_us = slice == 0 ? 5.0f : 4.0f;
          if (y == 11) set_flag(scan.back(), kLastInSlice);
          if (repetition == 1 && average == 0 && y == 5 && slice == 0)
            for (auto& more : noise_scan(3, random)) scan.push_back(std::move(more));
        }
  const auto h = header({.encoded = {16, 12, 1},
                         .recon = {8, 12, 1},
                         .recon_fov = {8, 12, 1},
                         .limits = step_limit(12) + limit("average", 0, 1, 0)});
  expect_same(shipped("cartesian_plain"), h, scan, 4, GetParam());
}

TEST_P(BatchingTest, Radial) {
  std::mt19937 random(2);
  auto scan = noise_scan(2, random);
  for (int repetition = 0; repetition < 2; ++repetition)
    for (auto& spoke : sample(golden_radial(55, 48), {{2, {2, 1, 0}}, {2, {-3, 0, 0}}})) {
      spoke.head.idx.repetition = static_cast<std::uint16_t>(repetition);
      scan.push_back(std::move(spoke));
    }
  const auto h = header({.encoded = {24, 24, 1}, .trajectory = "goldenangle", .limits = step_limit(55)});
  expect_same(shipped("radial_2d"), h, scan, 2, GetParam(), 1e-5);
  const std::string at_frame_end = yaml(
      "  - noise_adjust\n  - density_compensation\n  - gridding: {incremental: false}\n  - fft\n"
      "  - deapodization\n  - coil_combine\n  - image\n");
  expect_same(at_frame_end, h, scan, 2, GetParam());
}

TEST_P(BatchingTest, SlidingWindows) {
  const auto h = header({.encoded = {24, 24, 1}, .trajectory = "goldenangle"});
  const std::string text = yaml("  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - image\n",
                                "frame: {readouts: 34, stride: 8}\n");
  expect_same(text, h, sample(golden_radial(60, 48), {{2, {2, 1, 0}}}), 4, GetParam());
}

// Windows that move take the same readouts however these come. On CUDA samples are added in no fixed order.
TEST_P(BatchingTest, MovingWindows) {
  const auto h = header({.encoded = {24, 24, 1}, .trajectory = "goldenangle"});
  for (const auto& [window, stride, images] :
       std::vector<std::tuple<int, int, std::size_t>>{{34, 8, 4}, {5, 2, 28}, {7, 1, 54}}) {
    const std::string text = yaml(
        "  - density_compensation: {share: equal}\n  - gridding: {rebuild_every: 3}\n  - fft\n  - deapodization\n"
        "  - image\n",
        fmt::format("frame: {{readouts: {}, stride: {}}}\n", window, stride));
    expect_same(text, h, sample(golden_radial(60, 48), {{2, {2, 1, 0}}}), images, GetParam(),
                GetParam() == Backend::cuda ? 1e-5 : 0);
  }
}

ECHOTRAIN_ON_BACKENDS(BatchingTest);

}  // namespace
}  // namespace echotrain::testing
