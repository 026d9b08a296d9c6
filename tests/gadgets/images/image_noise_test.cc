// The noise that images know of theirs (CoilImages::noise): measured over the voxels where a gadget hands it on, gone
// where a gadget makes noise that differs from voxel to voxel, or that nothing is known of.
#include <cmath>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr int kReceivers = 3, kColumns = 64, kRows = 32;

/// Noise of unequal strengths, correlated between neighbours.
std::vector<cfloat> coloured(std::size_t samples, std::mt19937& random) {
  const auto white = noise(kReceivers * samples, random);
  std::vector<cfloat> out(white.size());
  for (std::size_t c = 0; c < kReceivers; ++c)
    for (std::size_t s = 0; s < samples; ++s)
      out[c * samples + s] = (2.0F + static_cast<float>(c)) * white[c * samples + s] +
                             (c > 0 ? cfloat(1.5F, -1.0F) * white[(c - 1) * samples + s] : cfloat());
  return out;
}

struct NoisyLines {
  int last = kRows, samples = kColumns;
  bool noise = true;  // readouts of noise come first
};

/// Two repetitions of an image that is the same everywhere, 10 times as strong as the noise.
std::vector<Acquisition> noisy_scan(const NoisyLines& lines) {
  std::mt19937 random(7);
  std::vector<Acquisition> scan;
  for (int i = 0; lines.noise && i < 20; ++i) {
    scan.push_back(readout(kReceivers, coloured(1024, random)));
    set_flag(scan.back(), kNoise);
  }
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int y = 0; y < lines.last; ++y) {
      std::vector<cfloat> data = coloured(static_cast<std::size_t>(lines.samples), random);
      for (int c = 0; y == kRows / 2 && c < kReceivers; ++c)
        data[static_cast<std::size_t>(c * lines.samples + kColumns / 2)] += 1500.0F;
      scan.push_back(readout(kReceivers, std::move(data)));
      auto& head = scan.back().head;
      head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
      head.idx.repetition = static_cast<std::uint16_t>(repetition);
    }
  return scan;
}

HeaderSpec noise_spec() {
  HeaderSpec out;
  out.encoded = {kColumns, kRows, 1};
  out.limits = step_limit(kRows) + limit("repetition", 0, 1, 0);
  return out;
}

class ImageNoiseTest : public OnEachBackend {
 protected:
  /// What the images that leave `tap` say of their noise, and what they have: its standard deviation about the mean.
  struct Noise {
    std::vector<double> said, measured;
  };
  Noise noise_of(const std::string& gadgets, const std::string& tap, const NoisyLines& lines = {},
                 const HeaderSpec& measurement = noise_spec()) const {
    Noise out;
    RunOptions options{.backend = GetParam(), .tap = tap};
    options.on_item = [&](const Item& item, numerics::Context& compute) {
      const auto& images = std::get<CoilImages>(item);
      const auto all = elements(compute, images.data);
      const std::int64_t coils = images.data.shape()[0], voxels = std::ssize(all) / coils;
      double squares = 0;
      for (std::int64_t c = 0; c < coils; ++c) {
        cdouble mean = 0;
        for (std::int64_t v = 0; v < voxels; ++v) mean += cdouble(all[static_cast<std::size_t>(c * voxels + v)]);
        mean /= static_cast<double>(voxels);
        for (std::int64_t v = 0; v < voxels; ++v)
          squares += std::norm(cdouble(all[static_cast<std::size_t>(c * voxels + v)]) - mean);
      }
      out.said.push_back(images.noise);
      out.measured.push_back(std::sqrt(squares / static_cast<double>(2 * all.size())));
    };
    run(yaml(gadgets + "  - image: {component: complex, type: float}\n"), header(measurement), noisy_scan(lines),
        options);
    EXPECT_FALSE(out.said.empty()) << gadgets;
    return out;
  }
  // 2048 voxels of one coil or more, two numbers each, tell a deviation to 1.6 %, and fewer where voxels are cut;
  // 20,480 samples of noise tell the whitening to 0.5 %. The factor is against that of all samples, 1 / sqrt(N).
  static void known(const Noise& noise, double factor, const std::string& what) {
    for (std::size_t i = 0; i < noise.said.size(); ++i) {
      EXPECT_NEAR(noise.said[i], factor / std::sqrt(kColumns * kRows), 1e-5 * noise.said[i]) << what;
      EXPECT_NEAR(noise.measured[i], noise.said[i], 0.06 * noise.said[i]) << what;
    }
  }
  static void unknown(const Noise& noise, const std::string& what) {
    for (const double said : noise.said) EXPECT_EQ(said, 0) << what;
  }
};

