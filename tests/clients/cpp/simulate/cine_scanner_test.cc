// Scans of a beating, breathing heart that run on through the beats, against sums in float64 that share nothing with
// them: ellipses, the Bessel function, heart, breath and coils are written down here once more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "clients/cpp/base/image_pixels.h"
#include "protocol/files/dataset.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client::running_heart {
namespace {

using std::numbers::pi;
using Complex = std::complex<double>;

constexpr int kMatrix = 16;
constexpr double kTrMs = 7, kBeatMs = 600, kBreathMs = 1500, kBreathMm = 32, kFovMm = 256;

// J1(x) / x by the trapezoidal rule on Bessel's integral, whose error falls faster than any power of the step.
double bessel_over(double x) {
  if (std::abs(x) < 1e-6) return 0.5;
  constexpr int kSteps = 256;
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double angle = 2 * pi * (i + 0.5) / kSteps;
    sum += std::cos(angle - x * std::sin(angle));
  }
  return sum / kSteps / x;
}

struct Ellipse {
  double amplitude, x, y, a, b, degrees;
  bool moves;
};

// The body at a moment, in units of half the field of view, y to the front: rows of an image run the other way.
std::vector<Ellipse> body(double ms) {
  double phase = (ms - 0.4 * kBeatMs) / kBeatMs;  // the first beat comes at 0.4 of the interval
  phase -= std::floor(phase);
  const double tight = phase < 0.35  ? (1 - std::cos(pi * phase / 0.35)) / 2
                       : phase < 0.8 ? (1 + std::cos(pi * (phase - 0.35) / 0.45)) / 2
                                     : 0;
  const double inner = 0.2 * (1 - 0.45 * tight), outer = std::sqrt(0.05 + inner * inner),
               right = 0.15 * (1 - 0.3 * tight);
  return {{0.5, 0, 0, 0.88, 0.7, 0, false},
          {-0.4, -0.58, 0.05, 0.2, 0.42, 8, true},
          {-0.4, 0.64, 0.05, 0.17, 0.38, -8, true},
          {0.2, 0, -0.55, 0.1, 0.1, 0, false},
          {0.1, 0.1, 0, 1.1 * outer, outer, 30, true},
          {0.4, 0.1, 0, 1.1 * inner, inner, 30, true},
          {0.4, -0.15, 0.22, right, 0.5 * right, 30, true}};
}

// The transform of the body at a moment, at k in cycles/pixel.
Complex transform(double ms, double kx, double ky) {
  const double half = kMatrix / 2.0, breath = std::pow(std::sin(pi * std::fmod(ms, kBreathMs) / kBreathMs), 4);
  Complex sum = 0;
  for (const Ellipse& e : body(ms)) {
    const double x = half * e.x, y = -half * e.y + (e.moves ? breath * kBreathMm * kMatrix / kFovMm : 0);
    const double cosine = std::cos(e.degrees * pi / 180), sine = -std::sin(e.degrees * pi / 180);
    const double u = half * e.a * (cosine * kx + sine * ky), v = half * e.b * (-sine * kx + cosine * ky);
    // The integral of exp(-2 pi i k.r) over an ellipse: 2 pi a b J1(z) / z at z = 2 pi |(u, v)|.
    sum += e.amplitude * 2 * pi * half * e.a * half * e.b * bessel_over(2 * pi * std::hypot(u, v)) *
           std::polar(1.0, -2 * pi * (kx * x + ky * y));
  }
  return sum;
}

std::vector<std::string> scan(const std::filesystem::path& file, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"simulate", "-o", file.string(), "--motion", "cardiac"};
  const std::vector<std::string> common = {"--matrix",         "16", "--coils",      "1",   "--tr-ms",        "7",
                                           "--jitter",         "0",  "--heart-rate", "100", "--breathing-mm", "32",
                                           "--breathing-rate", "40"};
  arguments.insert(arguments.end(), common.begin(), common.end());
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::complex<float>> data_of(const protocol::Acquisition& readout) {
  std::vector<std::complex<float>> values(readout.data.bytes.size() / sizeof(std::complex<float>));
  readout.data.copy_to(values.data());
  return values;
}

// Data are float, of sums up to 200 pixels: rounding is 200 * 6e-8. Half a repetition's time more moves the heart's
// edges so much that samples change by 0.1.
constexpr double kRounding = 2e-5;

