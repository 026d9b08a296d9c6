// The distortion between two images of opposite blips, of an object and a field that are known in closed form.
#include "gadgets/numerics/mri/field/blip_pair.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::BlipPairFacts;

constexpr std::int64_t kRows = 64, kColumns = 48;

/// An ellipse with a soft border (a Gaussian edge of 1.2 voxels, so that samples hold all of it) and three blobs.
double object_at(double x, double y) {
  const double r = std::hypot(x / 0.75, y / 0.8) * 20;
  double value = 0.5 * std::erfc((r - 20) / (1.2 * std::numbers::sqrt2));
  for (const auto& [bx, by, width, size] :
       {std::array{0.3, 0.2, 0.15, 0.6}, {-0.3, 0.3, 0.12, -0.4}, {0.05, -0.35, 0.2, 0.5}})
    value *= 1 + size * std::exp(-((x - bx) * (x - bx) + (y - by) * (y - by)) / (2 * width * width));
  return value;
}

/// The same with stripes of 6 voxels along y, which fit themselves again when both images are moved by 3.
double striped_object_at(double x, double y) {
  return object_at(x, y) * (1 + 0.9 * std::cos(2 * std::numbers::pi * y * (kRows / 2.0) / 6 + 2 * x));
}

/// The shift [voxels] and its derivative along y [1].
struct Field {
  double largest;
  double shift(double x, double y) const {
    return largest * (0.5 * std::cos(2.2 * y + 0.7) * (1 - 0.4 * x) +
                      0.5 * std::exp(-((x - 0.2) * (x - 0.2) + (y - 0.4) * (y - 0.4)) / 0.09));
  }
  double slope(double x, double y) const {
    const double h = 1e-5;
    return (shift(x, y + h) - shift(x, y - h)) / (2 * h) / (kRows / 2.0);
  }
};

double unit(std::int64_t i, std::int64_t n) { return static_cast<double>(i - n / 2) / static_cast<double>(n / 2); }

struct Distorted {
  std::vector<float> up, down;
  std::vector<double> truth, object;
};

/// Distorts an object: the value at u comes from y with y + sign * s(y) = u: object(y) / (1 + sign * s'(y)).
Distorted distort(const Field& field, double noise, std::int64_t planes = 1,
                  double (*object)(double, double) = object_at) {
  Random random(7);
  Distorted out;
  const auto image = [&](double sign, double x, double u) {
    double y = u;  // in units of half the rows
    for (int k = 0; k < 50; ++k) y = u - sign * field.shift(x, y) / (kRows / 2.0);
    const double value = object(x, y) / (1 + sign * field.slope(x, y));
    return static_cast<float>(std::abs(value + noise * numerics::cdouble(random.normal())));
  };
  for (std::int64_t z = 0; z < planes; ++z)
    for (std::int64_t j = 0; j < kRows; ++j)
      for (std::int64_t i = 0; i < kColumns; ++i) {
        const double x = unit(i, kColumns), y = unit(j, kRows);
        out.truth.push_back(field.shift(x, y));
        out.object.push_back(object_at(x, y));
        out.up.push_back(image(1, x, y));
        out.down.push_back(image(-1, x, y));
      }
  return out;
}

struct Found {
  std::vector<float> shift;
  BlipPairFacts facts;
  double rms = 0, largest = 0;  // of the error, where the object is
};

Found find(const Distorted& pair, std::int64_t planes = 1, unsigned threads = 1) {
  Found out;
  numerics::ThreadPool pool(threads);
  out.shift.assign(pair.up.size(), 7);
  const numerics::Shape n{planes, kRows, kColumns};
  out.facts = numerics::blip_shift(pool, {pair.up.data(), n}, {pair.down.data(), n}, {}, {out.shift.data(), n});
  double count = 0;
  for (std::size_t v = 0; v < out.shift.size(); ++v) {
    if (pair.object[v] < 0.5) continue;
    const double error = out.shift[v] - pair.truth[v];
    out.rms += error * error;
    out.largest = std::max(out.largest, std::abs(error));
    ++count;
  }
  out.rms = std::sqrt(out.rms / count);
  return out;
}

