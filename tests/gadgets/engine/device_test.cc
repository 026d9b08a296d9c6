// No data leave the device between upload and image.
#include <numeric>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr int kCoils = 4, kSpokes = 40, kSamples = 64, kFrames = 3;

std::vector<Acquisition> radial_scan() {
  std::mt19937 random(1);
  std::vector<Acquisition> scan;
  for (int r = 0; r < kFrames * kSpokes; ++r) {
    std::vector<float> trajectory;
    const double angle = r * 1.941611;
    for (int s = 0; s < kSamples; ++s) {
      const double k = static_cast<double>(s) / kSamples - 0.5;
      trajectory.push_back(static_cast<float>(k * std::cos(angle)));
      trajectory.push_back(static_cast<float>(k * std::sin(angle)));
    }
    scan.push_back(readout(kCoils, noise(kCoils * kSamples, random), trajectory));
    scan.back().head.idx.repetition = static_cast<std::uint16_t>(r / kSpokes);
    scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(r % kSpokes);
  }
  return scan;
}

class DeviceTest : public OnEachBackend {};

TEST_P(DeviceTest, OnlyImagesComeBack) {
  RunOptions options = here();
  options.split = [](std::size_t) { return 7; };
  const Outcome out = run(yaml("  - noise_adjust\n  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n "
                               " - coil_combine\n  - image\n"),
                          header({.trajectory = "radial", .limits = step_limit(kSpokes)}), radial_scan(), options);
  ASSERT_EQ(out.images.size(), static_cast<std::size_t>(kFrames));
  const std::uint64_t image_bytes =
      std::accumulate(out.images.begin(), out.images.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const protocol::Image& image) { return sum + image.pixels.bytes.size(); });
  EXPECT_EQ(image_bytes, kFrames * 32u * 32u * sizeof(float));
  const std::uint64_t tallies = kFrames * sizeof(numerics::PixelTally);  // behind the pixels, in the same copies
  EXPECT_EQ(out.device_to_host_bytes, GetParam() == Backend::cuda ? image_bytes + tallies : 0u);
}

TEST_P(DeviceTest, TimesOfImagesAreInOrderHoweverMuchWaits) {
  for (const std::int64_t waiting : {0, 1000}) {
    numerics::Context compute(GetParam(), test_resources());
    std::vector<ImageTimes> all;
    Pipeline pipeline(PipelinePlan::check(config::read_pipeline(
                          yaml("  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n"), "test.yaml")),
                      compute,
                      {[&](protocol::Image&&, const ImageTimes& times) { all.push_back(times); },
                       [](protocol::Level, const std::string&) {}});
    pipeline.start(header({.encoded = {8, 4, 1}}));
    const Instant before = std::chrono::steady_clock::now();
    std::vector<Acquisition> scan;
    for (int line = 0; line < 4; ++line) {
      scan.push_back(readout(1, std::vector<cfloat>(8, {1, 0})));
      scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(line);
      scan.back().arrival = before;
    }
    set_flag(scan.back(), kLastInSlice);  // else the frame would end with the scan, behind which nothing waits
    pipeline.push(std::move(scan), waiting);
    EXPECT_EQ(pipeline.counts().images_out, 1u);
    pipeline.finish(End::complete);
    pipeline.wait();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_GE(all[0].computed, before) << waiting;
    EXPECT_GE(all[0].copied, all[0].computed) << waiting;
    EXPECT_GE(std::chrono::steady_clock::now(), all[0].copied);
    // On a GPU, one function is called instead of two.
    if (GetParam() == Backend::cuda && waiting > 0) {
      EXPECT_EQ(all[0].copied, all[0].computed);
    }
  }
}

ECHOTRAIN_ON_BACKENDS(DeviceTest);

}  // namespace
}  // namespace echotrain::testing
