// Gradients and edge weights against 3x3 and 3x3x3 kernels written out, in float64.
#include "gadgets/numerics/mri/images/sobel.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

// Along x, to be turned for other axes: [dz][dy][dx] of dx = -1, 0, 1.
constexpr double kFlat[3][3] = {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}};  // / 8
constexpr double kSolid[3][3][3] = {{{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}},
                                    {{-2, 0, 2}, {-4, 0, 4}, {-2, 0, 2}},
                                    {{-1, 0, 1}, {-2, 0, 2}, {-1, 0, 1}}};  // / 32

struct Picture {
  Shape n;
  std::vector<float> values;

  double at(std::int64_t z, std::int64_t y, std::int64_t x) const {
    z = std::clamp<std::int64_t>(z, 0, n[0] - 1);
    y = std::clamp<std::int64_t>(y, 0, n[1] - 1);
    x = std::clamp<std::int64_t>(x, 0, n[2] - 1);
    return static_cast<double>(values[static_cast<std::size_t>((z * n[1] + y) * n[2] + x)]);
  }
  std::int64_t axes() const { return n[0] == 1 ? 2 : 3; }
  Shape per_axis() const { return {axes(), n[0], n[1], n[2]}; }

  double gradient(std::int64_t axis, std::int64_t z, std::int64_t y, std::int64_t x) const {
    double sum = 0;
    for (int a = -1; a <= 1; ++a)    // the slower axis across
      for (int b = -1; b <= 1; ++b)  // the other one across
        for (int d = -1; d <= 1; ++d) {
          if (axes() == 2) {
            if (a != 0) continue;
            sum += kFlat[b + 1][d + 1] / 8 * (axis == 0 ? at(z, y + b, x + d) : at(z, y + d, x + b));
          } else {
            const double k = kSolid[a + 1][b + 1][d + 1] / 32;
            sum += k * (axis == 0   ? at(z + a, y + b, x + d)
                        : axis == 1 ? at(z + a, y + d, x + b)
                                    : at(z + d, y + a, x + b));
          }
        }
    return sum;
  }
  /// Across an edge: [1 2 1] / 4 along each other axis.
  double difference(std::int64_t axis, std::int64_t z, std::int64_t y, std::int64_t x) const {
    constexpr double kSmooth[3] = {0.25, 0.5, 0.25};
    double sum = 0;
    for (int a = -1; a <= 1; ++a)
      for (int b = -1; b <= 1; ++b) {
        if (axes() == 2) {
          if (a != 0) continue;
          sum += kSmooth[b + 1] *
                 (axis == 0 ? at(z, y + b, x + 1) - at(z, y + b, x) : at(z, y + 1, x + b) - at(z, y, x + b));
        } else {
          sum += kSmooth[a + 1] * kSmooth[b + 1] *
                 (axis == 0   ? at(z + a, y + b, x + 1) - at(z + a, y + b, x)
                  : axis == 1 ? at(z + a, y + 1, x + b) - at(z + a, y, x + b)
                              : at(z + 1, y + a, x + b) - at(z, y + a, x + b));
        }
      }
    return sum;
  }
  bool is_edge(std::int64_t axis, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return axis == 0 ? x + 1 < n[2] : axis == 1 ? y + 1 < n[1] : z + 1 < n[0];
  }
  template <class F>
  void each_voxel(const F& f) const {
    for (std::int64_t z = 0, v = 0; z < n[0]; ++z)
      for (std::int64_t y = 0; y < n[1]; ++y)
        for (std::int64_t x = 0; x < n[2]; ++x) f(z, y, x, static_cast<std::size_t>(v++));
  }
};

Picture random_picture(const Shape& n, unsigned seed) {
  Random random(seed);
  Picture picture{n, {}};
  for (std::int64_t i = 0; i < n.size(); ++i) picture.values.push_back(static_cast<float>(random.uniform(0, 10)));
  return picture;
}

