// Steps of registration by themselves: the loop around them would make up for most of their errors.
#include "gadgets/numerics/mri/registration/steps.h"

#include <algorithm>
#include <cmath>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using Values = std::vector<float>;

constexpr std::int64_t kStepRows = 18, kStepColumns = 21, kStepVoxels = kStepRows * kStepColumns;

template <class B>
class RegistrationStepsTest : public testing::OnBackend<B> {
 protected:
  Context& with() { return this->context(); }
  static Values random_values(std::int64_t count, double low, double high, unsigned seed) {
    testing::Random random(seed);
    Values out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>(random.uniform(low, high)));
    return out;
  }
  /// A field a + b y + c x for each plane, in float32.
  static Values linear(std::int64_t rows, std::int64_t columns, double step, double offset) {
    Values out;
    for (const double of : {1.0, -2.0})
      for (std::int64_t y = 0; y < rows; ++y)
        for (std::int64_t x = 0; x < columns; ++x)
          out.push_back(static_cast<float>(of + 0.05 * of * (step * static_cast<double>(y) + offset) -
                                           0.03 * (step * static_cast<double>(x) + offset)));
    return out;
  }
};
TYPED_TEST_SUITE(RegistrationStepsTest, Backends, testing::BackendNames);

TYPED_TEST(RegistrationStepsTest, FieldsAreRefinedBetweenVoxels) {
  // The coarse voxel i is the place 2 i + 1/2 of the fine image; displacements are twice as many voxels there.
  const auto coarse = this->upload(this->linear(9, 11, 2, 0.5), {1, 2, 9, 11});
  Array<float> to = this->with().template allocate<float>({1, 2, kStepRows, kStepColumns});
  registration::refine_fields(this->with(), coarse.cview(), to.view());
  const Values found = this->download(to), expected = this->linear(kStepRows, kStepColumns, 1, 0);
  for (std::int64_t y = 1; y + 1 < kStepRows; ++y)
    for (std::int64_t x = 1; x + 1 < kStepColumns; ++x)
      for (const std::int64_t part : {std::int64_t{0}, kStepVoxels}) {
        const auto at = static_cast<std::size_t>(part + y * kStepColumns + x);
        ASSERT_NEAR(found[at], 2 * expected[at], 1e-5) << y << " " << x;
      }
}

TYPED_TEST(RegistrationStepsTest, AStepSolvesItsSystemAndIsComposed) {
  // Values between voxels of a linear field are exact; v = (A + 0.05)^-1 f, not longer than a voxel.
  const Values field = this->linear(kStepRows, kStepColumns, 1, 0);
  Values systems = this->random_values(5 * kStepVoxels, 0.2, 1, 2);
  for (std::int64_t i = 0; i < kStepVoxels; ++i) systems[static_cast<std::size_t>(2 * kStepVoxels + i)] *= 0.2f;  // xy
  const auto a = this->upload(systems, {1, 5, kStepRows, kStepColumns});
  const auto u = this->upload(field, {1, 2, kStepRows, kStepColumns});
  Array<float> to = this->with().template allocate<float>({1, 2, kStepRows, kStepColumns});
  registration::take_step(this->with(), {a.data(), a.data() + 3 * kStepVoxels, 5 * kStepVoxels, 5 * kStepVoxels},
                          u.cview(), to.view());
  const Values found = this->download(to);
  int limited = 0;
  for (std::int64_t y = 1; y + 1 < kStepRows; ++y)
    for (std::int64_t x = 1; x + 1 < kStepColumns; ++x) {
      const auto i = static_cast<std::size_t>(y * kStepColumns + x);
      const auto of = [&](std::size_t plane) { return static_cast<double>(systems[plane * kStepVoxels + i]); };
      const double xx = of(0) + 0.05, yy = of(1) + 0.05, xy = of(2), det = xx * yy - xy * xy;
      double vx = (yy * of(3) - xy * of(4)) / det, vy = (xx * of(4) - xy * of(3)) / det;
      const double length = std::hypot(vx, vy);
      if (length > 1) vx /= length, vy /= length, ++limited;
      const double shift = -0.03 * vx;
      ASSERT_NEAR(found[i], vx + static_cast<double>(field[i]) + 0.05 * vy + shift, 1e-4);
      ASSERT_NEAR(found[kStepVoxels + i], vy + static_cast<double>(field[kStepVoxels + i]) - 0.1 * vy + shift, 1e-4);
    }
  EXPECT_GT(limited, 10);
}

