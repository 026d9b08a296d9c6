// Filters of registration against sums in float64.
#include "gadgets/numerics/mri/registration/smooth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using Values = std::vector<float>;
using Doubles = std::vector<double>;

Doubles gaussian(const Doubles& from, const Shape& n, double sigma) {
  const auto radius = static_cast<std::int64_t>(std::ceil(2.5 * sigma - 1e-6));
  Doubles kernel, out(from.size());
  double sum = 0;
  for (std::int64_t t = -radius; t <= radius; ++t)
    sum += kernel.emplace_back(std::exp(-0.5 * (t / sigma) * (t / sigma)));
  const auto at = [&](std::int64_t p, std::int64_t y, std::int64_t x) {
    y = std::clamp<std::int64_t>(y, 0, n[1] - 1), x = std::clamp<std::int64_t>(x, 0, n[2] - 1);
    return static_cast<std::size_t>((p * n[1] + y) * n[2] + x);
  };
  for (std::int64_t p = 0; p < n[0]; ++p)
    for (std::int64_t y = 0; y < n[1]; ++y)
      for (std::int64_t x = 0; x < n[2]; ++x)
        for (std::int64_t j = -radius; j <= radius; ++j)
          for (std::int64_t i = -radius; i <= radius; ++i)
            out[at(p, y, x)] += kernel[static_cast<std::size_t>(j + radius)] *
                                kernel[static_cast<std::size_t>(i + radius)] / (sum * sum) * from[at(p, y + j, x + i)];
  return out;
}

template <class B>
class SmoothTest : public testing::OnBackend<B> {
 protected:
  Context& with() { return this->context(); }
  static Values random_values(std::int64_t count) {
    testing::Random random(3);
    Values out;
    for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<float>(random.uniform(0, 2)));
    return out;
  }
};
TYPED_TEST_SUITE(SmoothTest, Backends, testing::BackendNames);

TYPED_TEST(SmoothTest, FiltersAsTheSumDoes) {
  for (const Shape& n : {Shape{2, 17, 23}, Shape{1, 3, 300}, Shape{1, 1, 1}})
    for (const float sigma : {0.5f, 2.0f, kMostSigma}) {
      const Values values = this->random_values(n.size());
      Array<float> planes = this->upload(values, n), scratch = this->with().template allocate<float>(n);
      gaussian_filter(this->with(), sigma, planes.view(), scratch.view());
      const Values found = this->download(planes);
      const Doubles expected = gaussian(Doubles(values.begin(), values.end()), n, static_cast<double>(sigma));
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5) << n.text() << sigma;
    }
}

TYPED_TEST(SmoothTest, HalvesWithFourVoxelsAlongEachAxis) {
  // The voxel (y, x) of a ramp is its value at (2 y + 1/2, 2 x + 1/2).
  const Shape n{2, 21, 16}, h{2, 11, 8};
  Values ramp;
  for (std::int64_t i = 0; i < n.size(); ++i)
    ramp.push_back(static_cast<float>(i % 16) + 3 * static_cast<float>(i / 16 % 21) +
                   100 * static_cast<float>(i / (16 * 21)));
  const auto from = this->upload(ramp, n);
  Array<float> to = this->with().template allocate<float>(h);
  halve(this->with(), from.cview(), to.view());
  const Values found = this->download(to);
  for (std::size_t p = 0; p < 2; ++p)
    for (std::size_t y = 1; y < 10; ++y)
      for (std::size_t x = 1; x < 7; ++x)
        ASSERT_NEAR(found[(p * 11 + y) * 8 + x], 2 * x + 0.5 + 3 * (2 * y + 0.5) + 100 * p, 1e-4);
  EXPECT_NEAR(found[0], (1 + 3) * (0 + 3 * 0 + 3 * 1 + 2) / 8.0, 1e-4);  // borders repeat
}

TYPED_TEST(SmoothTest, ContrastIsThatOfTheSurroundings) {
  const Shape n{4, 24, 30};
  Values values = this->random_values(n.size());
  const std::int64_t size = 24 * 30;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    values[at + size] = 7 * values[at];  // another unit, the same contrast
    values[at + 2 * size] = 1000;
  }
  values[static_cast<std::size_t>(3 * size + 5)] = std::numeric_limits<float>::quiet_NaN();
  const auto from = this->upload(values, n);
  Array<float> to = this->with().template allocate<float>(n),
               scratch = this->with().template allocate<float>({2 * n.size()});
  Array<float> floors = this->with().template allocate<float>({4});
  local_contrast(this->with(), 2, from.cview(), scratch.view(), to.view(), floors.view());
  const Values found = this->download(to), found_floors = this->download(floors);
  const Shape one{1, 24, 30};
  const Doubles image(values.begin(), values.begin() + size), mean = gaussian(image, one, 2);
  Doubles difference, square;
  double floor = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    difference.push_back(image[i] - mean[i]);
    square.push_back(difference[i] * difference[i]);
    floor += 0.05 * square[i] / static_cast<double>(size);
  }
  EXPECT_NEAR(found_floors[0], floor, 1e-6);
  EXPECT_EQ(found_floors[3], 0);
  const Doubles variance = gaussian(square, one, 2);
  for (std::size_t i = 0; i < image.size(); ++i) {
    ASSERT_NEAR(found[i], difference[i] / std::sqrt(variance[i] + floor), 1e-4);
    ASSERT_NEAR(found[i + size], found[i], 1e-4);
    ASSERT_EQ(found[i + 2 * size], 0);
    ASSERT_EQ(found[i + 3 * size], 0);
  }
}

TYPED_TEST(SmoothTest, WhatDoesNotFitIsRefused) {
  Context& context = this->with();
  auto planes = context.zeros<float>({2, 8, 8}), small = context.zeros<float>({1, 8, 8}),
       floor = context.zeros<float>({2});
  for (const float sigma : {0.0f, 4.9f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(gaussian_filter(context, sigma, planes.view(), planes.view()), std::invalid_argument);
  EXPECT_THROW(gaussian_filter(context, 1, planes.view(), small.view()), std::invalid_argument);
  EXPECT_THROW(halve(context, planes.cview(), small.view()), std::invalid_argument);
  EXPECT_THROW(local_contrast(context, 1, planes.cview(), planes.view(), small.view(), floor.view()),
               std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
