// Fields composed, their Jacobian and images moved, against closed forms.
#include "gadgets/numerics/mri/registration/displacement.h"

#include <cmath>
#include <stdexcept>

#include "tests/support/backends.h"
#include "tests/support/moving_torso.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::MotionField;
using testing::MovingTorso;
using Values = std::vector<float>;

constexpr std::int64_t kRows = MovingTorso::kNy, kColumns = MovingTorso::kNx, kVoxels = kRows * kColumns;

Values sampled(const MotionField& u) {
  Values out(2 * kVoxels);
  for (std::int64_t y = 0; y < kRows; ++y)
    for (std::int64_t x = 0; x < kColumns; ++x) {
      const auto d = u(static_cast<double>(x), static_cast<double>(y));
      out[static_cast<std::size_t>(y * kColumns + x)] = static_cast<float>(d.x);
      out[static_cast<std::size_t>(kVoxels + y * kColumns + x)] = static_cast<float>(d.y);
    }
  return out;
}

template <class B>
class DisplacementTest : public testing::OnBackend<B> {
 protected:
  Context& with() { return this->context(); }
};
TYPED_TEST_SUITE(DisplacementTest, Backends, testing::BackendNames);

TYPED_TEST(DisplacementTest, ComposesAsFunctionsDo) {
  const MotionField a = MovingTorso::breathing(6), b = MovingTorso::rigid(0.05, 2, -1);
  const MotionField both = [&](double x, double y) {
    const auto first = a(x, y), second = b(x + first.x, y + first.y);
    return testing::Displacement{first.x + second.x, first.y + second.y};
  };
  const Shape n{1, 2, kRows, kColumns};
  const auto first = this->upload(sampled(a), n), second = this->upload(sampled(b), n);
  Array<float> to = this->with().template allocate<float>(n);
  compose_fields(this->with(), first.cview(), second.cview(), to.view());
  const Values found = this->download(to), expected = sampled(both);
  for (std::int64_t y = 10; y < kRows - 10; ++y)  // inside: the second field is linear, and so is its interpolation
    for (std::int64_t x = 10; x < kColumns - 10; ++x)
      for (const std::int64_t part : {std::int64_t{0}, kVoxels}) {
        const auto at = static_cast<std::size_t>(part + y * kColumns + x);
        ASSERT_NEAR(found[at], expected[at], 2e-5) << y << " " << x;
      }
}

TYPED_TEST(DisplacementTest, TheJacobianIsTheDeterminant) {
  // u = M p: det(1 + M) everywhere, at borders too, as differences of linear fields are exact.
  const MotionField linear = [](double x, double y) {
    return testing::Displacement{0.2 * x - 0.3 * y, 0.1 * x - 0.4 * y};
  };
  const MotionField folded = [](double x, double) { return testing::Displacement{-1.5 * x, 0}; };
  Values fields = sampled(linear);
  const Values other = sampled(folded);
  fields.insert(fields.end(), other.begin(), other.end());
  const auto on_device = this->upload(fields, {2, 2, kRows, kColumns});
  Array<float> to = this->with().template allocate<float>({2, kRows, kColumns});
  jacobian(this->with(), on_device.cview(), to.view());
  const Values found = this->download(to);
  for (std::size_t i = 0; i < kVoxels; ++i) {
    ASSERT_NEAR(found[i], 1.2 * 0.6 + 0.3 * 0.1, 1e-4);
    ASSERT_NEAR(found[kVoxels + i], -0.5, 1e-4);
  }
}