TYPED_TEST(RegistrationStepsTest, SystemsAreTheFormulasAndEmptyBeyondTheBorder) {
  const Shape n{1, kStepRows, kStepColumns}, five{1, 5, kStepRows, kStepColumns};
  const Values f = this->random_values(kStepVoxels, -1, 1, 3), w = this->random_values(kStepVoxels, -1, 1, 4),
               ff = this->random_values(kStepVoxels, 0, 1, 5), products = this->random_values(2 * kStepVoxels, 0, 1, 6),
               field = this->random_values(2 * kStepVoxels, -4, 4, 7);
  const auto reference = this->upload(f, n), moved = this->upload(w, n), squares = this->upload(ff, n);
  const auto smoothed = this->upload(products, {1, 2, kStepRows, kStepColumns});
  const auto u = this->upload(field, {1, 2, kStepRows, kStepColumns});
  Array<float> to = this->with().template allocate<float>(five);
  registration::correlation_systems(this->with(), reference.cview(), squares.cview(), moved.cview(), smoothed.cview(),
                                    u.cview(), to.view());
  const Values found = this->download(to);
  int beyond = 0;
  for (std::int64_t y = 0; y < kStepRows; ++y)
    for (std::int64_t x = 0; x < kStepColumns; ++x) {
      const auto at = static_cast<std::size_t>(y * kStepColumns + x);
      const auto gradient = [&](const Values& of, std::int64_t dy, std::int64_t dx) {
        const auto value = [&](std::int64_t j, std::int64_t i) {
          j = std::clamp<std::int64_t>(j, 0, kStepRows - 1), i = std::clamp<std::int64_t>(i, 0, kStepColumns - 1);
          return static_cast<double>(of[static_cast<std::size_t>(j * kStepColumns + i)]);
        };
        return 0.5 * (value(y + dy, x + dx) - value(y - dy, x - dx));
      };
      const double px = static_cast<double>(x) + static_cast<double>(field[at]),
                   py = static_cast<double>(y) + static_cast<double>(field[kStepVoxels + at]);
      const bool inside = px >= 0 && py >= 0 && px <= kStepColumns - 1 && py <= kStepRows - 1;
      const double square = static_cast<double>(products[at]) * static_cast<double>(ff[at]);
      const double weight = inside ? 1 / std::sqrt(square + 0.0025) : 0;
      const double m = weight * std::sqrt(square), p = weight * static_cast<double>(products[kStepVoxels + at]);
      const double r = m * static_cast<double>(f[at]) - p * static_cast<double>(w[at]);
      const double jx = 0.5 * (p * gradient(w, 0, 1) + m * gradient(f, 0, 1)),
                   jy = 0.5 * (p * gradient(w, 1, 0) + m * gradient(f, 1, 0));
      const double expected[] = {jx * jx, jy * jy, jx * jy, jx * r, jy * r};
      for (std::size_t plane = 0; plane < 5; ++plane)
        ASSERT_NEAR(found[plane * kStepVoxels + at], expected[plane], 1e-4 * (1 + p * p)) << plane;
      beyond += inside ? 0 : 1;
    }
  EXPECT_GT(beyond, 10);
}

TYPED_TEST(RegistrationStepsTest, ARigidStepIsComposedWithTheMotion) {
  // Systems whose solution is known: A of random J, f = A v for a small rotation and shift v of all voxels.
  const double turn = 0.01, shift_x = 0.3, shift_y = -0.2, angle = 0.5;
  const Values j = this->random_values(2 * kStepVoxels, -1, 1, 8);
  Values systems(5 * kStepVoxels);
  for (std::int64_t i = 0; i < kStepVoxels; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double dx = static_cast<double>(i % kStepColumns) - 0.5 * (kStepColumns - 1),
                 dy = static_cast<double>(i / kStepColumns) - 0.5 * (kStepRows - 1);
    const double jx = static_cast<double>(j[at]), jy = static_cast<double>(j[kStepVoxels + at]);
    const double r = jx * (shift_x - turn * dy) + jy * (shift_y + turn * dx);
    const double values[] = {jx * jx, jy * jy, jx * jy, jx * r, jy * r};
    for (std::size_t plane = 0; plane < 5; ++plane)
      systems[plane * kStepVoxels + at] = static_cast<float>(values[plane]);
  }
  const auto a = this->upload(systems, {1, 5, kStepRows, kStepColumns});
  Array<float> motions = this->upload(Values{static_cast<float>(angle), 2, 3}, {1, 3});
  Array<double> sums = this->with().template allocate<double>({9 * (kStepRows + 1)});
  registration::take_rigid_step(this->with(), a.cview(), sums.view(), motions.view());
  const Values found = this->download(motions);
  EXPECT_NEAR(found[0], angle + turn, 1e-5);
  EXPECT_NEAR(found[1], 2 + std::cos(angle) * shift_x - std::sin(angle) * shift_y, 1e-4);
  EXPECT_NEAR(found[2], 3 + std::sin(angle) * shift_x + std::cos(angle) * shift_y, 1e-4);
  registration::refine_motions(this->with(), motions.view());
  const Values refined = this->download(motions);
  EXPECT_EQ(refined[0], found[0]);
  EXPECT_EQ(refined[1], 2 * found[1]);
  EXPECT_EQ(refined[2], 2 * found[2]);
}

}  // namespace
}  // namespace echotrain::numerics
