// Field maps of images whose field is known.
#include "gadgets/numerics/mri/field/field_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;
using numerics::FieldMapFacts;
using numerics::FieldMapOptions;

/// A field, and the product of two echoes of an ellipsoid in it.
struct Scene {
  std::int64_t nz, ny, nx;
  double delta_s;
  std::vector<double> hz, size;
  std::vector<cfloat> product;

  Scene(std::int64_t z, std::int64_t y, std::int64_t x, double range_hz, double delta, double noise = 0)
      : nz(z), ny(y), nx(x), delta_s(delta) {
    Random random(4);
    for (std::int64_t k = 0; k < nz; ++k)
      for (std::int64_t j = 0; j < ny; ++j)
        for (std::int64_t i = 0; i < nx; ++i) {
          const double u = static_cast<double>(i - nx / 2) / static_cast<double>(nx / 2),
                       v = static_cast<double>(j - ny / 2) / static_cast<double>(ny / 2),
                       w = nz > 1 ? static_cast<double>(k - nz / 2) / static_cast<double>(nz / 2) : 0;
          hz.push_back(range_hz * (u * u + 0.7 * v * v - 0.5 + 0.4 * u * v + 0.3 * w));
          size.push_back(u * u / 0.7 + v * v / 0.6 + w * w / 0.8 < 1 ? 1 + 0.5 * u : 0);
          const double phase = 2 * std::numbers::pi * hz.back() * delta;
          const cdouble early = std::polar(size.back(), 1.3 * u) + noise * cdouble(random.normal()),
                        late = std::polar(size.back(), 1.3 * u + phase) + noise * cdouble(random.normal());
          product.emplace_back(late * std::conj(early));
        }
  }
  FieldMapFacts map(const FieldMapOptions& options, std::vector<float>& to) const {
    numerics::ThreadPool threads(1);
    to.assign(product.size(), 7);
    return numerics::field_map(threads, {product.data(), {nz, ny, nx}}, delta_s, options, {to.data(), {nz, ny, nx}});
  }
  /// RMS error where the object is, where the field is `known`.
  double error(const std::vector<float>& map) const {
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < map.size(); ++i)
      if (size[i] > 0) {
        sum += std::pow(static_cast<double>(map[i]) - hz[i], 2);
        ++count;
      }
    return std::sqrt(sum / count);
  }
};

// Wrapped two or three times, without noise: the map is the field, to fp32.
TEST(FieldMap, UnwrapsWhatIsSmooth) {
  for (const Scene& scene : {Scene(1, 60, 70, 500, 2.46e-3), Scene(12, 30, 32, 300, 2.46e-3)}) {
    std::vector<float> map;
    const FieldMapFacts facts = scene.map({.threshold = 0.1, .smooth = 0}, map);
    EXPECT_EQ(facts.regions, 1);
    EXPECT_LT(scene.error(map), 1e-3);
    for (const float f : map) EXPECT_LT(std::abs(f), 1500);  // what is outside goes on from the object
  }
}

// A field at the object's edge goes on outside of it: near the edge it is the edge's, and it jumps nowhere.
TEST(FieldMap, GoesOnOutside) {
  const Scene scene(1, 64, 64, 60, 2e-3);
  std::vector<float> map;
  scene.map({.threshold = 0.1, .smooth = 1}, map);
  double largest = 0;
  for (std::size_t y = 0; y < 64; ++y)
    for (std::size_t x = 1; x < 64; ++x)
      largest = std::max(largest, static_cast<double>(std::abs(map[y * 64 + x] - map[y * 64 + x - 1])));
  // The field itself changes by up to 60 (2 + 0.4) / 32 = 4.5 Hz from voxel to voxel.
  EXPECT_LT(largest, 9);
  EXPECT_NEAR(map[32 * 64 + 62], map[32 * 64 + 56], 15);
}

// Smoothing takes away noise: of 1 voxel, a mean over 4 pi voxels; the field's curvature costs far less.
TEST(FieldMap, SmoothingTakesNoiseAway) {
  const Scene scene(1, 96, 96, 100, 2.46e-3, 0.05);
  std::vector<float> plain, smooth;
  scene.map({.threshold = 0.2, .smooth = 0}, plain);
  scene.map({.threshold = 0.2, .smooth = 1}, smooth);
  // Two images' noise of 0.05 per component, over signals of about 1 and 2 pi delta_s.
  const double expected = 0.05 * std::sqrt(2.0) / (2 * std::numbers::pi * 2.46e-3);
  EXPECT_NEAR(scene.error(plain), expected, 0.3 * expected);
  EXPECT_LT(scene.error(smooth), 0.45 * expected);
}

TEST(FieldMap, RegionsAreNearZeroAndOddInputIsTold) {
  Scene scene(1, 40, 40, 0, 2e-3);
  for (std::size_t i = 0; i < scene.product.size(); ++i) {
    const std::size_t x = i % 40;
    // Two bars, one of 230 Hz, which is 500 - 270.
    scene.product[i] = x < 15   ? cfloat(std::polar(1.0, 2 * std::numbers::pi * 230 * 2e-3))
                       : x > 25 ? cfloat(std::polar(1.0, -2 * std::numbers::pi * 270 * 2e-3))
                                : cfloat(0);
  }
  std::vector<float> map;
  const FieldMapFacts facts = scene.map({.threshold = 0.1, .smooth = 0}, map);
  EXPECT_EQ(facts.regions, 2);
  EXPECT_EQ(facts.trusted, 40 * 29);
  EXPECT_NEAR(map[5], 230, 1e-2);
  EXPECT_NEAR(map[35], 230, 1e-2);
  EXPECT_NEAR(map[20], 230, 1e-2);
  // One voxel of signal, where the 99th percentile is 0.
  std::fill(scene.product.begin(), scene.product.end(), cfloat(0));
  scene.product[820] = cfloat(std::polar(1.0, 2 * std::numbers::pi * 90 * 2e-3));
  for (const double smoothing : {0.0, 1.0}) {
    EXPECT_EQ(scene.map({.threshold = 0.1, .smooth = smoothing}, map).trusted, 1);
    for (const float f : map) ASSERT_NEAR(f, 90, 1e-2);
  }
  std::fill(scene.product.begin(), scene.product.end(), cfloat(0));
  EXPECT_EQ(scene.map({}, map).trusted, 0);
  EXPECT_EQ(map, std::vector<float>(1600, 0));
  scene.product[3] = {std::nanf(""), 0};
  EXPECT_THROW(scene.map({}, map), std::invalid_argument);
  scene.delta_s = 0;
  EXPECT_THROW(scene.map({}, map), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
