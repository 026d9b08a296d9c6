#include "gadgets/numerics/mri/coils/coil.h"

#include <cmath>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using testing::relative_error;

template <class B>
class CoilTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(CoilTest, Backends, testing::BackendNames);

TYPED_TEST(CoilTest, RootSumOfSquares) {
  for (std::int64_t coils : {1, 2, 7, 32}) {
    const std::int64_t voxels = 33 * 41 * 5;
    const auto values = Random(1).normals(coils * voxels);
    auto from = this->upload(values, {coils, 5, 33, 41});
    auto to = this->context().template allocate<cfloat>({1, 5, 33, 41});
    root_sum_of_squares(this->context(), from.cview(), to.view());
    std::vector<cdouble> right(static_cast<std::size_t>(voxels));
    for (std::int64_t v = 0; v < voxels; ++v) {
      double sum = 0;
      for (std::int64_t c = 0; c < coils; ++c)
        sum += std::norm(cdouble(values[static_cast<std::size_t>(c * voxels + v)]));
      right[static_cast<std::size_t>(v)] = std::sqrt(sum);
    }
    const auto got = this->download(to);
    EXPECT_LT(relative_error(got, right, right.size()), 1e-6);
    for (const cfloat v : got) ASSERT_EQ(v.imag(), 0.0f);
  }
}

TYPED_TEST(CoilTest, ApplyMatrix) {
  for (std::int64_t coils : {1, 2, 9, 32, 200})
    for (std::int64_t samples : {1, 31, 300}) {
      const std::int64_t readouts = coils > 100 ? 1 : 6;
      const auto values = Random(2).normals(readouts * coils * samples);
      auto numbers = Random(3).normals(coils * coils);
      if (coils == 9)
        for (std::size_t i = 0; i < 40; ++i) numbers[2 * i] = 0;
      auto matrix = this->upload(numbers, {coils, coils});
      auto data = this->upload(values, {readouts, coils, samples});
      apply_coil_matrix(this->context(), matrix.cview(), data.view());
      std::vector<cdouble> right(values.size());
      for (std::int64_t i = 0; i < readouts; ++i)
        for (std::int64_t to = 0; to < coils; ++to)
          for (std::int64_t from = 0; from < coils; ++from)
            for (std::int64_t s = 0; s < samples; ++s)
              right[static_cast<std::size_t>((i * coils + to) * samples + s)] +=
                  cdouble(numbers[static_cast<std::size_t>(to * coils + from)]) *
                  cdouble(values[static_cast<std::size_t>((i * coils + from) * samples + s)]);
      // Rounding of a sum of `coils` terms grows with the root of their number.
      EXPECT_LT(relative_error(this->download(data), right, right.size()), 2e-6)
          << coils << " coils, " << samples << " samples";
    }
}

TYPED_TEST(CoilTest, BadArguments) {
  Context& context = this->context();
  auto image = context.template zeros<cfloat>({2, 4, 4});
  auto one = context.template zeros<cfloat>({1, 4, 5});
  auto matrix = context.template zeros<cfloat>({4, 4});
  auto narrow = context.template zeros<cfloat>({3, 4});
  EXPECT_THROW(root_sum_of_squares(context, image.cview(), one.view()), std::invalid_argument);
  EXPECT_THROW(root_sum_of_squares(context, image.cview(), image.view()), std::invalid_argument);
  EXPECT_THROW(apply_coil_matrix(context, narrow.cview(), image.view()), std::invalid_argument);
  EXPECT_THROW(apply_coil_matrix(context, matrix.cview(), one.view().reshaped({2, 2, 5})), std::invalid_argument);
  apply_coil_matrix(context, matrix.cview(), image.view());
}

/// Noise of which the covariance is known: mixed[c] = sum_j mix[c, j] n[j], n white with unit variance of either part.
struct Noise {
  int coils = 4;
  std::int64_t samples = 20000;
  std::vector<cfloat> mix, mixed;
  Noise() : mix(Random(4).normals(16)), mixed(static_cast<std::size_t>(4 * samples)) {
    const auto white = Random(5).normals(4 * samples);
    for (std::size_t c = 0; c < 4; ++c)
      for (std::size_t j = 0; j < 4; ++j)
        for (std::size_t s = 0; s < static_cast<std::size_t>(samples); ++s)
          mixed[c * static_cast<std::size_t>(samples) + s] +=
              mix[c * 4 + j] * white[j * static_cast<std::size_t>(samples) + s];
  }
};

