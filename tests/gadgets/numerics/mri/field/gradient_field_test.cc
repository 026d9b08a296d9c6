// The field of nonlinear gradients against Legendre functions in float64, and images that it distorted.
#include "gadgets/numerics/mri/field/gradient_field.h"

#include <array>
#include <cmath>
#include <vector>

#include "gadgets/numerics/mri/field/unwarp.h"
#include "gadgets/numerics/mri/field/warp.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/gradient_phantom.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;
using numerics::GradientField;
using numerics::GradientHarmonics;
using numerics::PlaneTaps;

/// Random harmonics of all degrees and orders.
GradientHarmonics random_harmonics(int degree, double radius_mm, unsigned seed) {
  Random random(seed);
  GradientHarmonics out{radius_mm, degree, {}};
  for (auto& terms : out.of_coil)
    for (std::size_t i = 0; i <= GradientHarmonics::place(degree, degree); ++i)
      terms.push_back({random.uniform(-0.01, 0.01), random.uniform(-0.01, 0.01)});
  return out;
}

/// The sum as gradient_field.h writes it, by the standard library's Legendre functions.
std::array<double, 3> displacement(const GradientHarmonics& of, const std::array<double, 3>& mm) {
  const double r = std::hypot(mm[0], mm[1], mm[2]), phi = std::atan2(mm[1], mm[0]), cosine = r > 0 ? mm[2] / r : 1;
  std::array<double, 3> out{};
  for (std::size_t coil = 0; coil < 3; ++coil)
    for (int n = 0; n <= of.degree; ++n)
      for (int m = 0; m <= n; ++m) {
        const auto& term = of.of_coil[coil][GradientHarmonics::place(n, m)];
        const double schmidt =
            std::sqrt((m > 0 ? 2 : 1) * std::exp(std::lgamma(n - m + 1.0) - std::lgamma(n + m + 1.0)));
        out[coil] += of.radius_mm * std::pow(r / of.radius_mm, n) * schmidt *
                     std::assoc_legendre(static_cast<unsigned>(n), static_cast<unsigned>(m), cosine) *
                     (term.cosine * std::cos(m * phi) + term.sine * std::sin(m * phi));
      }
  return out;
}

TEST(GradientFieldTest, IsTheSumOfHarmonics) {
  for (const int degree : {0, 1, 3, 9, GradientHarmonics::kMostDegree}) {
    const GradientHarmonics harmonics = random_harmonics(degree, 250, static_cast<unsigned>(degree));
    const GradientField field(harmonics);
    Random random(7);
    for (int i = 0; i < 50; ++i) {
      std::array<double, 3> mm{random.uniform(-280, 280), random.uniform(-280, 280), random.uniform(-280, 280)};
      if (i == 0) mm = {0, 0, 0};
      if (i == 1) mm = {0, 0, -120};  // on the axis, where angles are not defined
      const auto values = field.at(mm);
      const auto expected = displacement(harmonics, mm);
      // Rounding of float64, over sums that reach 300 mm and more.
      for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(values[c], expected[c], 1e-9 * (1 + std::abs(expected[c])));
      for (std::size_t a = 0; a < 3; ++a) {
        constexpr double kStep = 1e-3;  // mm; its square, over that of the radius, is what the difference is off
        auto low = mm, high = mm;
        low[a] -= kStep, high[a] += kStep;
        const auto below = displacement(harmonics, low), above = displacement(harmonics, high);
        for (std::size_t c = 0; c < 3 && i != 1; ++c)
          EXPECT_NEAR(values[3 + 3 * c + a], (above[c] - below[c]) / (2 * kStep),
                      1e-6 * (1 + std::abs(values[3 + 3 * c + a])))
              << degree << " " << c << a;
      }
    }
  }
}

TEST(GradientFieldTest, WhatIsNoFieldIsRefused) {
  EXPECT_THROW(GradientField(random_harmonics(3, 0, 1)), std::invalid_argument);
  EXPECT_THROW(GradientField(random_harmonics(GradientHarmonics::kMostDegree + 1, 250, 1)), std::invalid_argument);
  auto odd = random_harmonics(3, 250, 1);
  odd.of_coil[1].pop_back();
  EXPECT_THROW(GradientField{odd}, std::invalid_argument);
  odd = random_harmonics(3, 250, 1);
  odd.of_coil[2][4].sine = std::nan("");
  EXPECT_THROW(GradientField{odd}, std::invalid_argument);
}

