// Non-local means against the formula written out in float64, and what they are worth on noise of known size.
#include "gadgets/numerics/mri/images/non_local_means.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;

/// An image [z, y, x] in float64.
struct Field {
  Shape n;
  std::vector<cdouble> values;

  std::size_t index(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>((z * n[1] + y) * n[2] + x);
  }
  cdouble near(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return values[index(std::clamp<std::int64_t>(z, 0, n[0] - 1), std::clamp<std::int64_t>(y, 0, n[1] - 1),
                        std::clamp<std::int64_t>(x, 0, n[2] - 1))];
  }
};

std::vector<cdouble> reference(const Field& image, const NonLocalMeans& how, bool complex) {
  const auto& n = image.n;
  std::array<std::int64_t, 3> patch{}, search{};
  double voxels = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const bool used = n[a] > 1 && !(a == 0 && how.by_planes);
    patch[a] = used ? how.patch : 0;
    search[a] = used ? how.search : 0;
    voxels *= static_cast<double>(2 * patch[a] + 1);
  }
  const double square = static_cast<double>(how.deviation) * how.deviation, variance = (complex ? 2 : 1) * square;
  std::vector<cdouble> out;
  for (std::int64_t z = 0; z < n[0]; ++z)
    for (std::int64_t y = 0; y < n[1]; ++y)
      for (std::int64_t x = 0; x < n[2]; ++x) {
        double weights = 0;
        cdouble sum = 0;
        for (std::int64_t k = std::max<std::int64_t>(0, z - search[0]); k <= std::min(n[0] - 1, z + search[0]); ++k)
          for (std::int64_t j = std::max<std::int64_t>(0, y - search[1]); j <= std::min(n[1] - 1, y + search[1]); ++j)
            for (std::int64_t i = std::max<std::int64_t>(0, x - search[2]); i <= std::min(n[2] - 1, x + search[2]);
                 ++i) {
              double d = 0;
              for (std::int64_t c = -patch[0]; c <= patch[0]; ++c)
                for (std::int64_t b = -patch[1]; b <= patch[1]; ++b)
                  for (std::int64_t a = -patch[2]; a <= patch[2]; ++a)
                    d += std::norm(image.near(z + c, y + b, x + a) - image.near(k + c, j + b, i + a));
              const double over = std::max(d / voxels - 2 * variance, 0.0);
              const double weight = std::exp(-over / (how.strength * how.strength * variance));
              weights += weight;
              const cdouble value = image.values[image.index(k, j, i)];
              sum += weight * (how.rician ? std::norm(value) : value);
            }
        sum /= weights;
        out.push_back(how.rician ? std::sqrt(std::max(sum.real() - 2 * square, 0.0)) : sum);
      }
  return out;
}

template <class A>
double distance(const std::vector<A>& values, const std::vector<cdouble>& truth) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    error += std::norm(cdouble(values[i]) - truth[i]);
    norm += std::norm(truth[i]);
  }
  return std::sqrt(error / norm);
}

/// Steps and a ramp with noise of deviation 1.
template <class T>
std::vector<T> noisy(const Shape& n, unsigned seed, double noise = 1) {
  testing::Random random(seed);
  std::vector<T> out;
  for (std::int64_t z = 0; z < n[0]; ++z)
    for (std::int64_t y = 0; y < n[1]; ++y)
      for (std::int64_t x = 0; x < n[2]; ++x) {
        const cfloat value = (x > n[2] / 2 ? 20.0f : 5.0f) + 0.2f * static_cast<float>(y + z);
        const cfloat error = random.normal() * static_cast<float>(noise);
        if constexpr (std::is_same_v<T, float>)
          out.push_back(value.real() + error.real());
        else
          out.push_back(value + error);
      }
  return out;
}

template <class B>
class NonLocalMeansTest : public testing::OnBackend<B> {
 protected:
  template <class T>
  std::vector<T> denoised(const std::vector<T>& image, const Shape& n, const NonLocalMeans& how) {
    Array<T> to = this->context().template allocate<T>(n);
    non_local_means(this->context(), this->upload(image, n).cview(), how, to.view());
    return this->download(to);
  }
  template <class T>
  double error(const Shape& n, const NonLocalMeans& how) {
    const std::vector<T> image = noisy<T>(n, 3);
    const Field field{n, std::vector<cdouble>(image.begin(), image.end())};
    return distance(denoised(image, n, how), reference(field, how, !std::is_same_v<T, float>));
  }
};
TYPED_TEST_SUITE(NonLocalMeansTest, Backends, testing::BackendNames);

