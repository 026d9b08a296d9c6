// Maps against the analytic coils that made the images, and against eigenvectors in float64.
#include "gadgets/numerics/mri/coils/coil_maps.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "gadgets/numerics/mri/espirit/espirit.h"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

constexpr double kPi = std::numbers::pi;

/// An ellipsoid of smooth phase with a darker one in it, seen by coils around it: Gaussian profiles as wide as the
/// image, with phases that differ and turn by up to a third of a cycle.
struct Scene {
  std::int64_t coils;
  Shape n;  // z, y, x

  std::array<double, 3> position(std::int64_t voxel) const {  // x, y, z in units of the half image
    const auto axis = [](std::int64_t i, std::int64_t m) {
      return m == 1 ? 0.0 : 2 * static_cast<double>(i - m / 2) / static_cast<double>(m);
    };
    return {axis(voxel % n[2], n[2]), axis(voxel / n[2] % n[1], n[1]), axis(voxel / n[2] / n[1], n[0])};
  }
  cdouble profile(std::int64_t coil, std::int64_t voxel) const {
    const auto [x, y, z] = position(voxel);
    const double c = static_cast<double>(coil), angle = 2 * kPi * c / static_cast<double>(coils) + 0.2;
    const double cx = 1.1 * std::cos(angle), cy = 1.1 * std::sin(angle), cz = n[0] == 1 ? 0 : 0.5 * std::cos(2.4 * c);
    const double square = std::pow(x - cx, 2) + std::pow(y - cy, 2) + std::pow(z - cz, 2);
    return std::polar(std::exp(-square / 2), 0.8 * c + 0.5 * std::sin(c) * x + 0.7 * std::cos(2 * c) * y + 0.3 * z);
  }
  /// The profiles with sum_c |S_c|^2 = 1.
  std::vector<cdouble> pattern(std::int64_t voxel) const {
    std::vector<cdouble> s;
    double size = 0;
    for (std::int64_t c = 0; c < coils; ++c) {
      s.push_back(profile(c, voxel));
      size += std::norm(s.back());
    }
    for (cdouble& v : s) v /= std::sqrt(size);
    return s;
  }
  bool inside(std::int64_t voxel) const {
    const auto [x, y, z] = position(voxel);
    return x * x / 0.64 + y * y / 0.49 + z * z / 0.49 <= 1;
  }
  cdouble object(std::int64_t voxel) const {
    if (!inside(voxel)) return 0;
    const auto [x, y, z] = position(voxel);
    return std::polar(std::hypot(x - 0.2, y) < 0.3 ? 0.4 : 1.0, 1.5 * x - y * y);
  }
  /// [coil, z, y, x]
  std::vector<cfloat> images(double noise = 0) const {
    Random random(11);
    std::vector<cfloat> out;
    for (std::int64_t c = 0; c < coils; ++c)
      for (std::int64_t v = 0; v < n.size(); ++v)
        out.push_back(cfloat(profile(c, v) * object(v)) + static_cast<float>(noise) * random.normal());
    return out;
  }
  Shape shape() const { return {coils, n[0], n[1], n[2]}; }
};

/// |sum_c conj(a_c) b_c|: 1 for the same pattern, whatever its phase.
double agreement(const std::vector<cdouble>& pattern, const std::vector<cfloat>& maps, std::int64_t voxels,
                 std::int64_t voxel) {
  cdouble sum = 0;
  for (std::size_t c = 0; c < pattern.size(); ++c)
    sum +=
        std::conj(pattern[c]) * cdouble(maps[c * static_cast<std::size_t>(voxels) + static_cast<std::size_t>(voxel)]);
  return std::abs(sum);
}

double size_of(const std::vector<cfloat>& maps, std::int64_t coils, std::int64_t voxels, std::int64_t voxel) {
  double sum = 0;
  for (std::int64_t c = 0; c < coils; ++c)
    sum += std::norm(cdouble(maps[static_cast<std::size_t>(c * voxels + voxel)]));
  return sum;
}

template <class B>
class CoilMapsTest : public testing::OnBackend<B> {
 protected:
  std::vector<cfloat> adaptive(const std::vector<cfloat>& images, const Shape& shape, int block, float threshold = 0) {
    auto from = this->upload(images, shape);
    auto maps = this->context().template allocate<cfloat>(shape);
    adaptive_maps(this->context(), from.cview(), block, maps.view(), threshold);
    return this->download(maps);
  }
};
TYPED_TEST_SUITE(CoilMapsTest, Backends, testing::BackendNames);