template <class B>
class GradientWarpTest : public OnBackend<B> {
 protected:
  numerics::Array<float> map(const GradientPhantom& phantom, bool with_shift, bool modulate = true) {
    auto out = this->context().template allocate<float>({4, phantom.nz, phantom.ny, phantom.nx});
    const auto shift = this->upload(phantom.shift, {phantom.nz, phantom.ny, phantom.nx});
    const numerics::LineShift by{with_shift ? shift.cview() : numerics::DeviceView<const float>(), modulate};
    numerics::gradient_map(this->context(), phantom.field, phantom.places, modulate, by, out.view());
    return out;
  }
  std::vector<cfloat> unwarped(const GradientPhantom& phantom, const std::vector<cfloat>& image, bool with_shift,
                               bool modulate = true) {
    const numerics::Shape shape{1, phantom.nz, phantom.ny, phantom.nx};
    auto out = this->context().template allocate<cfloat>(shape);
    const auto voxels = map(phantom, with_shift, modulate);
    numerics::warp(this->context(), this->upload(image, shape).cview(), voxels.cview(), PlaneTaps::sinc, out.view());
    return this->download(out);
  }
};
TYPED_TEST_SUITE(GradientWarpTest, Backends, BackendNames);

TYPED_TEST(GradientWarpTest, MapsAreTheFieldInVoxels) {
  const GradientPhantom phantom(33, 41, 29, 0);
  const auto values = this->download(this->map(phantom, false));
  double worst = 0, most = 0, factor = 0;
  for (std::size_t v = 0; v < phantom.object.size(); ++v) {
    const auto truth = phantom.displacement_at(v);  // float64, voxels
    for (std::size_t a = 0; a < 3; ++a) {
      worst = std::max(worst, std::abs(static_cast<double>(values[a * phantom.object.size() + v]) - truth.voxels[a]));
      most = std::max(most, std::abs(truth.voxels[a]));
    }
    factor = std::max(factor, std::abs(static_cast<double>(values[3 * phantom.object.size() + v]) - truth.factor));
  }
  EXPECT_GT(most, 3);
  // Sums of 55 terms in float32 of numbers around 1.
  EXPECT_LT(worst, 1e-5 * most);
  EXPECT_LT(factor, 1e-5);
}

TYPED_TEST(GradientWarpTest, TheObjectComesBack) {
  const GradientPhantom phantom(48, 40, 36, 0);
  // Eight taps along each of three axes interpolate blobs of this size to 1e-3 and better.
  EXPECT_LT(relative_error(this->unwarped(phantom, phantom.distorted, false), phantom.object, phantom.object.size()),
            1.5e-3);
  EXPECT_GT(relative_error(phantom.distorted, phantom.object, phantom.object.size()), 0.1);
  // Places alone leave the brightness wrong.
  EXPECT_GT(
      relative_error(this->unwarped(phantom, phantom.distorted, false, false), phantom.object, phantom.object.size()),
      0.03);
}

// Echo-planar images: the field's shift moves signals that the gradients displaced. One map undoes both.
TYPED_TEST(GradientWarpTest, AShiftAlongLinesIsUndoneInTheSameStep) {
  const GradientPhantom phantom(48, 40, 36, 2.5);
  const auto once = this->unwarped(phantom, phantom.distorted, true);
  EXPECT_LT(relative_error(once, phantom.object, phantom.object.size()), 1.5e-3);
  // What is next best: two steps, with two interpolations.
  const numerics::Shape shape{1, phantom.nz, phantom.ny, phantom.nx};
  auto straight = this->context().template allocate<cfloat>(shape);
  numerics::unwarp(this->context(), this->upload(phantom.distorted, shape).cview(),
                   this->upload(phantom.shift, {phantom.nz, phantom.ny, phantom.nx}).cview(), true, straight.view());
  const auto twice = this->unwarped(phantom, this->download(straight), false);
  EXPECT_LT(relative_error(twice, phantom.object, phantom.object.size()), 2e-2);
  EXPECT_LT(relative_error(once, phantom.object, phantom.object.size()),
            relative_error(twice, phantom.object, phantom.object.size()));
  // The shift alone, or the gradients alone, are not enough.
  EXPECT_GT(relative_error(this->download(straight), phantom.object, phantom.object.size()), 0.1);
  EXPECT_GT(relative_error(this->unwarped(phantom, phantom.distorted, false), phantom.object, phantom.object.size()),
            0.1);
}

// A slice is moved within its plane; the factor is that of the volume.
TYPED_TEST(GradientWarpTest, SlicesAreMovedWithinTheirPlane) {
  const GradientPhantom phantom(40, 36, 1, 0);
  const auto values = this->download(this->map(phantom, false));
  double across = 0, factor = 0;
  for (std::size_t v = 0; v < phantom.object.size(); ++v) {
    EXPECT_EQ(values[2 * phantom.object.size() + v], 0);
    const auto truth = phantom.displacement_at(v);
    across = std::max(across, std::abs(truth.voxels[2]));
    factor = std::max(factor, std::abs(static_cast<double>(values[3 * phantom.object.size() + v]) - truth.factor));
  }
  EXPECT_GT(across, 0.3);
  EXPECT_LT(factor, 1e-5);
  EXPECT_LT(relative_error(this->unwarped(phantom, phantom.distorted, false), phantom.object, phantom.object.size()),
            1.5e-3);
}

