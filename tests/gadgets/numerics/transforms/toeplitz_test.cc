// The Toeplitz operator against F^H W F by its definition, in float64.
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/resources.h"
#include "tests/support/thread_digests.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

/// Asked for: 1e-5. Transforms in fp32 leave some 1e-7 for each of a few stages, q about 1e-6 at most.
constexpr double kTolerance = 2e-6;

Shape doubled(const Shape& image) {
  Shape shape;
  for (const auto e : image) shape.push_back(2 * e);
  return shape;
}
Shape with_batch(std::int64_t batch, const Shape& image) {
  Shape shape{batch};
  for (const auto e : image) shape.push_back(e);
  return shape;
}

struct Sampling {
  std::vector<double> k;
  std::vector<float> w;
};
Sampling make_sampling(std::size_t dims, std::size_t n, unsigned seed) {
  Random random(seed);
  Sampling s;
  for (std::size_t i = 0; i < n * dims; ++i) s.k.push_back(random.uniform(-0.5, 0.5));
  for (std::size_t i = 0; i < n; ++i) s.w.push_back(static_cast<float>(random.uniform(0, 2)));
  return s;
}
std::vector<cdouble> explicit_product(const Sampling& s, const std::vector<cfloat>& x, std::int64_t batch,
                                      const Shape& image) {
  const auto forward = testing::direct_forward(s.k, x, batch, image);
  return testing::direct_adjoint(s.k, {forward.begin(), forward.end()}, s.w, batch, image);
}

template <class B>
class ToeplitzTest : public testing::OnBackend<B> {
 protected:
  Array<cfloat> spread(const Sampling& s, const Shape& image) {
    auto q = this->context().template allocate<cfloat>(doubled(image));
    const auto dims = static_cast<std::int64_t>(image.rank()), n = static_cast<std::int64_t>(s.w.size());
    point_spread(this->context(), {s.k.data(), {n, dims}}, {s.w.data(), {n}}, image, VoxelBasis::delta, q.view());
    return q;
  }
  ToeplitzOperator make(const Sampling& s, const Shape& image) {
    return ToeplitzOperator(this->context(), spread(s, image).cview());
  }
  std::vector<cfloat> apply(const ToeplitzOperator& t, const std::vector<cfloat>& x, std::int64_t batch) {
    const Shape shape = with_batch(batch, t.image());
    auto from = this->upload(x, shape);
    auto to = this->context().template allocate<cfloat>(shape);
    t.apply(this->context(), from.cview(), to.view());
    return this->download(to);
  }
};
TYPED_TEST_SUITE(ToeplitzTest, Backends, testing::BackendNames);

// Sizes whose transforms take every radix, alone and together: 2 (1), 3, 4, 5, 8; 6, 9, 10, 16, 25, 27, 30, 32, 64,
// 128; and 320, the largest extent of lines that CUDA has kernels of its own for, along each axis.
TYPED_TEST(ToeplitzTest, IsTheExplicitProduct) {
  unsigned seed = 1;
  for (const Shape& image : {Shape{64, 63},   Shape{1, 1},       Shape{2, 3},       Shape{4, 5},    Shape{8, 6},
                             Shape{9, 10},    Shape{16, 25},     Shape{27, 30},     Shape{17, 41},  Shape{5, 70},
                             Shape{100, 1},   Shape{12, 11, 13}, Shape{16, 16, 16}, Shape{1, 2, 3}, Shape{5, 1, 9},
                             Shape{20, 3, 7}, Shape{3, 18, 33},  Shape{310, 3},     Shape{4, 300},  Shape{2, 289, 3}}) {
    const Sampling s = make_sampling(image.rank(), 300, seed++);
    const auto x = Random(seed).normals(2 * image.size());
    const auto truth = explicit_product(s, x, 2, image);
    const auto got = this->apply(this->make(s, image), x, 2);
    EXPECT_LT(testing::relative_error(got, truth, got.size()), kTolerance) << image.text();
  }
}

