// Voronoi density weights against areas in closed form, against counted pixels, and by the images they give.
#include "gadgets/numerics/mri/density/density_voronoi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <numbers>
#include <numeric>
#include <random>
#include <thread>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/density/delaunay.h"
#include "gadgets/numerics/mri/density/density.h"
#include "tests/gadgets/heap.h"

namespace echotrain::numerics {
namespace {

constexpr double kGolden = std::numbers::pi * 0.6180339887498949;

ThreadPool pool(2);
using Points = std::vector<double>;  // x, y of each

std::vector<float> weights_of(const Points& k, double k_max = 1) {
  auto w = voronoi_density(pool, {k.data(), {static_cast<std::int64_t>(k.size() / 2), 2}}, k_max);
  EXPECT_EQ(w.size(), k.size() / 2);
  for (float v : w) EXPECT_TRUE(std::isfinite(v) && v >= 0) << v;
  return w;
}

double sum_of_weights(const std::vector<float>& w) { return std::accumulate(w.begin(), w.end(), 0.0); }

/// Sample s of spoke r at radius(s) and angle(r).
Points spokes(int readouts, int samples, const std::function<double(int)>& angle,
              const std::function<double(int)>& radius) {
  Points k;
  for (int r = 0; r < readouts; ++r)
    for (int s = 0; s < samples; ++s) {
      k.push_back(radius(s) * std::cos(angle(r)));
      k.push_back(radius(s) * std::sin(angle(r)));
    }
  return k;
}

Points lattice(int nx, int ny, double hx, double hy, double x, double y) {
  Points k;
  for (int j = 0; j < ny; ++j)
    for (int i = 0; i < nx; ++i) {
      k.push_back(x + hx * i);
      k.push_back(y + hy * j);
    }
  return k;
}

// Inside and at the rims: one cell of the lattice each.
TEST(VoronoiDensity, Lattices) {
  for (const auto& k : {lattice(32, 32, 1 / 32.0, 1 / 32.0, -0.5, -0.5), lattice(7, 9, 0.1, 0.1, -0.3, -0.4)})
    for (float w : weights_of(k)) {
      const double h = k[2] - k[0];
      EXPECT_NEAR(w, h * h, 1e-6 * h * h);
    }
  // Oblong cells and a long lattice, far from the centre of k-space.
  for (float w : weights_of(lattice(5, 60, 0.02, 0.006, 0.1, 0.05))) EXPECT_NEAR(w, 0.02 * 0.006, 1e-6 * 0.02 * 0.006);
  for (float w : weights_of(lattice(2, 2, 0.1, 0.1, 0.2, 0.3))) EXPECT_NEAR(w, 0.01, 1e-8);
  for (float w : weights_of(lattice(2, 40, 0.01, 0.01, -0.2, -0.2))) EXPECT_NEAR(w, 1e-4, 1e-9);
}

// Each column of a hexagonal lattice is half a step off its neighbours.
TEST(VoronoiDensity, HexagonalLattice) {
  const double h = 0.02, row = h * std::sqrt(3.0) / 2;
  Points k;
  for (int j = -15; j <= 15; ++j)
    for (int i = -15; i <= 15; ++i) {
      k.push_back(h * (i + (j % 2 == 0 ? 0.0 : 0.5)));
      k.push_back(row * j);
    }
  const auto w = weights_of(k);
  for (int j = 1; j < 30; ++j)
    for (int i = 1; i < 30; ++i) {
      const float v = w[static_cast<std::size_t>(j * 31 + i)];
      EXPECT_NEAR(v, h * row, 1e-6 * h * row);
    }
}

// On spokes at even angles cells are trapezoids between lines across the spoke, halfway to the neighbours.
TEST(VoronoiDensity, RadialTrapezoids) {
  constexpr int kSpokes = 50, kSamples = 65, kMiddle = 32;
  const double h = 1.0 / 64, slope = std::tan(std::numbers::pi / (2 * kSpokes));
  const auto k = spokes(
      kSpokes, kSamples, [](int r) { return std::numbers::pi * r / kSpokes; },
      [&](int s) { return h * (s - kMiddle); });
  const auto w = weights_of(k);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const int ring = std::abs(static_cast<int>(i % kSamples) - kMiddle);
    const double r = h * ring;
    double area = 2 * r * h * slope;
    if (ring == 0) area = 2 * h * h / 4 * slope;                  // the polygon around the centre, shared by the spokes
    if (ring == kMiddle) area = 2 * (r * h - h * h / 4) * slope;  // twice the inner half
    EXPECT_NEAR(w[i], area, 2e-6 * area) << i;
  }
  // The polygon about the disc of radius 0.5 + h / 2, less what the rim's cells lack.
  EXPECT_NEAR(sum_of_weights(w), std::numbers::pi * std::pow(0.5 + h / 2, 2), 1e-3);
}

// No sample at the centre: all of the innermost circle meet there in one point.
TEST(VoronoiDensity, SamplesAtHalfIntegers) {
  constexpr int kSpokes = 300, kSamples = 32;
  const double h = 1.0 / kSamples;
  const auto k = spokes(
      kSpokes, kSamples, [](int r) { return std::numbers::pi * r / kSpokes; },
      [&](int s) { return h * (s - kSamples / 2 + 0.5); });
  const auto w = weights_of(k);
  const double slope = std::tan(std::numbers::pi / (2 * kSpokes));
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double r = std::hypot(k[2 * i], k[2 * i + 1]);
    if (r < h) {
      EXPECT_NEAR(w[i], h * h * slope, 1e-5 * h * h * slope);
    }
  }
  EXPECT_NEAR(sum_of_weights(w), std::numbers::pi / 4 - std::numbers::pi * h * h / 2,
              1e-4);  // what twice the inner half lacks at the rim
}