TEST(FreeCineScan, SpokesAreOfTheBodyAtTheirMoment) {
  const TemporaryFolder folder;
  const auto made = command(scan(folder / "scan.h5", {"--trajectory", "golden_radial", "--readouts", "13", "--frames",
                                                      "10", "--truth-every", "50"}));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("2 instants, free gating, 100 beats"), std::string::npos) << made.out;
  const protocol::DatasetReader reader(folder / "scan.h5");
  ASSERT_EQ(reader.acquisitions(), 130u);
  for (std::size_t n = 0; n < reader.acquisitions(); ++n) {
    const auto readout = reader.acquisition(n);
    EXPECT_EQ(+readout.head.idx.repetition, n / 13);
    EXPECT_EQ(+readout.head.idx.kspace_encode_step_1, n % 13);
    EXPECT_EQ((readout.head.flags & (1 << 6)) != 0, n % 13 == 0);   // first in slice
    EXPECT_EQ((readout.head.flags & (1 << 7)) != 0, n % 13 == 12);  // last in slice
    const double ms = (static_cast<double>(n) + 0.5) * kTrMs;
    EXPECT_EQ(+readout.head.acquisition_time_stamp, static_cast<std::uint32_t>(ms / 2.5));
    std::vector<float> k(readout.trajectory.bytes.size() / sizeof(float));
    readout.trajectory.copy_to(k.data());
    ASSERT_EQ(k.size(), 64u);
    const auto data = data_of(readout);
    const double angle = static_cast<double>(n) * 111.246117975 * pi / 180;
    for (std::size_t s = 0; s < 32; s += 5) {
      const double radius = (static_cast<double>(s) - 16) / 32;
      EXPECT_NEAR(k[2 * s], radius * std::cos(angle), 1e-6);
      EXPECT_NEAR(k[2 * s + 1], radius * std::sin(angle), 1e-6);
      EXPECT_NEAR(std::abs(Complex(data[s]) - transform(ms, radius * std::cos(angle), radius * std::sin(angle))), 0,
                  kRounding)
          << n << ' ' << s;
    }
  }
}

TEST(FreeCineScan, TruthsAreOfTheirInstants) {
  const TemporaryFolder folder;
  ASSERT_EQ(command(scan(folder / "scan.h5", {"--trajectory", "golden_radial", "--readouts", "13", "--frames", "10",
                                              "--truth-every", "50"}))
                .code,
            0);
  const auto times = read_array(folder / "scan.h5", "dataset", "truth_ms");
  ASSERT_EQ(times.values.size(), 2u);
  const auto truths = read_truths(folder / "scan.h5", "dataset");
  ASSERT_EQ(truths.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const double ms = (50.0 * static_cast<double>(i) + 25) * kTrMs;
    EXPECT_FLOAT_EQ(static_cast<float>(times.values[i]), static_cast<float>(ms));
    // All of k-space in the disc, in steps of half the image's: cells on the rim count by their share.
    constexpr int kGrid = 2 * kMatrix;
    for (const auto& [x, y] : {std::pair{9, 8}, {4, 9}, {8, 3}, {12, 12}}) {
      Complex sum = 0;
      for (int i2 = -kGrid / 2; i2 < kGrid / 2; ++i2)
        for (int i1 = -kGrid / 2; i1 < kGrid / 2; ++i1) {
          const double kx = i1 / static_cast<double>(kGrid), ky = i2 / static_cast<double>(kGrid);
          const double share = std::clamp((0.5 - std::hypot(kx, ky)) * kGrid + 0.5, 0.0, 1.0);
          if (share > 0) sum += share * transform(ms, kx, ky) * std::polar(1.0, 2 * pi * (kx * (x - 8) + ky * (y - 8)));
        }
      EXPECT_NEAR(std::abs(sum) / (kGrid * kGrid), truths[i].values[static_cast<std::size_t>(y * kMatrix + x)], 1e-6);
    }
  }
}

TEST(FreeCineScan, LinesMoveOnFromFrameToFrame) {
  const TemporaryFolder folder;
  const auto made = command(
      scan(folder / "scan.h5", {"--trajectory", "cartesian", "--gating", "free", "--frames", "6", "--acceleration", "4",
                                "--calibration-mode", "interleaved", "--truth-every", "4"}));
  ASSERT_EQ(made.code, 0) << made.err;
  const protocol::DatasetReader reader(folder / "scan.h5");
  ASSERT_EQ(reader.acquisitions(), 24u);
  for (std::size_t n = 0; n < 24; ++n) {
    const auto readout = reader.acquisition(n);
    const int frame = static_cast<int>(n / 4), line = readout.head.idx.kspace_encode_step_1;
    EXPECT_EQ(+readout.head.idx.repetition, frame);
    EXPECT_EQ((line - 8 - frame) % 4, 0) << line;
    EXPECT_EQ((readout.head.flags & (1 << 7)) != 0, n % 4 == 3);
    const auto data = data_of(readout);
    for (std::size_t s = 0; s < 16; s += 3)
      EXPECT_NEAR(std::abs(Complex(data[s]) - transform((static_cast<double>(n) + 0.5) * kTrMs,
                                                        (static_cast<double>(s) - 8) / 16, (line - 8) / 16.0)),
                  0, kRounding);
  }
  EXPECT_EQ(read_truths(folder / "scan.h5", "dataset").size(), 6u);
}