// CUDA holds planes of up to 64, 96 and 128 square voxels in shared memory, and 17 to 128 of them. A few items are
// shared by two blocks a plane, more are not; blocks take one plane after the other where there are more than 132.
TYPED_TEST(ToeplitzTest, IsTheExplicitProductOfVolumesInPlanes) {
  unsigned seed = 31;
  for (const Shape& image : {Shape{17, 63, 51}, Shape{34, 64, 62}, Shape{34, 83, 96}, Shape{18, 127, 108},
                             Shape{98, 128, 128}, Shape{128, 128, 128}}) {
    const Sampling s = make_sampling(3, 12, seed++);
    const std::int64_t batch = seed % 2 == 0 || image[0] == 128 ? 1 : 3;
    const auto x = Random(seed).normals(batch * image.size());
    const auto truth = explicit_product(s, x, batch, image);
    const auto got = this->apply(this->make(s, image), x, batch);
    EXPECT_LT(testing::relative_error(got, truth, got.size()), kTolerance) << image.text();
  }
}

// More coils than CUDA works on at once (11): the second part is added to the first.
TYPED_TEST(ToeplitzTest, CoilsOfAVolumeAddUpOverParts) {
  if (!this->context().cuda()) GTEST_SKIP() << "the CPU does not work on several coils at once";
  const Shape image = testing::fewer(Shape{96, 120, 109}, Shape{82, 65, 66});
  const std::int64_t n = image.size(), half = testing::fewer(7, 1), coils = 2 * half;
  const auto t = this->make(make_sampling(3, 4, 41), image);
  const auto values = Random(42).normals(n + 1000 * coils);
  std::vector<cfloat> maps;
  for (std::int64_t c = 0; c < coils; ++c)
    maps.insert(maps.end(), values.begin() + 1000 * c, values.begin() + 1000 * c + n);
  const auto there = this->upload(maps, with_batch(coils, image));
  const auto x = this->upload(Random(43).normals(n), image);
  Array<cfloat> y[3];
  for (auto& result : y) result = this->context().template allocate<cfloat>(image);
  t.apply_sense(this->context(), there.cview(), x.cview(), y[0].view());
  t.apply_sense(this->context(), there.cview().part(0, with_batch(half, image)), x.cview(), y[1].view());
  t.apply_sense(this->context(), there.cview().part(half * n, with_batch(half, image)), x.cview(), y[2].view());
  const auto all = this->download(y[0]), first = this->download(y[1]), second = this->download(y[2]);
  std::vector<cdouble> truth;
  for (std::size_t i = 0; i < all.size(); ++i) truth.push_back(cdouble(first[i]) + cdouble(second[i]));
  EXPECT_LT(testing::relative_error(all, truth, all.size()), 1e-6);  // sums in fp32, in another order
}

TYPED_TEST(ToeplitzTest, OneImageNeedsNoBatchAxis) {
  const Shape image{10, 9};
  const auto t = this->make(make_sampling(2, 50, 3), image);
  const auto x = Random(4).normals(image.size());
  const auto with = this->apply(t, x, 1);
  auto from = this->upload(x, image);
  auto to = this->context().template allocate<cfloat>(image);
  t.apply(this->context(), from.cview(), to.view());
  EXPECT_EQ(this->download(to), with);
}

TYPED_TEST(ToeplitzTest, ItemsOfABatchAreAsAlone) {
  // The larger ones are worked on in several parts.
  for (const Shape& image : {Shape{13, 12}, Shape{40, 39, 41}}) {
    const auto t = this->make(make_sampling(image.rank(), 100, 5), image);
    const std::int64_t batch = 11;
    const auto x = Random(6).normals(batch * image.size());
    const auto together = this->apply(t, x, batch);
    const auto n = static_cast<std::ptrdiff_t>(image.size());
    for (std::ptrdiff_t i = 0; i < batch; ++i) {
      const auto alone = this->apply(t, {x.begin() + i * n, x.begin() + (i + 1) * n}, 1);
      EXPECT_LT(
          testing::relative_error(alone, std::vector<cfloat>(together.begin() + i * n, together.end()), alone.size()),
          kTolerance);
      if (!this->context().cuda()) {  // cuFFT rounds differently in other batches
        EXPECT_EQ(std::memcmp(alone.data(), together.data() + i * n, alone.size() * sizeof(cfloat)), 0) << i;
      }
    }
  }
}