// Diameters with an even number of samples: one end at 0.5, the other a step inside.
TEST(VoronoiDensity, DiameterSpokesSumToTheDisc) {
  for (const int n : {64, 128}) {
    const auto k = spokes(
        100, n, [](int r) { return std::numbers::pi * r / 100; },
        [&](int s) { return (s - n / 2) / static_cast<double>(n); });
    EXPECT_NEAR(sum_of_weights(weights_of(k)), std::numbers::pi / 4, std::numbers::pi / 4 * 2.5 / (n * n) + 2e-4) << n;
  }
}

// Cells of spokes at any angles lie between the lines halfway to the next angles, as ramp's shares of the turn do.
TEST(VoronoiDensity, GoldenAngleAgreesWithRamp) {
  constexpr int kSpokes = 89, kSamples = 65;
  const auto k = spokes(
      kSpokes, kSamples, [](int r) { return kGolden * r; }, [](int s) { return (s - 32) / 64.0; });
  const auto w = weights_of(k), ramp = ramp_density({k.data(), {kSpokes, kSamples, 2}}, 0.6);
  EXPECT_NEAR(sum_of_weights(w), sum_of_weights(ramp), 2e-3 * sum_of_weights(ramp));
  for (std::size_t i = 0; i < w.size(); ++i) {
    const int ring = std::abs(static_cast<int>(i % kSamples) - 32);
    // An angle of 2 pi / 178 exceeds its tangent's by 1e-4, the largest gap by 4e-4; the rim is extrapolated.
    EXPECT_NEAR(w[i] / ramp[i], 1, ring < 32 ? 1e-3 : 1e-2) << i;
  }
  // Ends that differ by a step, so that some samples near the rim are not at it: the disc reaches half a step beyond
  // either of them.
  const auto even = spokes(
      610, 64, [](int r) { return kGolden * r; }, [](int s) { return (s - 32) / 64.0; });
  const double whole = sum_of_weights(weights_of(even));
  EXPECT_GT(whole, std::numbers::pi * std::pow(0.5 - 0.5 / 64, 2));
  EXPECT_LT(whole, std::numbers::pi * std::pow(0.5 + 0.5 / 64, 2) * 1.001);
}

