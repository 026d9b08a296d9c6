// The steps of plane-wave imaging against float64.
#include "gadgets/numerics/mri/ultrasound/plane_wave.h"

#include <cmath>
#include <numbers>
#include <stdexcept>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::cdouble;
using numerics::cfloat;

template <class B>
using PlaneWaveTest = OnBackend<B>;
TYPED_TEST_SUITE(PlaneWaveTest, Backends, BackendNames);

/// Largest difference, as a share of the largest value.
double difference(const std::vector<cfloat>& a, const std::vector<cdouble>& b) {
  double most = 0, largest = 0;
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::abs(cdouble(a[i]) - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

TYPED_TEST(PlaneWaveTest, ABandIsTakenAroundTheEndAndMovedInTime) {
  Random random(5);
  constexpr std::int64_t kElements = 19, kWaves = 3, kBins = 90, kCount = 47, kColumns = 40;
  const numerics::EchoBand which{70, 3.3e6, 6.7e4};
  const auto values = random.normals(kElements * kWaves * kBins);
  std::vector<double> advances;
  for (std::int64_t i = 0; i < kWaves * kElements; ++i)
    advances.push_back(i < kElements ? 0 : random.uniform(-1e-5, 1e-5));
  const auto spectra = this->upload(values, {kElements, kWaves, kBins});
  const auto times = this->upload(advances, {kWaves, kElements});
  auto band = this->context().template allocate<cfloat>({kWaves, kCount, kColumns});
  numerics::take_band(this->context(), spectra.cview(), times.cview(), which, band.view());
  std::vector<cdouble> expected;
  for (std::int64_t w = 0; w < kWaves; ++w)
    for (std::int64_t k = 0; k < kCount; ++k)
      for (std::int64_t e = 0; e < kColumns; ++e) {
        if (e >= kElements) {
          expected.emplace_back(0);
          continue;
        }
        const double cycles = (which.first_hz + static_cast<double>(k) * which.step_hz) *
                              advances[static_cast<std::size_t>(w * kElements + e)];
        const auto at = static_cast<std::size_t>((e * kWaves + w) * kBins + (which.first_bin + k) % kBins);
        expected.push_back(cdouble(values[at]) * std::polar(1.0, 2 * std::numbers::pi * cycles));
      }
  EXPECT_LT(difference(this->download(band), expected), 1e-6);
}

TYPED_TEST(PlaneWaveTest, ProductsMeansAndDecibels) {
  Random random(6);
  const numerics::Shape shape{3, 1, 37, 41};
  const std::int64_t n = 37 * 41;
  const auto values = random.normals(3 * n), factors = random.normals(3 * n);
  auto data = this->upload(values, shape);
  numerics::multiply(this->context(), this->upload(factors, shape).cview(), data.view());
  std::vector<cdouble> products, means(static_cast<std::size_t>(n)), magnitudes(means), decibels;
  for (std::size_t i = 0; i < values.size(); ++i) {
    products.push_back(cdouble(values[i]) * cdouble(factors[i]));
    means[i % static_cast<std::size_t>(n)] += products[i] / 3.0;
    magnitudes[i % static_cast<std::size_t>(n)] += std::abs(products[i]) / 3;
    decibels.emplace_back(std::max(0.0, 40 + 20 * std::log10(std::abs(products[i]) / 2.5)));
  }
  EXPECT_LT(difference(this->download(data), products), 1e-6);
  auto mean = this->context().template allocate<cfloat>({1, 1, 37, 41});
  numerics::mean_of_channels(this->context(), data.cview(), false, mean.view());
  EXPECT_LT(difference(this->download(mean), means), 1e-6);
  numerics::mean_of_channels(this->context(), data.cview(), true, mean.view());
  EXPECT_LT(difference(this->download(mean), magnitudes), 1e-6);
  numerics::log_compress(this->context(), data.cview(), 2.5f, 40, data.view());
  EXPECT_LT(difference(this->download(data), decibels), 2e-6);
}

TYPED_TEST(PlaneWaveTest, SilenceIsTheFloor) {
  auto data = this->upload(std::vector<cfloat>{0, {0, 2}, {-0.02f, 0}}, {3});
  numerics::log_compress(this->context(), data.cview(), 2, 30, data.view());
  EXPECT_EQ(this->download(data), (std::vector<cfloat>{0, 30, 0}));
}

TYPED_TEST(PlaneWaveTest, WhatDoesNotFitIsRefused) {
  auto a = this->context().template zeros<cfloat>({4, 2, 10});
  auto band = this->context().template zeros<cfloat>({2, 5, 4});
  auto narrow = this->context().template zeros<cfloat>({2, 5, 3});
  auto times = this->context().template zeros<double>({2, 4});
  const auto take = [&](numerics::Array<cfloat>& to, std::int64_t first) {
    numerics::take_band(this->context(), a.cview(), times.cview(), {first, 1, 1}, to.view());
  };
  EXPECT_NO_THROW(take(band, 9));
  EXPECT_THROW(take(band, 10), std::invalid_argument);
  EXPECT_THROW(take(narrow, 0), std::invalid_argument);
  EXPECT_THROW(numerics::multiply(this->context(), a.cview(), band.view()), std::invalid_argument);
  EXPECT_THROW(numerics::mean_of_channels(this->context(), a.cview(), true, band.view()), std::invalid_argument);
  EXPECT_THROW(numerics::log_compress(this->context(), a.cview(), 0, 30, a.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::testing