template <class B>
class SobelTest : public testing::OnBackend<B> {
 protected:
  std::vector<float> weights_of(const Picture& picture, const EdgeOptions& options = {}) {
    auto image = this->upload(picture.values, picture.n);
    auto weights = this->context().template allocate<float>(picture.per_axis());
    edge_weights(this->context(), image.cview(), options, weights.view());
    return this->download(weights);
  }
};
TYPED_TEST_SUITE(SobelTest, Backends, testing::BackendNames);

const std::vector<Shape> kShapes{{1, 16, 16}, {1, 17, 33}, {7, 9, 11},    {2, 8, 40},  {1, 1, 9},
                                 {5, 1, 1},   {1, 1, 1},   {1, 193, 201}, {65, 67, 64}};

TYPED_TEST(SobelTest, GradientByTheWrittenOutKernels) {
  for (const Shape& n : kShapes) {
    const Picture picture = random_picture(n, 1);
    auto image = this->upload(picture.values, n);
    auto magnitude = this->context().template allocate<float>(n);
    auto components = this->context().template allocate<float>(picture.per_axis());
    sobel(this->context(), image.cview(), magnitude.view(), components.view());
    const auto size = this->download(magnitude), parts = this->download(components);
    picture.each_voxel([&](auto z, auto y, auto x, std::size_t v) {
      double square = 0;
      for (std::int64_t a = 0; a < picture.axes(); ++a) {
        const double right = picture.gradient(a, z, y, x);
        square += right * right;
        // Sums of up to 18 products of values up to 10, rounded to 1e-7 each.
        ASSERT_NEAR(parts[static_cast<std::size_t>(a * n.size()) + v], right, 1e-5) << n.text() << " axis " << a;
      }
      ASSERT_NEAR(size[v], std::sqrt(square), 2e-5) << n.text();
    });
    // Without components: the same bits.
    auto alone = this->context().template allocate<float>(n);
    sobel(this->context(), image.cview(), alone.view());
    EXPECT_EQ(this->download(alone), size);
  }
}

TYPED_TEST(SobelTest, RampAndStep) {
  Picture ramp{{9, 10, 11}, {}}, step{{1, 12, 15}, {}};
  ramp.each_voxel(
      [&](auto z, auto y, auto x, std::size_t) { ramp.values.push_back(static_cast<float>(2 * x - 3 * y + 6 * z)); });
  step.each_voxel([&](auto, auto, auto x, std::size_t) { step.values.push_back(x < 7 ? 1.0f : 5.0f); });
  auto image = this->upload(ramp.values, ramp.n), edge = this->upload(step.values, step.n);
  auto solid = this->context().template allocate<float>(ramp.n),
       flat = this->context().template allocate<float>(step.n);
  sobel(this->context(), image.cview(), solid.view());
  sobel(this->context(), edge.cview(), flat.view());
  const auto slope = this->download(solid), jump = this->download(flat);
  ramp.each_voxel([&](auto z, auto y, auto x, std::size_t v) {
    if (z > 0 && z < 8 && y > 0 && y < 9 && x > 0 && x < 10) {
      ASSERT_NEAR(slope[v], 7, 1e-5);  // sqrt(4 + 9 + 36)
    }
  });
  step.each_voxel([&](auto, auto, auto x, std::size_t v) { ASSERT_EQ(jump[v], x == 6 || x == 7 ? 2.0f : 0.0f); });
}

TYPED_TEST(SobelTest, ComplexImagesCountByTheirMagnitude) {
  const auto values = Random(3).normals(9 * 13 * 15);
  Picture picture{{9, 13, 15}, {}};
  for (const cfloat v : values) picture.values.push_back(static_cast<float>(std::abs(cdouble(v))));
  auto image = this->upload(values, picture.n);
  auto magnitude = this->context().template allocate<float>(picture.n);
  sobel(this->context(), image.cview(), magnitude.view());
  const auto got = this->download(magnitude);
  picture.each_voxel([&](auto z, auto y, auto x, std::size_t v) {
    const double right =
        std::hypot(picture.gradient(0, z, y, x), picture.gradient(1, z, y, x), picture.gradient(2, z, y, x));
    ASSERT_NEAR(got[v], right, 1e-5);
  });
}