TYPED_TEST(CoilMapsTest, AdaptiveFindsTheCoils) {
  for (const Scene& scene :
       {Scene{8, {1, 64, 64}}, Scene{5, {1, 57, 75}}, Scene{4, {23, 31, 38}}, Scene{8, {1, 193, 201}}}) {
    // At the centre a coil has about half the object's 1 and a darker part 0.2: noise of 5 % to 15 % of that.
    const std::vector<cfloat> images = scene.images(0.02);
    const auto maps = this->adaptive(images, scene.shape(), 5);
    const std::int64_t voxels = scene.n.size();
    double step = 0;
    for (std::int64_t v = 0; v < voxels; ++v) {
      ASSERT_NEAR(size_of(maps, scene.coils, voxels, v), 1, 1e-5);
      if (!scene.inside(v)) continue;
      ASSERT_GT(agreement(scene.pattern(v), maps, voxels, v), 0.99) << scene.n.text() << " voxel " << v;
      if (v % scene.n[2] == 0 || !scene.inside(v - 1)) continue;
      double square = 0;
      for (std::int64_t c = 0; c < scene.coils; ++c) {
        const auto at = static_cast<std::size_t>(c * voxels + v);
        square += static_cast<double>(std::norm(maps[at] - maps[at - 1]));
      }
      step = std::max(step, std::sqrt(square));
    }
    // With the virtual coil phases do not jump: patterns change by a few radians over half the image, and by noise.
    EXPECT_LT(step, 0.25 + 6.0 / static_cast<double>(scene.n[2])) << scene.n.text();
  }
}

TYPED_TEST(CoilMapsTest, AdaptiveIsTheLocalCovariancesEigenvector) {
  // Noise on all voxels; the covariance by its definition and 300 power iterations in float64.
  for (const Scene& scene : {Scene{3, {1, 19, 37}}, Scene{4, {9, 13, 17}}, Scene{1, {1, 9, 8}}, Scene{2, {3, 1, 40}}})
    for (const int block : {1, 2, 3, 6}) {
      const auto images = scene.images(0.05);
      const auto maps = this->adaptive(images, scene.shape(), block);
      const std::int64_t voxels = scene.n.size(), before = block / 2, after = (block - 1) / 2;
      const auto coils = static_cast<std::size_t>(scene.coils);
      int compared = 0;
      for (std::int64_t v = 0; v < voxels; ++v) {
        const std::int64_t x = v % scene.n[2], y = v / scene.n[2] % scene.n[1], z = v / scene.n[2] / scene.n[1];
        std::vector<cdouble> r(coils * coils);
        for (std::int64_t w = std::max<std::int64_t>(0, z - before); w <= std::min(scene.n[0] - 1, z + after); ++w)
          for (std::int64_t u = std::max<std::int64_t>(0, y - before); u <= std::min(scene.n[1] - 1, y + after); ++u)
            for (std::int64_t t = std::max<std::int64_t>(0, x - before); t <= std::min(scene.n[2] - 1, x + after); ++t)
              for (std::size_t a = 0; a < coils; ++a)
                for (std::size_t b = 0; b < coils; ++b) {
                  const auto at = static_cast<std::size_t>((w * scene.n[1] + u) * scene.n[2] + t);
                  const auto m = static_cast<std::size_t>(voxels);
                  r[a * coils + b] += cdouble(images[a * m + at]) * std::conj(cdouble(images[b * m + at]));
                }
        std::vector<cdouble> s(coils, 1.0), next(coils);
        double value = 0, trace = 0;
        for (std::size_t a = 0; a < coils; ++a) trace += r[a * coils + a].real();
        for (int i = 0; i < 300; ++i) {
          value = 0;
          for (std::size_t a = 0; a < coils; ++a) {
            next[a] = 0;
            for (std::size_t b = 0; b < coils; ++b) next[a] += r[a * coils + b] * s[b];
            value += std::norm(next[a]);
          }
          value = std::sqrt(value);
          for (std::size_t a = 0; a < coils; ++a) s[a] = next[a] / value;
        }
        // Eight steps are enough where the others have a fifth of the energy or less: 0.25^8 = 1.5e-5 is left of them.
        if (value < 0.8 * trace) continue;
        ++compared;
        ASSERT_GT(agreement(s, maps, voxels, v), 1 - 1e-5) << scene.n.text() << ", block " << block << ", voxel " << v;
      }
      EXPECT_GT(compared, voxels / 4);
    }
}