/// The Gaussian exp(-|r - c|^2 / (2 sigma^2)) is the transform of 2 pi sigma^2 exp(-2 pi^2 sigma^2 k^2 - 2 pi i k.c).
double gaussian_error(const Points& k, const std::vector<float>& w) {
  const double sigma = 3, cx = 4, cy = -2.5;
  double worst = 0;
  for (int y = -12; y <= 12; y += 3)
    for (int x = -12; x <= 12; x += 3) {
      std::complex<double> value = 0;
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double kx = k[2 * i], ky = k[2 * i + 1];
        const double size = 2 * std::numbers::pi * sigma * sigma *
                            std::exp(-2 * std::pow(std::numbers::pi * sigma, 2) * (kx * kx + ky * ky));
        value += static_cast<double>(w[i]) * std::polar(size, 2 * std::numbers::pi * (kx * (x - cx) + ky * (y - cy)));
      }
      const double truth = std::exp(-(std::pow(x - cx, 2) + std::pow(y - cy, 2)) / (2 * sigma * sigma));
      worst = std::max(worst, std::abs(value - truth));
    }
  return worst;
}

Points spiral(int arms, int samples, double turns) {
  Points k;
  for (int r = 0; r < arms; ++r)
    for (int s = 0; s < samples; ++s) {
      const double p = static_cast<double>(s) / (samples - 1),
                   angle = 2 * std::numbers::pi * (turns * p + 1.0 * r / arms);
      k.push_back(0.49 * p * std::cos(angle));
      k.push_back(0.49 * p * std::sin(angle));
    }
  return k;
}

// Sums over cells are midpoint rules: their error is about (2 pi r h)^2 / 24 for cells of size h at |r - c| = r, here
// some 1e-3 of the value.
TEST(VoronoiDensity, ReconstructsAGaussian) {
  const auto radial = spokes(
      233, 129, [](int r) { return kGolden * r; }, [](int s) { return (s - 64) / 128.0; });
  EXPECT_LT(gaussian_error(radial, weights_of(radial)), 3e-3);
  const auto turns = spiral(16, 1501, 8);
  EXPECT_LT(gaussian_error(turns, weights_of(turns)), 3e-3);
  // Weights that ignore the density are far off.
  EXPECT_GT(gaussian_error(turns, std::vector<float>(turns.size() / 2, 1e-5f)), 0.1);
}

TEST(VoronoiDensity, SpiralSumsToItsDisc) {
  EXPECT_NEAR(sum_of_weights(weights_of(spiral(16, 2001, 8))), std::numbers::pi * 0.49 * 0.49,
              0.01 * std::numbers::pi * 0.49 * 0.49);
}

// A sector of spokes from the centre outwards: no part of k-space outside it is given away.
TEST(VoronoiDensity, SectorOfSpokes) {
  const auto k = spokes(
      101, 65, [](int r) { return std::numbers::pi * r / 200; }, [](int s) { return s / 128.0; });
  EXPECT_NEAR(sum_of_weights(weights_of(k)), std::numbers::pi / 4 * 0.25, 0.03 * std::numbers::pi / 16);
}

// Each pixel of a fine raster belongs to the nearest point.
TEST(VoronoiDensity, RandomPointsAgainstCountedPixels) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<double> uniform(-0.5, 0.5);
  Points k(2 * 150);
  for (double& v : k) v = uniform(engine);
  const auto w = weights_of(k);
  constexpr int kPixels = 1000;
  std::vector<double> area(150, 0.0);
  std::vector<char> inside(150, 1);
  for (int y = 0; y < kPixels; ++y)
    for (int x = 0; x < kPixels; ++x) {
      const double px = (x + 0.5) / kPixels - 0.5, py = (y + 0.5) / kPixels - 0.5;
      std::size_t nearest = 0;
      double least = 10;
      for (std::size_t i = 0; i < 150; ++i) {
        const double d = std::pow(k[2 * i] - px, 2) + std::pow(k[2 * i + 1] - py, 2);
        if (d < least) least = d, nearest = i;
      }
      area[nearest] += 1.0 / kPixels / kPixels;
      if (std::max(std::abs(px), std::abs(py)) > 0.42) inside[nearest] = 0;
    }
  int compared = 0;
  for (std::size_t i = 0; i < 150; ++i)
    if (inside[i]) {
      ++compared;
      // About 4 sqrt(area) kPixels pixels lie on the rim, each wrong by up to a half, at random.
      EXPECT_NEAR(w[i], area[i], 4 * std::sqrt(4 * std::sqrt(area[i]) * kPixels) / 2 / kPixels / kPixels) << i;
    }
  EXPECT_GT(compared, 60);
}