TEST(BlipPair, AKnownFieldIsFound) {
  for (const double largest : {0.0, 1.0, 4.0, 8.0}) {
    const Found found = find(distort({largest}, 0));
    // The smoothness, 0.02 beside (up + down)^2 = 4, takes 0.5 % of the shift's slope along y, and makes it follow its
    // slope along x as much: 1 % of the shift. Cubic convolution of an edge of 1.2 voxels: below 0.01.
    RecordProperty("rms_of_" + std::to_string(static_cast<int>(largest)), std::to_string(found.rms));
    EXPECT_LT(found.rms, 0.01 + 0.012 * largest);
    EXPECT_LT(found.facts.after, 0.05 * found.facts.before + 1e-9) << largest;
  }
}

TEST(BlipPair, StripesAreNotTakenForTheirNeighbours) {
  // Coarse levels see the object without its stripes. A search of the finest level alone ends at stripes beside the
  // right ones: 1.1 voxels off for a shift of 4, 2.2 for 8.
  for (const double largest : {4.0, 8.0}) {
    const Found found = find(distort({largest}, 0, 1, striped_object_at));
    RecordProperty("rms_of_" + std::to_string(static_cast<int>(largest)), std::to_string(found.rms));
    EXPECT_LT(found.rms, 0.01 + 0.012 * largest);
  }
}

TEST(BlipPair, PlanesOfAVolumeAreFoundTogether) {
  const Found found = find(distort({4}, 0, 3), 3);
  EXPECT_LT(found.rms, 0.01 + 0.012 * 4);
}

TEST(BlipPair, NoiseMovesItLittle) {
  // Noise of 0.03 in both images leaves of a voxel's slope 0.03 sqrt(2) / 2 = 0.021; over the 40 voxels of a line
  // between its borders, which hold it, that adds up to 0.021 sqrt(40 / 6) = 0.055, less where lines beside agree.
  const Found found = find(distort({4}, 0.03));
  RecordProperty("rms", std::to_string(found.rms));
  EXPECT_LT(found.rms, std::hypot(0.01 + 0.012 * 4, 0.055));
}

TEST(BlipPair, ThreadsDoNotShow) {
  const Distorted pair = distort({4}, 0.02);
  EXPECT_EQ(find(pair, 1, 3).shift, find(pair).shift);
}

TEST(BlipPair, ASmallObjectInADarkImageIsFound) {
  // 42 of the 6144 values are not 0: the 99th percentile of all is.
  numerics::ThreadPool pool(1);
  const numerics::Shape n{1, kRows, kColumns};
  constexpr std::int64_t kAt = 32, kBy = 2, kReach = 3, kWide = 3;
  std::vector<float> up(static_cast<std::size_t>(n.size())), down = up, shift = up;
  for (std::int64_t x = 20; x < 20 + kWide; ++x)
    for (std::int64_t j = -kReach; j <= kReach; ++j) {
      const float value = std::exp(-0.5F * static_cast<float>(j * j) / 2);
      up[static_cast<std::size_t>((kAt + kBy + j) * kColumns + x)] = value;
      down[static_cast<std::size_t>((kAt - kBy + j) * kColumns + x)] = value;
    }
  const BlipPairFacts facts = numerics::blip_shift(pool, {up.data(), n}, {down.data(), n}, {}, {shift.data(), n});
  EXPECT_GT(facts.before, 1);
  EXPECT_LT(facts.after, 0.1 * facts.before);
  EXPECT_NEAR(shift[static_cast<std::size_t>(kAt * kColumns + 21)], kBy, 0.1);
}

TEST(BlipPair, WhatDoesNotFitIsRefusedAndNothingIsZero) {
  numerics::ThreadPool pool(1);
  const std::vector<float> ones(24, 1), dark(24, 0);
  std::vector<float> shift(24, 7), wrong(24, std::nanf(""));
  const numerics::Shape n{1, 6, 4}, m{1, 4, 6};
  const auto run = [&](const std::vector<float>& a, const numerics::Shape& of_a, const std::vector<float>& b) {
    return numerics::blip_shift(pool, {a.data(), of_a}, {b.data(), n}, {}, {shift.data(), n});
  };
  EXPECT_THROW(run(ones, m, ones), std::invalid_argument);
  EXPECT_THROW(run(ones, n, wrong), std::invalid_argument);
  const BlipPairFacts facts = run(dark, n, dark);
  EXPECT_EQ(facts.before, 0);
  EXPECT_EQ(shift, dark);
}

}  // namespace
}  // namespace echotrain::testing