TYPED_TEST(SobelTest, WeightsByDefinition) {
  for (const Shape& n : kShapes)
    for (const EdgeOptions& options : {EdgeOptions{}, EdgeOptions{1, 0.9}, EdgeOptions{2, 0}, EdgeOptions{0.5, 1}}) {
      const Picture picture = random_picture(n, 2);
      std::vector<double> sizes;
      for (std::int64_t a = 0; a < picture.axes(); ++a)
        picture.each_voxel([&](auto z, auto y, auto x, std::size_t) {
          if (picture.is_edge(a, z, y, x)) sizes.push_back(std::abs(picture.difference(a, z, y, x)));
        });
      std::sort(sizes.begin(), sizes.end());
      double sigma = 1;
      if (!sizes.empty())
        sigma = std::max(options.strength *
                             sizes[static_cast<std::size_t>(options.quantile * static_cast<double>(sizes.size() - 1))],
                         1e-3 * sizes.back());
      const auto weights = this->weights_of(picture, options);
      for (std::int64_t a = 0; a < picture.axes(); ++a)
        picture.each_voxel([&](auto z, auto y, auto x, std::size_t v) {
          const float w = weights[static_cast<std::size_t>(a * n.size()) + v];
          if (!picture.is_edge(a, z, y, x)) {
            ASSERT_EQ(w, 0);
            return;
          }
          const double ratio = picture.difference(a, z, y, x) / sigma;
          // Differences are rounded to 1e-6 and may be divided by as little as 1e-2 here (quantile 0).
          ASSERT_NEAR(w, 1 / (1 + ratio * ratio), options.quantile == 0 ? 1e-3 : 1e-5) << n.text() << " axis " << a;
          ASSERT_GT(w, 0);
          ASSERT_LE(w, 1);
        });
    }
}

TYPED_TEST(SobelTest, WeightsFallAtAStepOnly) {
  // A step of 10 along x between columns 6 and 7, noise of deviation 0.1 elsewhere.
  Random random(5);
  Picture picture{{1, 40, 31}, {}};
  picture.each_voxel([&](auto, auto, auto x, std::size_t) {
    picture.values.push_back((x < 7 ? 1.0f : 11.0f) + 0.1f * random.normal().real());
  });
  const auto weights = this->weights_of(picture);
  picture.each_voxel([&](auto, auto y, auto x, std::size_t v) {
    if (x == 6) {
      EXPECT_LT(weights[v], 0.001f);
    } else if (x + 1 < 31) {
      EXPECT_GT(weights[v], 0.3f);  // five deviations of the smoothed difference against sigma of 2.7
    }
    if (y + 1 < 40) {
      EXPECT_GT(weights[40 * 31 + v], 0.3f);
    }
  });
}

TYPED_TEST(SobelTest, WeightsDoNotDependOnScale) {
  Picture picture = random_picture({6, 19, 21}, 7);
  const auto weights = this->weights_of(picture);
  for (const int power : {-60, 60}) {
    Picture scaled = picture;
    for (float& v : scaled.values) v = std::ldexp(v, power);
    EXPECT_EQ(this->weights_of(scaled), weights);
  }
  for (float& v : picture.values) v *= 1e-7f;
  const auto got = this->weights_of(picture);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], weights[i], 1e-5);
}

TYPED_TEST(SobelTest, FlatImagesHaveWeightsOfOne) {
  for (const Shape& n : kShapes)
    for (const float value : {0.0f, 3.3f, -1e30f}) {
      const Picture picture{n, std::vector<float>(static_cast<std::size_t>(n.size()), value)};
      const auto weights = this->weights_of(picture);
      for (std::int64_t a = 0; a < picture.axes(); ++a)
        picture.each_voxel([&](auto z, auto y, auto x, std::size_t v) {
          ASSERT_EQ(weights[static_cast<std::size_t>(a * n.size()) + v], picture.is_edge(a, z, y, x) ? 1.0f : 0.0f);
        });
    }
}