TEST(VoronoiDensity, DuplicatesShareTheirCell) {
  Points k = lattice(9, 9, 0.05, 0.05, -0.2, -0.2);
  for (int copy = 0; copy < 4; ++copy)  // copies of the centre's point, up to rounding
    for (double shift : {1e-9 * copy, -2e-8 * copy}) k.push_back(shift);
  k.push_back(-0.2);
  k.push_back(-0.2);
  const auto w = weights_of(k);
  for (std::size_t i = 0; i < 81; ++i) {
    const double share = i == 40 ? 5 : i == 0 ? 2 : 1;
    EXPECT_NEAR(w[i], 0.0025 / share, 1e-5 * 0.0025) << i;
  }
  for (std::size_t i = 81; i < 85; ++i) EXPECT_NEAR(w[i], 0.0005, 1e-5 * 0.0025);
  EXPECT_NEAR(w[85], 0.00125, 1e-5 * 0.0025);
  EXPECT_NEAR(sum_of_weights(w), 81 * 0.0025, 1e-6);
}

// Coordinates that went through float32, where every sample was measured twice.
TEST(VoronoiDensity, RoundedCoordinates) {
  const auto exact = spokes(
      100, 65, [](int r) { return std::numbers::pi * r / 100; }, [](int s) { return (s - 32) / 64.0; });
  Points twice;
  for (double v : exact) twice.push_back(static_cast<double>(static_cast<float>(v)));
  for (double v : exact) twice.push_back(v);
  const auto once = weights_of(exact), w = weights_of(twice);
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_NEAR(w[i], once[i] / 2, 1e-3 * static_cast<double>(once[i]));
    EXPECT_NEAR(w[i + once.size()], once[i] / 2, 1e-3 * static_cast<double>(once[i]));
  }
}

TEST(VoronoiDensity, SamplesOutsideTakeNoPart) {
  const Points inner = lattice(9, 9, 0.05, 0.05, -0.2, -0.2);
  const auto alone = weights_of(inner);
  Points k = inner;
  for (double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e300, 0.31})
    k.insert(k.end(), {bad, 0.0, -0.1, -bad});
  const auto w = weights_of(k, 0.3);
  for (std::size_t i = 0; i < w.size(); ++i) EXPECT_EQ(w[i], i < 81 ? alone[i] : 0.0f) << i;
}

TEST(VoronoiDensity, UnitDoesNotMatter) {
  const auto cells = [](double unit) {
    return weights_of(lattice(6, 6, unit, unit, -2.5 * unit, -2.5 * unit), std::numeric_limits<double>::infinity());
  };
  for (const double unit : {1e-9, 1e6})
    for (float w : cells(unit)) EXPECT_NEAR(w / unit / unit, 1, 1e-5);
  for (float w : cells(1e-100)) EXPECT_EQ(w, 0.0f);  // too small for a float
}