TYPED_TEST(NonLocalMeansTest, AreTheFormulaWrittenOut) {
  for (const NonLocalMeans& how : {NonLocalMeans{}, NonLocalMeans{.patch = 1, .search = 5, .strength = 1.2f},
                                   NonLocalMeans{.patch = 0, .search = 2, .deviation = 0.5f},
                                   NonLocalMeans{.patch = 1, .search = 3, .rician = true},
                                   NonLocalMeans{.patch = 1, .search = 2, .by_planes = true}}) {
    EXPECT_LT(this->template error<float>({1, 13, 17}, how), 1e-5);
    EXPECT_LT(this->template error<float>({5, 6, 7}, how), 1e-5);
    if (how.rician) continue;
    EXPECT_LT(this->template error<cfloat>({1, 13, 17}, how), 1e-5);
    EXPECT_LT(this->template error<cfloat>({4, 6, 7}, how), 1e-5);
  }
  EXPECT_LT(this->template error<float>({1, 1, 3}, {}), 1e-5);  // smaller than the search, and one line
  EXPECT_LT(this->template error<float>({1, 9, 1}, {}), 1e-5);
}

TYPED_TEST(NonLocalMeansTest, NoiseGoesAndEdgesStay) {
  const Shape n{1, 64, 64};
  const std::vector<float> truth = noisy<float>(n, 1, 0), image = noisy<float>(n, 1);
  const std::vector<float> out = this->denoised(image, n, {});
  double before = 0, after = 0, across = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    before += std::pow(image[i] - truth[i], 2);
    after += std::pow(out[i] - truth[i], 2);
  }
  EXPECT_LT(after, before / 4);  // half the noise at most
  for (std::size_t y = 0; y < 64; ++y) across += (out[64 * y + 33] - out[64 * y + 32]) / 64;
  EXPECT_NEAR(across, 15, 0.5);  // the step from column 32 to 33
}

TYPED_TEST(NonLocalMeansTest, WhatIsNotFiniteHarmsNobody) {
  const Shape n{1, 20, 20};
  std::vector<float> image = noisy<float>(n, 2);
  image[8 * 20 + 8] = std::numeric_limits<float>::quiet_NaN();
  image[3 * 20 + 15] = std::numeric_limits<float>::infinity();
  const std::vector<float> out = this->denoised(image, n, {.patch = 1, .search = 3});
  EXPECT_TRUE(std::isnan(out[8 * 20 + 8]));
  EXPECT_TRUE(std::isinf(out[3 * 20 + 15]));
  EXPECT_EQ(std::count_if(out.begin(), out.end(), [](float v) { return !std::isfinite(v); }), 2);
}

TYPED_TEST(NonLocalMeansTest, TellTheNoiseOfAnImage) {
  testing::Random random(9);
  const Shape n{2, 100, 101};
  std::vector<float> image;
  std::vector<cfloat> twice;
  for (const cfloat& v : random.normals(n.size())) {
    image.push_back(1000 + 3 * v.real());
    twice.push_back(cfloat(50, 7) + 3.0f * v);
  }
  // The median of 5000 (of 20000) sizes is known to 2 % (1 %), one standard deviation.
  EXPECT_NEAR(noise_deviation(this->context(), this->upload(image, n).cview()), 3, 0.18);
  EXPECT_NEAR(noise_deviation(this->context(), this->upload(twice, n).cview()), 3, 0.12);
  for (std::size_t i = 0; i < image.size() / 2; ++i) image[i] = 0;  // masked
  EXPECT_NEAR(noise_deviation(this->context(), this->upload(image, n).cview()), 3, 0.25);
  EXPECT_EQ(noise_deviation(this->context(), this->upload(std::vector<float>(6), {1, 2, 3}).cview()), 0);
  EXPECT_EQ(noise_deviation(this->context(), this->upload(std::vector<float>(3, 1.0f), {1, 1, 3}).cview()), 0);
}

TYPED_TEST(NonLocalMeansTest, OptionsThatMakeNoSenseAreRefused) {
  const Shape n{1, 4, 4};
  const std::vector<float> image(16);
  for (const NonLocalMeans& how : {NonLocalMeans{.patch = 9}, NonLocalMeans{.search = 0}, NonLocalMeans{.deviation = 0},
                                   NonLocalMeans{.strength = -1}})
    EXPECT_THROW(this->denoised(image, n, how), std::invalid_argument);
  EXPECT_THROW(this->denoised(std::vector<cfloat>(16), n, {.rician = true}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