// Whole voxels move without a change, along all axes, and what comes from beyond the border is 0.
TYPED_TEST(GradientWarpTest, WholeVoxelsMove) {
  constexpr int kBatch = 2, kZ = 9, kY = 12, kX = 21;
  Random random(1);
  const auto image = random.normals(kBatch * kZ * kY * kX);
  for (const auto& planes : {PlaneTaps::sinc, PlaneTaps::linear})
    for (const std::array<int, 3>& by : {std::array{0, 0, 0}, std::array{2, -3, 1}, std::array{-13, 2, -4}}) {
      std::vector<float> map;
      for (const double value : {by[0] + 0.0, by[1] + 0.0, by[2] + 0.0, 0.5})
        map.insert(map.end(), kZ * kY * kX, static_cast<float>(value));
      auto out = this->context().template allocate<cfloat>({kBatch, kZ, kY, kX});
      numerics::warp(this->context(), this->upload(image, {kBatch, kZ, kY, kX}).cview(),
                     this->upload(map, {4, kZ, kY, kX}).cview(), planes, out.view());
      const auto values = this->download(out);
      for (int i = 0; i < static_cast<int>(image.size()); ++i) {
        const int x = i % kX + by[0], y = i / kX % kY + by[1], z = i / kX / kY % kZ + by[2];
        const bool inside = x >= 0 && x < kX && y >= 0 && y < kY && z >= 0 && z < kZ;
        const cfloat expected =
            inside ? 0.5f * image[static_cast<std::size_t>(i + by[0] + kX * (by[1] + kY * by[2]))] : cfloat(0);
        ASSERT_LT(std::abs(values[static_cast<std::size_t>(i)] - expected), 1e-6f) << i;
      }
    }
}

// Between slices, neighbours count by their distance.
TYPED_TEST(GradientWarpTest, BetweenSlicesValuesAreLinear) {
  std::vector<cfloat> image;
  for (int z = 0; z < 6; ++z) image.insert(image.end(), 8 * 8, cfloat(static_cast<float>(z * z), 1));
  std::vector<float> map(3 * 6 * 8 * 8, 0);
  std::fill(map.begin() + 2 * 6 * 8 * 8, map.end(), 0.25f);
  map.insert(map.end(), 6 * 8 * 8, 1.0f);
  auto out = this->context().template allocate<cfloat>({1, 6, 8, 8});
  numerics::warp(this->context(), this->upload(image, {1, 6, 8, 8}).cview(), this->upload(map, {4, 6, 8, 8}).cview(),
                 PlaneTaps::linear, out.view());
  const auto values = this->download(out);
  for (int z = 0; z < 5; ++z) {
    const cfloat middle = values[static_cast<std::size_t>(z * 64 + 4 * 8 + 4)];
    EXPECT_NEAR(middle.real(), 0.75 * z * z + 0.25 * (z + 1) * (z + 1), 1e-5);
    EXPECT_NEAR(middle.imag(), 1, 1e-5);
  }
}

// Beyond the radius a field of high degree turns over, and signals lie on each other.
TYPED_TEST(GradientWarpTest, FoldedVoxelsAreZeroAndWrongShapesAreRefused) {
  GradientHarmonics harmonics{100, 3, {}};
  for (auto& terms : harmonics.of_coil) terms.resize(GradientHarmonics::place(3, 3) + 1);
  harmonics.of_coil[2][GradientHarmonics::place(3, 0)].cosine = -0.5;  // dz/dz = -1.5 z^2 on the axis
  const GradientField field(harmonics);
  numerics::VoxelPlaces places;
  places.step = {{{0, 10, 0}, {10, 0, 0}, {0, 0, 10}}};
  auto map = this->context().template allocate<float>({4, 16, 1, 1});
  numerics::gradient_map(this->context(), field, places, true, {}, map.view());
  const auto values = this->download(map);
  for (int z = 0; z < 16; ++z) {
    const double stretch = 1 - 1.5 * z * z / 100, across = 1 + 0.0 * z;
    EXPECT_NEAR(values[static_cast<std::size_t>(48 + z)], std::max(0.0, stretch * across), 1e-5) << z;
  }
  auto image = this->context().template allocate<cfloat>({1, 16, 1, 1}),
       out = this->context().template allocate<cfloat>({1, 16, 1, 2});
  EXPECT_THROW(numerics::warp(this->context(), image.cview(), map.cview(), PlaneTaps::sinc, out.view()),
               std::invalid_argument);
  auto flat = this->context().template allocate<float>({3, 16, 1, 1});
  EXPECT_THROW(numerics::gradient_map(this->context(), field, places, true, {}, flat.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