TYPED_TEST(ToeplitzTest, WithCoilMaps) {
  struct Case {
    Shape image;
    std::int64_t coils;
  };
  for (const auto& [image, coils] :
       {Case{{24, 23}, 3}, Case{{70, 33}, 8}, Case{{9, 8, 7}, 4}, Case{{40, 39, 41}, 10}, Case{{17, 60, 63}, 2},
        Case{{18, 50, 64}, 3}, Case{{5, 310}, 7}, Case{{300, 2}, 10}}) {
    const std::int64_t n = image.size();
    const Sampling s = make_sampling(image.rank(), 40, 7);
    const auto t = this->make(s, image);
    const auto maps = Random(8).normals(coils * n), x = Random(9).normals(n);
    std::vector<cfloat> products;
    for (std::int64_t i = 0; i < coils * n; ++i)
      products.push_back(maps[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(i % n)]);
    const auto of_coils = explicit_product(s, products, coils, image);
    std::vector<cdouble> truth(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < coils * n; ++i)
      truth[static_cast<std::size_t>(i % n)] +=
          std::conj(cdouble(maps[static_cast<std::size_t>(i)])) * of_coils[static_cast<std::size_t>(i)];
    auto on_maps = this->upload(maps, with_batch(coils, image));
    auto from = this->upload(x, image);
    auto to = this->upload(Random(10).normals(n), image);  // must be overwritten
    t.apply_sense(this->context(), on_maps.cview(), from.cview(), to.view());
    EXPECT_LT(testing::relative_error(this->download(to), truth, truth.size()), kTolerance) << image.text();
  }
}

TYPED_TEST(ToeplitzTest, SaysWhatItIs) {
  const Shape image{12, 10, 7};
  const Sampling s = make_sampling(3, 200, 11);
  const auto t = this->make(s, image);
  EXPECT_EQ(t.image(), image);
  EXPECT_EQ(t.backend(), TypeParam::kBackend);
  for (std::size_t a = 0; a < 3; ++a) {
    EXPECT_GE(t.grid()[a], 2 * image[a] - 1);
    EXPECT_EQ(t.grid()[a] % 2, 0);
  }
  double sum = 0;
  for (const float w : s.w) sum += static_cast<double>(w);
  EXPECT_NEAR(t.diagonal(), sum, 1e-5 * sum);
  // The diagonal is the mean of the spectrum, so the spectrum has values on both sides of it.
  EXPECT_LT(t.smallest(), t.diagonal());
  EXPECT_GT(t.largest(), t.diagonal());
}

TYPED_TEST(ToeplitzTest, OneSampleGivesAPlainSpectrum) {
  // A sample at the centre: q is 1 for every lag, its spectrum the product of sin(pi f (2n - 1) / p) / sin(pi f / p),
  // which is (2n - 1) per axis at f = 0.
  const Shape image{8, 5};
  const auto t = this->make({{0.0, 0.0}, {2.0f}}, image);
  EXPECT_NEAR(t.largest(), 2 * 15 * 9, 1e-3);
  EXPECT_NEAR(t.diagonal(), 2, 1e-6);
}

TYPED_TEST(ToeplitzTest, CirculantIsTheDiagonalInFourierSpace) {
  // T. Chan's circulant is F^H diag(F T F^H) F.
  const Shape image{6, 5};
  const Sampling s = make_sampling(2, 30, 13);
  const auto t = this->make(s, image);
  const auto got = this->context().template download<float>(t.circulant());
  for (std::int64_t f = 0; f < 30; ++f) {
    double truth = 0;
    for (std::size_t i = 0; i < s.w.size(); ++i) {  // sum of |<e_f, column of F^H>|^2
      cdouble sum = 0;
      for (std::int64_t r = 0; r < 30; ++r) {
        const double y = static_cast<double>(r / 5), x = static_cast<double>(r % 5);
        const double turns = static_cast<double>(f / 5) * y / 6 + static_cast<double>(f % 5) * x / 5 -
                             s.k[2 * i + 1] * y - s.k[2 * i] * x;
        sum += std::polar(1.0, 2 * std::numbers::pi * turns);
      }
      truth += static_cast<double>(s.w[i]) * std::norm(sum) / 30;
    }
    EXPECT_NEAR(static_cast<double>(got.data()[f]), truth, 1e-4 * t.diagonal()) << f;
  }
}