TEST(NoiseCovarianceTest, IsTheSumByDefinition) {
  const Noise noise;
  NoiseCovariance covariance(4);
  // The parts are of unequal length.
  const std::int64_t cut = 7001;
  for (const auto& [begin, end] : {std::pair<std::int64_t, std::int64_t>{0, cut}, {cut, cut}, {cut, noise.samples}}) {
    std::vector<cfloat> part;
    for (std::int64_t c = 0; c < 4; ++c)
      for (std::int64_t s = begin; s < end; ++s)
        part.push_back(noise.mixed[static_cast<std::size_t>(c * noise.samples + s)]);
    covariance.add({part.data(), {4, end - begin}});
  }
  EXPECT_EQ(covariance.samples(), noise.samples);
  EXPECT_EQ(covariance.coils(), 4);
  const auto c = covariance.covariance();
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 4; ++b) {
      cdouble sum = 0;
      for (std::size_t s = 0; s < static_cast<std::size_t>(noise.samples); ++s)
        sum += cdouble(noise.mixed[a * static_cast<std::size_t>(noise.samples) + s]) *
               std::conj(cdouble(noise.mixed[b * static_cast<std::size_t>(noise.samples) + s]));
      sum /= static_cast<double>(noise.samples - 1);
      EXPECT_LT(std::abs(c[a * 4 + b] - sum), 1e-12 * std::abs(c[a * 4 + a])) << a << ", " << b;
    }
}

TEST(NoiseCovarianceTest, WhitensToUnitParts) {
  const Noise noise;
  NoiseCovariance covariance(4);
  covariance.add({noise.mixed.data(), {4, noise.samples}});
  const auto c = covariance.covariance();
  for (const double ratio : {1.0, 0.25}) {
    // W C W^H = 2 / ratio by definition: unit variance in both parts when the data have `ratio` times this noise.
    const auto w = whitening_matrix(c, 4, ratio);
    for (std::size_t a = 0; a < 4; ++a)
      for (std::size_t b = 0; b < 4; ++b) {
        cdouble sum = 0;
        for (std::size_t i = 0; i < 4; ++i)
          for (std::size_t j = 0; j < 4; ++j)
            sum += cdouble(w[a * 4 + i]) * c[i * 4 + j] * std::conj(cdouble(w[b * 4 + j]));
        EXPECT_LT(std::abs(sum - (a == b ? 2 / ratio : 0.0)), 1e-5 / ratio) << a << ", " << b;
        if (b > a) {
          EXPECT_EQ(w[a * 4 + b], cfloat(0, 0)) << "L^-1 is lower triangular";
        }
      }
  }
}

TEST(NoiseCovarianceTest, WhiteNoiseIsScaledOnly) {
  std::vector<cdouble> c(9);
  for (std::size_t i = 0; i < 3; ++i) c[i * 4] = 8.0;  // variance 4 in either part
  const auto w = whitening_matrix(c, 3, 1);
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(std::abs(w[i] - (i % 4 == 0 ? 0.5f : 0.0f)), 0, 1e-7);
}

TEST(NoiseCovarianceTest, RefusesWhatCannotBeWhitened) {
  EXPECT_THROW(NoiseCovariance(0), std::invalid_argument);
  NoiseCovariance covariance(2);
  EXPECT_THROW(covariance.covariance(), std::invalid_argument);
  const std::vector<cfloat> noise(6, 1.0f);
  EXPECT_THROW(covariance.add({noise.data(), {3, 2}}), std::invalid_argument);
  covariance.add({noise.data(), {2, 3}});  // two equal coils
  EXPECT_THROW(whitening_matrix(covariance.covariance(), 2, 1), std::invalid_argument);
  EXPECT_THROW(whitening_matrix(std::vector<cdouble>(4), 2, 1), std::invalid_argument);
  EXPECT_THROW(whitening_matrix({{1, 0}, {2, 0}, {2, 0}, {1, 0}}, 2, 1), std::invalid_argument);
  EXPECT_THROW(whitening_matrix({{NAN, 0}}, 1, 1), std::invalid_argument);
  EXPECT_THROW(whitening_matrix({{1, 0}}, 2, 1), std::invalid_argument);
  EXPECT_THROW(whitening_matrix({{1, 0}}, 1, 0), std::invalid_argument);
  EXPECT_EQ(whitening_matrix({{2, 0}}, 1, 1).size(), 1u);
}

// 32 coils of which some are strongly coupled: as in a head coil.
TEST(NoiseCovarianceTest, ManyCoupledCoils) {
  const int n = 32;
  std::vector<cdouble> c(static_cast<std::size_t>(n * n));
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b)
      c[static_cast<std::size_t>(a * n + b)] = std::polar(1e-6 * std::pow(0.9, std::abs(a - b)), 0.3 * (a - b));
  const auto w = whitening_matrix(c, n, 1);
  double worst = 0;
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b) {
      cdouble sum = 0;
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          sum += cdouble(w[static_cast<std::size_t>(a * n + i)]) * c[static_cast<std::size_t>(i * n + j)] *
                 std::conj(cdouble(w[static_cast<std::size_t>(b * n + j)]));
      worst = std::max(worst, std::abs(sum - (a == b ? 2.0 : 0.0)));
    }
  EXPECT_LT(worst, 1e-5);
}

}  // namespace
}  // namespace echotrain::numerics