TYPED_TEST(DisplacementTest, ComplexImagesAreMoved) {
  const MotionField u = MovingTorso::breathing(5);
  const auto smooth = [](double x, double y) {  // far below what eight voxels resolve, 0 at the borders
    const double bell = std::exp(-std::pow((x - 80) / 25, 2) - std::pow((y - 96) / 30, 2));
    return cdouble(bell, bell * std::sin(0.2 * x));
  };
  const Values field = sampled(u), still(2 * kVoxels);
  Values both = field;
  both.insert(both.end(), still.begin(), still.end());
  std::vector<cfloat> images;
  for (int b = 0; b < 2; ++b)
    for (std::int64_t i = 0; i < kVoxels; ++i)
      images.emplace_back(smooth(static_cast<double>(i % kColumns), static_cast<double>(i / kColumns)));
  const auto from = this->upload(images, {2, kRows, kColumns});
  const auto fields = this->upload(both, {2, 2, kRows, kColumns});
  Array<cfloat> warped = this->with().template allocate<cfloat>({2, kRows, kColumns});
  warp_by(this->with(), from.cview(), fields.cview(), warped.view());
  const std::vector<cfloat> found = this->download(warped);
  for (std::size_t i = 0; i < kVoxels; ++i) {
    const auto x = static_cast<double>(i % kColumns), y = static_cast<double>(i / kColumns);
    const cdouble expected = smooth(x + static_cast<double>(field[i]), y + static_cast<double>(field[kVoxels + i]));
    ASSERT_LE(std::abs(cdouble(found[i]) - expected), 1e-3) << x << " " << y;  // of the window, as in unwarp_test.cc
    ASSERT_LE(std::abs(found[kVoxels + i] - images[i]), 1e-6f);
  }
}

TYPED_TEST(DisplacementTest, AMapUnwarpsAndMovesAtOnce) {
  // Two planes; the map's v_x = 0.1 y, v_y = -2 - plane, v_z = 0.5, f = 1 + 0.01 x are linear, so that values
  // between voxels are exact.
  Values unwarp, field = sampled(MovingTorso::breathing(5));
  for (int part = 0; part < 4; ++part)
    for (int plane = 0; plane < 2; ++plane)
      for (std::int64_t i = 0; i < kVoxels; ++i) {
        const auto x = static_cast<float>(i % kColumns), y = static_cast<float>(i / kColumns);
        const float values[] = {0.1f * y, -2 - static_cast<float>(plane), 0.5f, 1 + 0.01f * x};
        unwarp.push_back(values[part]);
      }
  const Values other = sampled(MovingTorso::rigid(0.1, 1, 2));
  field.insert(field.end(), other.begin(), other.end());
  const auto first = this->upload(field, {2, 2, kRows, kColumns});
  const auto second = this->upload(unwarp, {4, 2, kRows, kColumns});
  Array<float> to = this->with().template allocate<float>({4, 2, kRows, kColumns});
  motion_map(this->with(), first.cview(), second.cview(), to.view());
  const Values found = this->download(to);
  for (std::size_t plane = 0; plane < 2; ++plane)
    for (std::size_t i = 0; i < kVoxels; ++i) {
      const float ux = field[2 * plane * kVoxels + i], uy = field[(2 * plane + 1) * kVoxels + i];
      const float x = static_cast<float>(i % kColumns) + ux, y = static_cast<float>(i / kColumns) + uy;
      if (x < 0 || y < 0 || x > kColumns - 1 || y > kRows - 1) continue;
      const float expected[] = {ux + 0.1f * y, uy - 2 - static_cast<float>(plane), 0.5f, 1 + 0.01f * x};
      for (std::size_t part = 0; part < 4; ++part)
        ASSERT_NEAR(found[(2 * part + plane) * kVoxels + i], expected[part], 1e-4) << part;
    }
}

TYPED_TEST(DisplacementTest, WhatDoesNotFitIsRefused) {
  Context& context = this->with();
  const auto fields = context.zeros<float>({2, 2, 8, 8}), three = context.zeros<float>({2, 3, 8, 8});
  auto other = context.zeros<float>({2, 2, 8, 9});
  auto images = context.zeros<cfloat>({2, 8, 8});
  EXPECT_THROW(compose_fields(context, fields.cview(), fields.cview(), other.view()), std::invalid_argument);
  EXPECT_THROW(jacobian(context, three.cview(), other.view()), std::invalid_argument);
  EXPECT_THROW(motion_map(context, fields.cview(), {}, other.view()), std::invalid_argument);
  EXPECT_THROW(warp_by(context, images.cview(), other.cview(), images.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