TYPED_TEST(ToeplitzTest, RefusesWhatIsNoPointSpread) {
  Context& context = this->context();
  const Shape grid{12, 10};
  const auto make = [&](const std::vector<cfloat>& q, const Shape& shape) {
    auto on = this->upload(q, shape);
    return ToeplitzOperator(context, on.cview());
  };
  std::vector<cfloat> q(120);
  q[0] = 1;
  EXPECT_NO_THROW(make(q, grid));
  q[1] = cfloat(0, 5e-5f);  // without its conjugate at lag -1
  EXPECT_THROW(make(q, grid), std::invalid_argument);
  q[1] = cfloat(0, 0.5f);
  EXPECT_THROW(make(q, grid), std::invalid_argument);
  q[9] = cfloat(0, -0.5f);
  EXPECT_NO_THROW(make(q, grid));
  q[5] = q[60] = cfloat(7, 7);  // lags -n do not count
  EXPECT_NO_THROW(make(q, grid));
  q[13] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(make(q, grid), std::invalid_argument);
  q[13] = std::numeric_limits<float>::infinity();
  EXPECT_THROW(make(q, grid), std::invalid_argument);
  EXPECT_THROW(make(std::vector<cfloat>(33), {11, 3}), std::invalid_argument);
  EXPECT_THROW(make(std::vector<cfloat>(4), {4}), std::invalid_argument);
  EXPECT_THROW(make(std::vector<cfloat>(0), {0, 4}), std::invalid_argument);
}

TYPED_TEST(ToeplitzTest, RefusesOtherShapes) {
  Context& context = this->context();
  const auto t = this->make(make_sampling(2, 20, 17), {6, 5});
  auto good = context.template zeros<cfloat>({2, 6, 5}), other = context.template zeros<cfloat>({2, 5, 6}),
       one = context.template zeros<cfloat>({6, 5}), result = context.template zeros<cfloat>({6, 5});
  EXPECT_THROW(t.apply(context, other.cview(), other.view()), std::invalid_argument);
  EXPECT_THROW(t.apply(context, good.cview(), one.view()), std::invalid_argument);
  EXPECT_THROW(t.apply_sense(context, other.cview(), one.cview(), result.view()), std::invalid_argument);
  EXPECT_THROW(t.apply_sense(context, good.cview(), good.cview(), result.view()), std::invalid_argument);
  EXPECT_NO_THROW(t.apply_sense(context, good.cview(), one.cview(), result.view()));
}

TYPED_TEST(ToeplitzTest, PointSpreadByNufft) {
  Context& context = this->context();
  for (const Shape& image : {Shape{32, 31}, Shape{12, 11, 13}}) {
    const Sampling s = make_sampling(image.rank(), 500, 19);
    const auto dims = static_cast<std::int64_t>(image.rank()), n = static_cast<std::int64_t>(s.w.size());
    const NufftOptions options{.kernel_width = 5, .oversampling = 1.5};
    for (const VoxelBasis basis : {VoxelBasis::delta, VoxelBasis::box}) {
      auto exact = context.template allocate<cfloat>(doubled(image)),
           fast = context.template allocate<cfloat>(doubled(image));
      point_spread(context, {s.k.data(), {n, dims}}, {s.w.data(), {n}}, image, basis, exact.view());
      point_spread_nufft(context, {s.k.data(), {n, dims}}, {s.w.data(), {n}}, image, basis, options, fast.view());
      const auto truth = this->download(exact), got = this->download(fast);
      // The lags are an image of doubled size. Lag 0 of q stands out, so that the error is less than expected.
      EXPECT_LT(testing::relative_error(got, truth, got.size()), 1.3 * expected_error(options, doubled(image)) + 2e-6);
      EXPECT_NO_THROW(ToeplitzOperator(context, fast.cview()));
      const std::int64_t along = 2 * image[image.rank() - 1];
      for (std::int64_t x = 1; x < along / 2; ++x)
        EXPECT_LT(std::abs(got[static_cast<std::size_t>(x)] - std::conj(got[static_cast<std::size_t>(along - x)])),
                  1e-6f * got[0].real());
      EXPECT_EQ(got[static_cast<std::size_t>(along / 2)], cfloat());
    }
  }
}