TEST(FreeCineScan, LatticesMoveWithThePhaseTheReadoutAndTheSweep) {
  const TemporaryFolder folder;
  const auto acquired = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--trajectory", "cartesian", "--acceleration", "4", "--no-truth"});
    const auto made = command(scan(folder / "scan.h5", more));
    EXPECT_EQ(made.code, 0) << made.err;
    const protocol::DatasetReader reader(folder / "scan.h5");
    std::vector<protocol::AcquisitionHeader> heads;
    for (std::size_t n = 0; n < reader.acquisitions(); ++n) heads.push_back(reader.acquisition(n).head);
    return heads;
  };
  // The lattice holds the centre, line 8, and moves by one line for each count.
  const auto moved = [](const protocol::AcquisitionHeader& head) {
    return (head.idx.kspace_encode_step_1 - 8 + 16) % 4;
  };
  const auto sweeps = acquired({"--gating", "free", "--sweeps", "5", "--calibration-mode", "interleaved"});
  ASSERT_EQ(sweeps.size(), 20u);
  for (std::size_t n = 0; n < 20; ++n) EXPECT_EQ(moved(sweeps[n]), static_cast<int>(n / 4 % 4)) << n;
  const auto phases = acquired({"--gating", "prospective", "--phases", "6", "--calibration-mode", "interleaved"});
  ASSERT_EQ(phases.size(), 24u);
  for (const auto& head : phases) EXPECT_EQ(moved(head), head.idx.phase % 4);
  EXPECT_NE(phases.back().flags & (1ull << (ISMRMRD::ISMRMRD_ACQ_LAST_IN_MEASUREMENT - 1)), 0u);
  const auto beats = acquired({"--gating", "retrospective", "--calibration-mode", "interleaved"});
  for (std::size_t n = 0; n < beats.size(); ++n) EXPECT_EQ(moved(beats[n]), static_cast<int>(n % 4)) << n;
  // One lattice, with six reference lines, 5 to 10, of which those off the lattice are for calibration alone.
  const auto embedded = acquired({"--gating", "free", "--sweeps", "2", "--calibration", "6"});
  ASSERT_EQ(embedded.size(), 18u);
  for (const auto& head : embedded) {
    const int line = head.idx.kspace_encode_step_1;
    const bool reference = line >= 5 && line <= 10;
    EXPECT_EQ((head.flags >> 20 & 1) != 0, reference && line % 4 == 0) << line;
    EXPECT_EQ((head.flags >> 19 & 1) != 0, reference && line % 4 != 0) << line;
  }
}

TEST(FreeCineScan, SpiralsBringTheirWeightsAndATruthOfEachFrame) {
  const TemporaryFolder folder;
  const auto made = command(scan(folder / "scan.h5", {"--trajectory", "spiral", "--readouts", "4", "--frames", "3"}));
  ASSERT_EQ(made.code, 0) << made.err;
  const protocol::DatasetReader reader(folder / "scan.h5");
  ASSERT_EQ(reader.acquisitions(), 12u);
  const auto readout = reader.acquisition(9);
  ASSERT_EQ(+readout.head.trajectory_dimensions, 3);
  std::vector<float> k(readout.trajectory.bytes.size() / sizeof(float));
  readout.trajectory.copy_to(k.data());
  const auto data = data_of(readout);
  for (std::size_t s = 0; s < data.size(); s += 31)
    // Positions of the file are rounded to float: 3e-8 cycles/pixel times 2 pi 8 pixels times 200.
    EXPECT_NEAR(std::abs(Complex(data[s]) - transform(9.5 * kTrMs, k[3 * s], k[3 * s + 1])), 0, 4e-4);
  EXPECT_EQ(read_array(folder / "scan.h5", "dataset", "truth_ms").values.size(), 3u);
}

}  // namespace
}  // namespace echotrain::client::running_heart
