#include "clients/cpp/simulate/trajectory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/ground_truth.h"

namespace echotrain::client {
namespace {

double radius(const Vec3& k) { return std::sqrt(k[0] * k[0] + k[1] * k[1] + k[2] * k[2]); }

TEST(ScanPath, RadialSpokesAreDiametersAtEqualAngles) {
  const ScanPath scan(TrajectoryKind::radial, 32, 10, 64, 1);
  for (int r = 0; r < 10; ++r) {
    const ReadoutPath path = scan.readout(r, 3);
    ASSERT_EQ(path.positions.size(), 64u);
    EXPECT_TRUE(path.weights.empty());
    const double angle = std::numbers::pi * r / 10;
    for (int s = 0; s < 64; ++s) {
      const double k = -0.5 + s / 64.0;
      EXPECT_NEAR(path.positions[s][0], k * std::cos(angle), 1e-15);
      EXPECT_NEAR(path.positions[s][1], k * std::sin(angle), 1e-15);
    }
  }
  EXPECT_EQ(radius(scan.readout(4, 0).positions[scan.center_sample()]), 0);
}

TEST(ScanPath, DelaysMoveSpokesByAMatrixTimesTheirStep) {
  const GradientDelays delays = parse_gradient_delays("-0.6:0.45:0.2");
  const ScanPath scan(TrajectoryKind::golden_radial, 32, 7, 64, 1);
  for (int r = 0; r < 7; ++r) {
    const auto nominal = scan.readout(r, 2), played = scan.played(r, 2, delays);
    const double angle = (14 + r) * 111.246117975 * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
    for (int i = 0; i < 64; ++i) {
      EXPECT_NEAR(played.positions[i][0] - nominal.positions[i][0], (-0.6 * c + 0.2 * s) / 64, 1e-12);
      EXPECT_NEAR(played.positions[i][1] - nominal.positions[i][1], (0.2 * c + 0.45 * s) / 64, 1e-12);
    }
  }
  for (const char* bad : {"1", "1:2", "1:2:3:4", "1:2:x", "1:2:101", "nan:0:0"})
    EXPECT_THROW(parse_gradient_delays(bad), UsageError) << bad;
}

TEST(ScanPath, GoldenAngleGoesOnThroughFrames) {
  const ScanPath scan(TrajectoryKind::golden_radial, 32, 7, 64, 1);
  const auto end = scan.readout(2, 3).positions[0];  // spoke 23
  const double angle = 23 * 111.246117975 * std::numbers::pi / 180;
  EXPECT_NEAR(end[0], -0.5 * std::cos(angle), 1e-12);
  EXPECT_NEAR(end[1], -0.5 * std::sin(angle), 1e-12);
}

TEST(ScanPath, SpiralWeightsSumToTheDiscAndSamplesAreDenseEnough) {
  const ScanPath scan(TrajectoryKind::spiral, 64, 0, 0, 1);
  double sum = 0, first_moment = 0;
  for (int r = 0; r < scan.readouts(); ++r) {
    const ReadoutPath path = scan.readout(r, 0);
    ASSERT_EQ(path.weights.size(), path.positions.size());
    for (std::size_t s = 0; s < path.positions.size(); ++s) {
      sum += path.weights[s];
      first_moment += path.weights[s] * radius(path.positions[s]);
      EXPECT_LE(radius(path.positions[s]), 0.5);
      if (s == 0) continue;
      const auto &a = path.positions[s - 1], &b = path.positions[s];
      EXPECT_LE(std::hypot(a[0] - b[0], a[1] - b[1]), 1.0 / 80);  // Nyquist along the arm
    }
  }
  EXPECT_NEAR(sum, std::numbers::pi / 4, 1e-12);
  // The weights integrate |k| over the disc: 2 pi 0.5^3 / 3.
  EXPECT_NEAR(first_moment, 2 * std::numbers::pi * 0.125 / 3, 1e-4);
  // Nyquist across arms: one step in radius is 0.5 / (turns x interleaves) = 1 / (1.25 matrix).
  const auto last = scan.readout(0, 0).positions.back();
  const double turns = 1.25 * 64 / (2 * scan.readouts());
  EXPECT_NEAR(std::remainder(std::atan2(last[1], last[0]) - 2 * std::numbers::pi * turns * radius(last) / 0.5,
                             2 * std::numbers::pi),
              0, 1e-9);
}

TEST(ScanPath, KooshballSpokesStartAtTheCentreAndCoverTheSphereEvenly) {
  const ScanPath scan(TrajectoryKind::kooshball, 16, 500, 16, 1);
  Vec3 mean{}, square{};
  for (int r = 0; r < 500; ++r) {
    const auto path = scan.readout(r, 0);
    EXPECT_EQ(radius(path.positions[0]), 0);
    for (int s = 0; s < 16; ++s)
      EXPECT_NEAR(radius(path.positions[s]), s / 31.0, 1e-12);  // half a step beyond the last is 0.5
    for (int a = 0; a < 3; ++a) {
      const double unit = path.positions[15][a] / radius(path.positions[15]);
      mean[a] += unit / 500;
      square[a] += unit * unit / 500;
    }
  }
  for (int a = 0; a < 3; ++a) {
    EXPECT_NEAR(mean[a], 0, 1e-2);
    EXPECT_NEAR(square[a], 1.0 / 3, 1e-2);
  }
}

TEST(ScanPath, CartesianLinesFillTheSquare) {
  const ScanPath scan(TrajectoryKind::cartesian, 9, 0, 0, 2);
  EXPECT_EQ(scan.samples(), 18);
  EXPECT_EQ(scan.center_sample(), 9);
  const auto line = scan.readout(0, 0);
  EXPECT_NEAR(line.positions[0][0], -0.5, 1e-15);
  EXPECT_NEAR(line.positions[17][0], 8.0 / 18, 1e-15);
  EXPECT_NEAR(line.positions[0][1], -4.0 / 9, 1e-15);
  EXPECT_NEAR(scan.readout(8, 0).positions[0][1], 4.0 / 9, 1e-15);
}

TEST(ScanPath, PartialEchoKeepsTheLastSamples) {
  const ScanPath scan(TrajectoryKind::cartesian, 16, 16, 12, 1);
  EXPECT_EQ(scan.center_sample(), 4);
  EXPECT_NEAR(scan.readout(0, 0).positions[11][0], 7.0 / 16, 1e-15);
}

TEST(ScanPath, AStackRepeatsItsPlaneAtEveryPartition) {
  for (const auto& [kind, in_plane] : {std::pair{TrajectoryKind::stack_of_stars, TrajectoryKind::golden_radial},
                                       {TrajectoryKind::stack_of_spirals, TrajectoryKind::spiral}}) {
    const ScanPath plane(in_plane, 32, 6, 300, 1);
    const ScanPath stack(kind, {.matrix = 32, .readouts = 6, .samples = 300, .partitions = 5});
    EXPECT_EQ(stack.readouts(), 30);
    EXPECT_EQ(stack.depth(), 5);
    EXPECT_EQ(stack.center_sample(), plane.center_sample());
    for (int r = 0; r < 30; ++r) {
      EXPECT_EQ(stack.steps(r).shot, r / 5);
      EXPECT_EQ(stack.steps(r).partition, r % 5);
      const auto path = stack.readout(r, 2), flat = plane.readout(r / 5, 2);
      EXPECT_EQ(path.weights, flat.weights);
      for (std::size_t s = 0; s < 300; ++s) {
        const Vec3 expected = {flat.positions[s][0], flat.positions[s][1], (r % 5 - 2) / 5.0};
        EXPECT_EQ(path.positions[s], expected);
      }
    }
  }
  const ScanPath enough(TrajectoryKind::stack_of_stars, {.matrix = 40});
  EXPECT_EQ(enough.partitions(), 10);
  EXPECT_EQ(enough.shots(), ScanPath(TrajectoryKind::golden_radial, 40, 0, 0, 1).readouts());
}

TEST(ScanPath, ImpossibleNumbersAreUsageErrors) {
  EXPECT_THROW(ScanPath(TrajectoryKind::radial, {.matrix = 16, .partitions = 4}), UsageError);
  EXPECT_THROW(ScanPath(TrajectoryKind::stack_of_stars, {.matrix = 16, .partitions = 1}), UsageError);
  EXPECT_THROW(ScanPath(TrajectoryKind::cartesian, 16, 17, 0, 1), UsageError);
  EXPECT_THROW(ScanPath(TrajectoryKind::cartesian, 16, 0, 8, 1), UsageError);
  EXPECT_THROW(ScanPath(TrajectoryKind::radial, 16, 0, 0, 2), UsageError);
  EXPECT_THROW(ScanPath(TrajectoryKind::spiral, 1024, 1, 0, 1), UsageError);
  EXPECT_THROW(parse_trajectory("rosette"), UsageError);
}

// The truth by its definition, one voxel at a time: the mean over the k-grid of signal x share x exp(+2 pi i k.r).
cdouble direct(const Phantom& phantom, const CoilSet& coils, const ScanPath& scan, int coil, int mx, int my, double x,
               double y) {
  cdouble sum = 0;
  std::vector<cdouble> signal(coils.coils());
  for (int j = 0; j < my; ++j) {
    for (int i = 0; i < mx; ++i) {
      const Vec3 k = {static_cast<double>(i - mx / 2) / mx, static_cast<double>(j - my / 2) / my, 0};
      coils.kspace(phantom, k, signal);
      double share = 1;
      if (!scan.cartesian()) share = std::min(1.0, std::max(0.0, (0.5 - radius(k)) * mx + 0.5));
      sum += share * signal[coil] * std::polar(1.0, 2 * std::numbers::pi * (k[0] * x + k[1] * y));
    }
  }
  return sum / static_cast<double>(mx * my);
}

TEST(GroundTruth, IsTheDirectSumOverTheSampledKspace) {
  for (const bool cartesian : {true, false}) {
    for (const int n : {16, 15}) {
      const ScanPath scan(cartesian ? TrajectoryKind::cartesian : TrajectoryKind::radial, n, 0, 0, cartesian ? 2 : 1);
      const Phantom phantom = Phantom::shepp_logan(2, n);
      const CoilSet coils(3, 2, n);
      const GroundTruth truth(phantom, coils, scan);
      const auto combined = truth.root_sum_of_squares();
      ASSERT_EQ(truth.shape(), (std::vector<std::size_t>(2, n)));
      for (const auto& [x, y] : {std::pair{0, 0}, {n / 2, n / 2}, {3, n - 1}, {n - 2, 5}}) {
        double power = 0;
        for (int c = 0; c < 3; ++c) {
          const cdouble expected = direct(phantom, coils, scan, c, 2 * n, cartesian ? n : 2 * n, x - n / 2, y - n / 2);
          EXPECT_NEAR(std::abs(expected - cdouble(truth.coil_image(c)[y * n + x])), 0, 1e-6);
          power += std::norm(expected);
        }
        EXPECT_NEAR(combined[y * n + x], std::sqrt(power), 1e-6);
      }
    }
  }
}

TEST(GroundTruth, AStackIsItsOwnPartitionsAndTheDiscInThePlane) {
  constexpr int kMatrix = 12, kDepth = 5;
  const ScanPath scan(TrajectoryKind::stack_of_stars, {.matrix = kMatrix, .partitions = kDepth});
  const Phantom phantom = Phantom::shepp_logan(3, kMatrix, kDepth);
  const CoilSet coils(2, 3, kMatrix, kDepth);
  const GroundTruth truth(phantom, coils, scan);
  ASSERT_EQ(truth.shape(), (std::vector<std::size_t>{kDepth, kMatrix, kMatrix}));
  constexpr int kFine = 2 * kMatrix;
  std::vector<cdouble> signal(2);
  for (const auto& [x, y, z] : {std::tuple{6, 6, 2}, {3, 7, 0}, {8, 2, 4}}) {
    cdouble sum = 0;
    for (int p = 0; p < kDepth; ++p)
      for (int j = 0; j < kFine; ++j)
        for (int i = 0; i < kFine; ++i) {
          const Vec3 k = {static_cast<double>(i - kMatrix) / kFine, static_cast<double>(j - kMatrix) / kFine,
                          static_cast<double>(p - kDepth / 2) / kDepth};
          coils.kspace(phantom, k, signal);
          const double share = std::clamp((0.5 - std::hypot(k[0], k[1])) * kFine + 0.5, 0.0, 1.0);
          sum += share * signal[1] *
                 std::polar(1.0, 2 * std::numbers::pi * (k[0] * (x - 6) + k[1] * (y - 6) + k[2] * (z - kDepth / 2)));
        }
    sum /= kFine * kFine * kDepth;
    const std::size_t voxel = static_cast<std::size_t>((z * kMatrix + y) * kMatrix + x);
    EXPECT_NEAR(std::abs(sum - cdouble(truth.coil_image(1)[voxel])), 0, 1e-6);
  }
}

TEST(GroundTruth, BlobPeaksAtOneInEveryGeometry) {
  for (const auto kind : {TrajectoryKind::cartesian, TrajectoryKind::spiral, TrajectoryKind::kooshball}) {
    const int dims = kind == TrajectoryKind::kooshball ? 3 : 2;
    const ScanPath scan(kind, 24, 0, 0, 1);
    const GroundTruth truth(Phantom::blob(dims, 2), CoilSet(1, dims, 24), scan);
    const std::size_t center = dims == 3 ? (12 * 24 + 12) * 24 + 12 : 12 * 24 + 12;
    // The part of a two-pixel Gaussian beyond |k| = 0.5 is exp(-2 pi^2 4 / 4), below 1e-7.
    EXPECT_NEAR(truth.root_sum_of_squares()[center], 1, 1e-6);
  }
}

}  // namespace
}  // namespace echotrain::client