// Q by the NUFFT within the error that was asked for, against float64 sums, for spokes whose centre is dense.
TYPED_TEST(ToeplitzTest, PointSpreadByNufftHolds) {
  Context& context = this->context();
  for (const Shape& image : {Shape{25, 32}, Shape{9, 8, 10}})
    for (const double asked : {1e-4, 1.2e-6, 6e-7}) {
      const auto options = options_within(asked, lag_image(image));
      ASSERT_TRUE(options) << asked;
      Sampling s = make_sampling(image.rank(), 1200, 29);
      const std::size_t dims = image.rank(), n = s.w.size();
      for (std::size_t i = s.k.size(); i-- > 0;)  // spokes of 24 samples from the centre outwards
        s.k[i] = s.k[i / (24 * dims) * 24 * dims + i % dims] * static_cast<double>(i / dims % 24) / 24;
      auto q = context.template allocate<cfloat>(doubled(image));
      point_spread_nufft(context, {s.k.data(), {static_cast<std::int64_t>(n), static_cast<std::int64_t>(dims)}},
                         {s.w.data(), {static_cast<std::int64_t>(n)}}, image, VoxelBasis::delta, *options, q.view());
      const auto got = this->download(q);
      auto truth = testing::direct_adjoint(s.k, std::vector<cfloat>(n, 1.0f), s.w, 1, doubled(image));
      double error = 0, size = 0;
      for (std::int64_t v = 0; v < doubled(image).size(); ++v) {
        // From the middle to FFT order; lags -n are 0.
        std::int64_t rest = v, to = 0, stride = 1;
        bool edge = false;
        for (std::size_t a = dims; a-- > 0;) {
          const std::int64_t extent = 2 * image[a], at = rest % extent;
          edge = edge || at == 0;
          to += (at + image[a]) % extent * stride;
          stride *= extent;
          rest /= extent;
        }
        const cdouble expected = edge ? 0 : truth[static_cast<std::size_t>(v)];
        error += std::norm(cdouble(got[static_cast<std::size_t>(to)]) - expected);
        size += std::norm(expected);
      }
      EXPECT_LT(std::sqrt(error / size), asked) << image.text();
    }
}

TEST(ToeplitzThreads, DoNotShow) {
  testing::expect_same_bits(2, [](Context& context, const testing::NoteBits& note) {
    for (const Shape& image : {Shape{50, 41}, Shape{21, 18, 33}}) {
      const Sampling s = make_sampling(image.rank(), 60, 23);
      auto q = context.allocate<cfloat>(doubled(image));
      const auto dims = static_cast<std::int64_t>(image.rank());
      point_spread(context, {s.k.data(), {60, dims}}, {}, image, VoxelBasis::delta, q.view());
      const ToeplitzOperator t(context, q.cview());
      const auto maps = Random(24).normals(5 * image.size()), x = Random(25).normals(image.size());
      auto y = context.allocate<cfloat>(image);
      const auto maps_there = context.upload<cfloat>({maps.data(), with_batch(5, image)});
      const auto x_there = context.upload<cfloat>({x.data(), image});
      t.apply_sense(context, maps_there.view(), x_there.view(), y.view());
      note(y.data(), y.size(), "sense " + image.text());
    }
  });
}

}  // namespace
}  // namespace echotrain::numerics