TYPED_TEST(CoilMapsTest, AdaptivePhaseIsThatOfTheFirstPrincipalComponent) {
  const Scene scene{6, {1, 40, 33}};
  const auto images = scene.images(0.01);
  const auto maps = this->adaptive(images, scene.shape(), 3);
  const std::int64_t voxels = scene.n.size();
  std::vector<cdouble> u(6, 1.0), next(6);
  for (int i = 0; i < 500; ++i) {
    std::fill(next.begin(), next.end(), 0.0);
    double size = 0;
    for (std::int64_t v = 0; v < voxels; ++v) {
      cdouble sum = 0;
      for (std::int64_t c = 0; c < 6; ++c)
        sum += std::conj(cdouble(images[static_cast<std::size_t>(c * voxels + v)])) * u[static_cast<std::size_t>(c)];
      for (std::int64_t c = 0; c < 6; ++c)
        next[static_cast<std::size_t>(c)] += cdouble(images[static_cast<std::size_t>(c * voxels + v)]) * sum;
    }
    for (const cdouble& v : next) size += std::norm(v);
    for (std::size_t c = 0; c < 6; ++c) u[c] = next[c] / std::sqrt(size);
  }
  // sum_c conj(u_c) S_c has one phase, that of u against the virtual coil's, in all voxels.
  cdouble first = 0;
  for (std::int64_t v = 0; v < voxels; ++v) {
    if (!scene.inside(v)) continue;
    cdouble sum = 0;
    for (std::int64_t c = 0; c < 6; ++c)
      sum += std::conj(u[static_cast<std::size_t>(c)]) * cdouble(maps[static_cast<std::size_t>(c * voxels + v)]);
    if (first == 0.0) first = sum / std::abs(sum);
    ASSERT_NEAR(std::abs(std::arg(sum * std::conj(first))), 0, 1e-3) << v;
  }
}

TYPED_TEST(CoilMapsTest, CombinedNoiseFreeImagesAreTheObject) {
  for (const Scene& scene : {Scene{8, {1, 65, 64}}, Scene{4, {22, 24, 27}}}) {
    const auto images = scene.images();
    const std::int64_t voxels = scene.n.size();
    auto there = this->upload(images, scene.shape());
    auto maps = this->context().template allocate<cfloat>(scene.shape());
    auto out = this->context().template allocate<cfloat>({1, scene.n[0], scene.n[1], scene.n[2]});
    adaptive_maps(this->context(), there.cview(), 3, maps.view());
    combine(this->context(), maps.cview(), there.cview(), out.view());
    const auto combined = this->download(out);
    for (std::int64_t v = 0; v < voxels; ++v) {
      double power = 0;
      for (std::int64_t c = 0; c < scene.coils; ++c) power += std::norm(scene.profile(c, v) * scene.object(v));
      // A map is the mean over a block in which patterns change by 0.1 (0.3 in 3D): the cosine of a part of that.
      ASSERT_NEAR(std::abs(combined[static_cast<std::size_t>(v)]), std::sqrt(power), 5e-3)
          << scene.n.text() << ' ' << v;
    }
  }
}

TYPED_TEST(CoilMapsTest, CombineByDefinition) {
  const std::int64_t voxels = 3 * 37 * 41;
  for (const std::int64_t coils : {1, 3, 16}) {
    auto s = Random(1).normals(coils * voxels);
    const auto i = Random(2).normals(coils * voxels);
    for (std::int64_t c = 0; c < coils; ++c) s[static_cast<std::size_t>(c * voxels + 5)] = 0;
    std::vector<cdouble> right, undivided;
    for (std::int64_t v = 0; v < voxels; ++v) {
      cdouble sum = 0;
      double size = 0;
      for (std::int64_t c = 0; c < coils; ++c) {
        const auto at = static_cast<std::size_t>(c * voxels + v);
        sum += std::conj(cdouble(s[at])) * cdouble(i[at]);
        size += std::norm(cdouble(s[at]));
      }
      right.push_back(size > 0 ? sum / size : 0.0);
      undivided.push_back(sum);
    }
    auto maps = this->upload(s, {coils, 3, 37, 41}), images = this->upload(i, {coils, 3, 37, 41});
    auto out = this->context().template allocate<cfloat>({1, 3, 37, 41});
    combine(this->context(), maps.cview(), images.cview(), out.view());
    EXPECT_LT(testing::relative_error(this->download(out), right, right.size()), 2e-6);
    EXPECT_EQ(this->download(out)[5], cfloat(0));
    combine(this->context(), maps.cview(), images.cview(), out.view(), false);
    EXPECT_LT(testing::relative_error(this->download(out), undivided, undivided.size()), 2e-6);
  }
}