const std::string kToKSpace = "  - noise_adjust\n  - cartesian_kspace\n", kToImages = kToKSpace + "  - fft\n";

TEST_P(ImageNoiseTest, ATransformTellsItsNoise) {
  known(noise_of(kToImages, "fft"), 1, "all lines");
  known(noise_of(kToImages, "fft", {.last = 20}), std::sqrt(20.0 / kRows), "20 lines");
  known(noise_of("  - noise_adjust\n  - coil_compression: {channels: 2}\n  - cartesian_kspace\n  - fft\n", "fft"), 1,
        "compressed");
  HeaderSpec finer = noise_spec(), narrower = noise_spec();
  finer.recon = {2 * kColumns, 2 * kRows, 1};
  finer.recon_fov = {kColumns, kRows, 1};
  known(noise_of(kToImages, "fft", {}, finer), 1, "zero-filled");
  narrower.recon = {kColumns / 2, kRows, 1};
  narrower.recon_fov = {kColumns / 2, kRows, 1};
  known(noise_of(kToImages, "fft", {}, narrower), 1, "oversampled");
}

TEST_P(ImageNoiseTest, GadgetsThatKnowWhatTheyDoHandItOn) {
  known(noise_of(kToImages + "  - coil_combine: {method: adaptive}\n", "coil_combine"), 1, "adaptive");
  known(noise_of(kToImages + "  - resize: {crop_x: 40, crop_y: 20}\n", "resize"), 1, "cut");
  known(noise_of(kToImages + "  - average: {over: repetition}\n", "average"), std::sqrt(0.5), "average");
  known(noise_of(kToKSpace + "  - partial_fourier: {method: auto}\n  - fft\n", "fft"), 1, "nothing to fill");
  known(noise_of(kToImages + "  - partial_fourier: {method: auto}\n", "partial_fourier"), 1, "nothing to fill");
  const Noise scaled = noise_of(kToImages + "  - scale: {to: 500}\n", "scale");
  const double factor = scaled.said[0] * std::sqrt(kColumns * kRows);
  EXPECT_GT(factor, 100);
  known(scaled, factor, "scale");
}

TEST_P(ImageNoiseTest, OthersDoNot) {
  unknown(noise_of(kToImages, "fft", {.noise = false}), "no noise scan");
  unknown(noise_of("  - cartesian_kspace\n  - fft\n", "fft"), "no noise_adjust");
  unknown(noise_of(kToKSpace + "  - filter\n  - fft\n", "fft"), "filter before");
  const NoisyLines some{.last = 20};
  unknown(noise_of(kToKSpace + "  - partial_fourier: {method: pocs}\n  - fft\n", "fft", some),
          "partial_fourier before");
  unknown(noise_of(kToImages + "  - partial_fourier: {method: pocs}\n", "partial_fourier", some), "partial_fourier");
  for (const char* gadget : {"filter", "unring", "sobel", "intensity: {method: n4}", "denoise", "invert_contrast",
                             "resize: {matrix_x: 128}", "coil_combine: {method: rss}"}) {
    const std::string text(gadget);
    unknown(noise_of(kToImages + "  - " + text + "\n", text.substr(0, text.find(':'))), text);
  }
}

ECHOTRAIN_ON_BACKENDS(ImageNoiseTest);

}  // namespace
}  // namespace echotrain::testing