std::string refusal(const Points& k, double k_max = 1) {
  try {
    voronoi_density(pool, {k.data(), {static_cast<std::int64_t>(k.size() / 2), 2}}, k_max);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(VoronoiDensity, DegenerateInputIsRefused) {
  const auto contains = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(contains(refusal({}), "at least 4 distinct points, but the trajectory has 0"));
  EXPECT_TRUE(contains(refusal(Points(100, 0.0)), "has 1"));
  EXPECT_TRUE(contains(refusal(Points(100, 0.25)), "has 1"));
  EXPECT_TRUE(contains(refusal({0, 0, 0.1, 0, 0, 0.1, 0, 0, 0.1, 0}), "has 3"));
  EXPECT_TRUE(contains(refusal(lattice(3, 3, 0.1, 0.1, 0, 0), 0.01), "has 1 within |k| <= 0.01"));
  EXPECT_TRUE(contains(refusal(lattice(3, 3, 0.1, 0.1, 0, 0), -1), "has 0"));
  const auto line = spokes(
      4, 65, [](int r) { return 0.7 + std::numbers::pi * r; }, [](int s) { return (s - 32) / 64.0; });
  EXPECT_TRUE(contains(refusal(line), "on one line"));
  EXPECT_TRUE(contains(refusal(lattice(20, 1, 0.02, 0, -0.2, 0.3)), "on one line"));
  const Points k(12);
  EXPECT_THROW(voronoi_density(pool, {k.data(), {4, 3}}, 1), std::invalid_argument);
  EXPECT_THROW(voronoi_density(pool, {k.data(), {2, 3, 2}}, 1), std::invalid_argument);
}

// Points that trouble convex hull programs: circles, lines, clusters, needles. All cells are found without a message.
TEST(VoronoiDensity, DifficultPoints) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const auto circle = spokes(
      2000, 1, [](int r) { return std::numbers::pi * r / 1000; }, [](int) { return 0.4; });
  const auto w = weights_of(circle);  // equal triangles, and as much outside
  for (float v : w) EXPECT_NEAR(v, w[0], 1e-4 * static_cast<double>(w[0]));
  const auto cross = spokes(
      2, 101, [](int r) { return std::numbers::pi / 2 * r; }, [](int s) { return (s - 50) / 100.0; });
  EXPECT_GT(sum_of_weights(weights_of(cross)), 0.5);  // the square that the cross spans, and more
  for (float v : weights_of(lattice(200, 2, 1e-3, 1e-4, -0.1, 0))) EXPECT_NEAR(v, 1e-7, 1e-10);
  std::mt19937 engine(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const double spread : {1e-4, 1e-5, 1e-6}) {  // clusters around the points of a lattice
    Points k;
    for (int i = 0; i < 3000; ++i) {
      k.push_back(0.1 * (i % 7 - 3) + spread * uniform(engine));
      k.push_back(0.1 * (i / 7 % 7 - 3) + spread * uniform(engine));
    }
    const double whole = sum_of_weights(weights_of(k));
    EXPECT_GT(whole, 0.36) << spread;  // their hull
    EXPECT_LT(whole, 0.49) << spread;  // and half a step
  }
  const std::vector<PlanePoint> bad(6, {std::numeric_limits<double>::quiet_NaN(), 0.5});
  EXPECT_THROW(delaunay(bad), std::invalid_argument);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

std::vector<PlanePoint> random_points(std::size_t count) {
  std::mt19937 engine(4);
  std::uniform_real_distribution<double> uniform(-0.7, 0.7);
  std::vector<PlanePoint> points(count);
  for (PlanePoint& p : points) p = {uniform(engine), uniform(engine)};
  return points;
}

/// Qhull allocates with malloc: a client that chooses the points chooses how much.
TEST(VoronoiDensity, PaysForWhatQhullTakes) {
  if (!HeapAccount::counts()) GTEST_SKIP() << "a sanitizer's allocator does not tell";
  const std::vector<PlanePoint> points = random_points(100'000);
  HeapAccount heap(std::make_shared<MemoryAccount>(std::make_shared<MemoryBudget>(std::uint64_t{1} << 30)));
  const std::uint64_t before = ::echotrain::testing::heap_bytes();
  std::atomic<std::uint64_t> taken = 0, paid = 0;
  std::jthread watch([&](const std::stop_token& over) {
    while (!over.stop_requested()) {
      taken = std::max<std::uint64_t>(taken, std::max(::echotrain::testing::heap_bytes(), before) - before);
      paid = std::max<std::uint64_t>(paid, heap.bytes());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  {
    const HeapScope scope(&heap);
    EXPECT_GE(delaunay(points).size(), points.size());
  }
  watch.request_stop();
  watch.join();
  EXPECT_GT(taken, 300 * points.size()) << "it was seen at work";
  EXPECT_GE(paid, taken);
  EXPECT_EQ(heap.bytes(), 0);
}

TEST(VoronoiDensity, PointsForWhichTheBudgetHasNoMemoryAreRefused) {
  if (!HeapAccount::counts()) GTEST_SKIP() << "a sanitizer's allocator does not tell";
  const std::vector<PlanePoint> points = random_points(100'000);
  HeapAccount heap(std::make_shared<MemoryAccount>(std::make_shared<MemoryBudget>(std::uint64_t{16} << 20)));
  const HeapScope scope(&heap);
  EXPECT_THROW(delaunay(points), std::bad_alloc);
  EXPECT_TRUE(heap.refused());
}

TEST(VoronoiDensity, SameBitsInEveryRun) {
  const auto k = spokes(
      89, 64, [](int r) { return kGolden * r; }, [](int s) { return (s - 32) / 64.0; });
  EXPECT_EQ(weights_of(k), weights_of(k));
}

}  // namespace
}  // namespace echotrain::numerics