TYPED_TEST(SobelTest, NoiseFreeEdgesAreCut) {
  // More than half of all differences are 0, and so is their median: the largest one sets the scale.
  Picture picture{{1, 32, 32}, {}};
  picture.each_voxel([&](auto, auto, auto x, std::size_t) { picture.values.push_back(x < 16 ? 0.0f : 2.0f); });
  const auto weights = this->weights_of(picture);
  picture.each_voxel([&](auto, auto y, auto x, std::size_t v) {
    if (x + 1 < 32) {
      ASSERT_NEAR(weights[v], x == 15 ? 1e-6 : 1.0, 1e-8);
    }
    if (y + 1 < 32) {
      ASSERT_EQ(weights[1024 + v], 1.0f);
    }
  });
}

TYPED_TEST(SobelTest, WhatIsNotFiniteHasNoEdges) {
  Picture picture = random_picture({1, 20, 20}, 9);
  picture.values[210] = std::numeric_limits<float>::quiet_NaN();
  picture.values[5] = std::numeric_limits<float>::infinity();
  const auto weights = this->weights_of(picture);
  EXPECT_EQ(weights[210], 1.0f);
  EXPECT_EQ(weights[5], 1.0f);
  picture.each_voxel([&](auto, auto, auto x, std::size_t v) {
    if (x + 1 < 20) {
      ASSERT_GT(weights[v], 0) << v;
      ASSERT_LE(weights[v], 1) << v;
    }
  });
}

TYPED_TEST(SobelTest, BadArguments) {
  Context& context = this->context();
  auto image = context.template zeros<float>({1, 8, 9}), other = context.template zeros<float>({1, 9, 8});
  auto two = context.template zeros<float>({2, 1, 8, 9}), three = context.template zeros<float>({3, 1, 8, 9});
  EXPECT_THROW(sobel(context, image.cview(), other.view()), std::invalid_argument);
  EXPECT_THROW(sobel(context, image.cview(), image.view(), three.view()), std::invalid_argument);
  EXPECT_THROW(sobel(context, image.cview().reshaped({8, 9}), image.view().reshaped({8, 9})), std::invalid_argument);
  auto channels = context.template zeros<cfloat>({3, 2, 8, 9}), plane = context.template zeros<cfloat>({1, 1, 8, 9});
  const std::array<float, 3> factors{1, 1, 1};
  const auto of_volume = context.template zeros<float>({3, 2, 8, 9});
  EXPECT_NO_THROW(gradient_image(context, of_volume.view(), factors, GradientPart::direction, channels.view()));
  EXPECT_THROW(gradient_image(context, of_volume.view(), factors, GradientPart::both, channels.view()),
               std::invalid_argument);
  EXPECT_THROW(gradient_image(context, two.cview(), factors, GradientPart::both, channels.view()),
               std::invalid_argument);
  EXPECT_THROW(gradient_image(context, image.cview().reshaped({1, 1, 8, 9}), factors, GradientPart::both, plane.view()),
               std::invalid_argument);
  EXPECT_THROW(edge_weights(context, image.cview(), {}, three.view()), std::invalid_argument);
  EXPECT_THROW(edge_weights(context, other.cview(), {}, two.view()), std::invalid_argument);
  EXPECT_THROW(edge_weights(context, image.cview(), {0, 0.5}, two.view()), std::invalid_argument);
  EXPECT_THROW(edge_weights(context, image.cview(), {NAN, 0.5}, two.view()), std::invalid_argument);
  EXPECT_THROW(edge_weights(context, image.cview(), {1, 1.1}, two.view()), std::invalid_argument);
  EXPECT_THROW(edge_weights(context, image.cview(), {1, -0.1}, two.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