TYPED_TEST(CoilMapsTest, AdaptiveDoesNotDependOnScale) {
  const Scene scene{4, {1, 33, 40}};
  const auto images = scene.images(0.02);
  const auto maps = this->adaptive(images, scene.shape(), 5, 0.05f);
  for (const int power : {-100, 100}) {
    std::vector<cfloat> scaled;
    for (const cfloat v : images) scaled.push_back(v * std::ldexp(1.0f, power));
    EXPECT_EQ(this->adaptive(scaled, scene.shape(), 5, 0.05f), maps) << power;
  }
}

TYPED_TEST(CoilMapsTest, AdaptiveThreshold) {
  const Scene scene{4, {1, 48, 45}};
  const auto maps = this->adaptive(scene.images(0.005), scene.shape(), 3, 0.05f);
  const std::int64_t voxels = scene.n.size();
  int outside = 0;
  for (std::int64_t v = 0; v < voxels; ++v) {
    const auto [x, y, z] = scene.position(v);
    const double radius = std::hypot(x / 0.8, y / 0.7), size = size_of(maps, 4, voxels, v);
    if (radius <= 1) {
      ASSERT_NEAR(size, 1, 1e-5) << v;
    }
    if (radius > 1.15) {
      ASSERT_EQ(size, 0) << v;
      ++outside;
    }
  }
  EXPECT_GT(outside, 100);
}

TYPED_TEST(CoilMapsTest, AdaptiveThresholdIsOfTheMeanPower) {
  // In a corner the block is cut to an eighth; the threshold is for the power per voxel.
  const Shape shape{2, 6, 9, 10};
  const std::vector<cfloat> images(static_cast<std::size_t>(shape.size()), cfloat(3, 1));
  const auto maps = this->adaptive(images, shape, 5, 0.9f);
  for (std::int64_t v = 0; v < 540; ++v) ASSERT_NEAR(size_of(maps, 2, 540, v), 1, 1e-5) << v;
}

TYPED_TEST(CoilMapsTest, AdaptiveOfBadValuesAndOfNothing) {
  const Scene scene{3, {1, 20, 20}};
  auto images = scene.images(0.01);
  const auto good = this->adaptive(images, scene.shape(), 3);
  auto zeroed = images;
  zeroed[10 * 20 + 10] = zeroed[400 + 3 * 20 + 10] = 0;
  auto hole = images;
  for (const std::size_t coil : {0u, 1u, 2u}) hole[coil * 400 + 210] = 0;
  images[10 * 20 + 10] = {std::numeric_limits<float>::quiet_NaN(), 1};
  images[400 + 3 * 20 + 10] = {1, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(this->adaptive(images, scene.shape(), 3), this->adaptive(zeroed, scene.shape(), 3));
  // A voxel without signal gets the pattern of its neighbours.
  EXPECT_GT(agreement(scene.pattern(210), this->adaptive(hole, scene.shape(), 3), 400, 210), 0.99);
  for (const cfloat v : this->adaptive(std::vector<cfloat>(1200), scene.shape(), 3)) ASSERT_EQ(v, cfloat(0));
}

/// The k-space of a scene in float64: d[c, k] = sum_r I_c(r) exp(-2 pi i k.r / n) for `extents` about the centre.
std::vector<cfloat> kspace_of(const Scene& scene, const Shape& extents) {
  std::vector<cfloat> out;
  for (std::int64_t c = 0; c < scene.coils; ++c) {
    std::vector<cdouble> data;
    for (std::int64_t v = 0; v < scene.n.size(); ++v) data.push_back(scene.profile(c, v) * scene.object(v));
    // Axis by axis, x first: [rest, n] -> [m, rest], so that three turns restore the order.
    for (const std::size_t a : {2u, 1u, 0u}) {
      const std::int64_t n = scene.n[a], m = extents[a], rest = static_cast<std::int64_t>(data.size()) / n;
      std::vector<cdouble> next(static_cast<std::size_t>(m * rest));
      for (std::int64_t k = 0; k < m; ++k)
        for (std::int64_t i = 0; i < n; ++i) {
          const cdouble e =
              std::polar(1.0, -2 * kPi * static_cast<double>((k - m / 2) * (i - n / 2)) / static_cast<double>(n));
          for (std::int64_t j = 0; j < rest; ++j)
            next[static_cast<std::size_t>(k * rest + j)] += e * data[static_cast<std::size_t>(j * n + i)];
        }
      data = std::move(next);
    }
    for (const cdouble v : data) out.push_back(cfloat(v));
  }
  return out;
}

TYPED_TEST(CoilMapsTest, EspiritFindsTheCoils) {
  struct Case {
    Scene scene;
    Shape kspace;
    EspiritOptions options;
  };
  for (const Case& c : {Case{{8, {1, 64, 64}}, {1, 30, 27}, {}}, Case{{5, {1, 57, 75}}, {1, 57, 75}, {.kernel = 5}},
                        Case{{8, {1, 193, 201}}, {1, 24, 24}, {}}, Case{{4, {15, 20, 19}}, {12, 14, 13}, {}}}) {
    const Scene& scene = c.scene;
    const std::int64_t voxels = scene.n.size();
    auto kspace = kspace_of(scene, c.kspace);
    // 0.1 % of the largest value: the edges of the region are near the noise.
    float most = 0;
    for (const cfloat v : kspace) most = std::max(most, std::abs(v));
    Random random(4);
    for (cfloat& v : kspace) v += 1e-4f * most * random.normal();
    auto there = this->upload(kspace, {scene.coils, c.kspace[0], c.kspace[1], c.kspace[2]});
    auto maps = this->context().template allocate<cfloat>(scene.shape());
    espirit_maps(this->context(), there.cview(), c.options, maps.view());
    const auto got = this->download(maps);
    int cropped = 0;
    for (std::int64_t v = 0; v < voxels; ++v) {
      const double size = size_of(got, scene.coils, voxels, v);
      if (scene.inside(v)) {
        ASSERT_NEAR(size, 1, 1e-5) << scene.n.text() << " voxel " << v;
        ASSERT_GT(agreement(scene.pattern(v), got, voxels, v), 0.99) << scene.n.text() << " voxel " << v;
      } else {
        ASSERT_TRUE(size == 0 || std::abs(size - 1) < 1e-5);
        cropped += size == 0 ? 1 : 0;
      }
    }
    EXPECT_GT(cropped, 0) << scene.n.text();
  }
}

// An object larger than the field of view: its upper and lower ends lie on each other, seen by the coils in two ways.
TYPED_TEST(CoilMapsTest, EspiritFindsBothPlacesThatFold) {
  const std::int64_t coils = 8, n = 64, folded = 34, voxels = folded * n;
  const Scene scene{coils, {1, n, n}};
  // Rows that are `folded` apart in the whole image are one row of the smaller field of view.
  const auto images = scene.images();
  std::vector<cfloat> small(static_cast<std::size_t>(coils * voxels));
  std::vector<std::vector<std::int64_t>> places(static_cast<std::size_t>(voxels));
  for (std::int64_t y = 0; y < n; ++y) {
    const std::int64_t to = (y - n / 2 + folded / 2 + folded) % folded;
    for (std::int64_t x = 0; x < n; ++x) {
      if (scene.inside(y * n + x)) places[static_cast<std::size_t>(to * n + x)].push_back(y * n + x);
      for (std::int64_t c = 0; c < coils; ++c)
        small[static_cast<std::size_t>(c * voxels + to * n + x)] +=
            images[static_cast<std::size_t>((c * n + y) * n + x)];
    }
  }
  auto there = this->upload(small, {coils, 1, folded, n});
  auto kspace = this->context().template allocate<cfloat>({coils, 1, 24, 24});
  centered_fft(this->context(), there.cview().reshaped({coils, folded, n}), kspace.view().reshaped({coils, 24, 24}),
               {folded, n}, 2, Direction::forward, 1);
  auto maps = this->context().template allocate<cfloat>({2 * coils, 1, folded, n});
  espirit_maps(this->context(), kspace.cview(), {.sets = 2}, maps.view());
  const auto got = this->download(maps);
  const std::vector<cfloat> second(got.begin() + coils * voxels, got.end());
  int both = 0, one = 0, empty_second = 0;
  for (std::int64_t v = 0; v < voxels; ++v) {
    const auto& of = places[static_cast<std::size_t>(v)];
    cdouble product = 0;
    for (std::int64_t c = 0; c < coils; ++c)
      product += std::conj(cdouble(got[static_cast<std::size_t>(c * voxels + v)])) *
                 cdouble(second[static_cast<std::size_t>(c * voxels + v)]);
    ASSERT_LT(std::abs(product), 0.02) << v;  // 40 iterations leave 1e-3 where the eigenvalues are near each other
    for (const std::int64_t place : of) {
      const auto pattern = scene.pattern(place);
      const double in_span = std::hypot(agreement(pattern, got, voxels, v), agreement(pattern, second, voxels, v));
      // The region's sharp end blurs the edges of the overlap: a part of them counts as no signal of the second kind.
      both += of.size() == 2 && in_span > 0.98 ? 1 : 0;
      one += of.size() == 1 && in_span > 0.98 ? 1 : 0;
    }
    empty_second += of.size() == 1 && size_of(second, coils, voxels, v) == 0 ? 1 : 0;
  }
  std::int64_t all_both = 0, all_one = 0;
  for (const auto& of : places) {
    all_both += of.size() == 2 ? 2 : 0;
    all_one += of.size() == 1 ? 1 : 0;
  }
  ASSERT_GT(all_both, 200);
  EXPECT_GT(both, 0.85 * static_cast<double>(all_both));
  EXPECT_GT(one, 0.98 * static_cast<double>(all_one));
  EXPECT_GT(empty_second, 0.7 * static_cast<double>(all_one));
}

TYPED_TEST(CoilMapsTest, EspiritOfNothing) {
  auto kspace = this->context().template zeros<cfloat>({3, 1, 16, 16});
  auto maps = this->context().template allocate<cfloat>({3, 1, 20, 20});
  espirit_maps(this->context(), kspace.cview(), {}, maps.view());
  for (const cfloat v : this->download(maps)) ASSERT_EQ(v, cfloat(0));
}

TYPED_TEST(CoilMapsTest, BadArguments) {
  Context& context = this->context();
  auto images = context.template zeros<cfloat>({2, 1, 12, 12}), other = context.template zeros<cfloat>({2, 1, 12, 10}),
       volume = context.template zeros<cfloat>({2, 5, 12, 12}), more = context.template zeros<cfloat>({3, 1, 12, 12}),
       one = context.template zeros<cfloat>({1, 1, 12, 12});
  EXPECT_THROW(adaptive_maps(context, images.cview(), 5, other.view()), std::invalid_argument);
  EXPECT_THROW(adaptive_maps(context, images.cview(), 0, images.view()), std::invalid_argument);
  EXPECT_THROW(adaptive_maps(context, images.cview(), 32, images.view()), std::invalid_argument);
  EXPECT_THROW(adaptive_maps(context, images.cview(), 5, images.view(), 1.5f), std::invalid_argument);
  EXPECT_THROW(adaptive_maps(context, images.cview(), 5, images.view(), NAN), std::invalid_argument);
  EXPECT_THROW(adaptive_maps(context, images.cview().reshaped({2, 12, 12}), 5, images.view().reshaped({2, 12, 12})),
               std::invalid_argument);
  EXPECT_THROW(combine(context, images.cview(), other.cview(), one.view()), std::invalid_argument);
  EXPECT_THROW(combine(context, images.cview(), images.cview(), images.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {}, more.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {}, volume.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {.sets = 2}, images.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {.sets = 0}, images.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {.kernel = 13}, images.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {.kernel = 1}, images.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {.calibration = 4}, images.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {.threshold = 1}, images.view()), std::invalid_argument);
  EXPECT_THROW(espirit_maps(context, images.cview(), {.crop = 1.5}, images.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
