// Gridding without plans, and the operator made of it, against their definitions in float64.
#include "gadgets/numerics/transforms/scatter/scatter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "gadgets/numerics/transforms/toeplitz/frame_toeplitz.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

struct Sampling {
  std::vector<double> k;
  std::vector<float> w;
  std::int64_t count() const { return static_cast<std::int64_t>(w.size()); }
};
/// Samples anywhere, some of them at the edges, where footprints wrap, and at equal places.
Sampling make_sampling(std::size_t n, unsigned seed) {
  Random random(seed);
  Sampling s;
  for (std::size_t i = 0; i < 2 * n; ++i) s.k.push_back(random.uniform(-0.5, 0.5));
  for (std::size_t i = 0; i < n; ++i) s.w.push_back(static_cast<float>(random.uniform(0, 2)));
  const double edges[] = {-0.5, 0.4999, 0, 0};
  std::copy(std::begin(edges), std::end(edges), s.k.begin());
  s.k[4] = s.k[6] = s.k[5] = s.k[7] = 0.25;
  return s;
}

/// The largest value of the spectrum of the lags |l| < n on a grid of these extents: sums of Dirichlet kernels.
double largest_of_spectrum(const Sampling& s, const Shape& image, const Shape& grid) {
  const auto dirichlet = [](double f, std::int64_t n) {  // sum of exp(2 pi i f l) over |l| < n
    const double half = std::sin(std::numbers::pi * f), all = static_cast<double>(2 * n - 1);
    return std::abs(half) < 1e-9 ? all : std::sin(std::numbers::pi * f * all) / half;
  };
  std::vector<double> of_y, of_x;  // [sample, frequency]
  for (std::size_t i = 0; i < s.w.size(); ++i) {
    for (std::int64_t f = 0; f < grid[0]; ++f)
      of_y.push_back(dirichlet(s.k[2 * i + 1] - static_cast<double>(f) / static_cast<double>(grid[0]), image[0]));
    for (std::int64_t f = 0; f < grid[1]; ++f)
      of_x.push_back(dirichlet(s.k[2 * i] - static_cast<double>(f) / static_cast<double>(grid[1]), image[1]));
  }
  const auto ny = static_cast<std::size_t>(grid[0]), nx = static_cast<std::size_t>(grid[1]);
  double most = 0;
  for (std::size_t y = 0; y < ny; ++y)
    for (std::size_t x = 0; x < nx; ++x) {
      double sum = 0;
      for (std::size_t i = 0; i < s.w.size(); ++i)
        sum += static_cast<double>(s.w[i]) * of_y[i * ny + y] * of_x[i * nx + x];
      most = std::max(most, sum);
    }
  return most;
}

template <class B>
class ScatterTest : public testing::OnBackend<B> {
 protected:
  Array<double> positions(const Sampling& s) { return this->upload(s.k, {s.count(), 2}); }
  std::vector<cfloat> adjoint(ScatterNufft& scatter, const Sampling& s, const std::vector<cfloat>& samples,
                              std::int64_t coils) {
    Context& context = this->context();
    auto image = context.template allocate<cfloat>({coils, scatter.image_shape()[0], scatter.image_shape()[1]});
    scatter.adjoint(context, positions(s).cview(), this->upload(samples, {s.count(), coils}).cview(),
                    this->upload(s.w, {s.count()}).cview(), image.view());
    return this->download(image);
  }
};
TYPED_TEST_SUITE(ScatterTest, Backends, testing::BackendNames);

// The error is that of the kernel (expected_error()), which is for white data; 1.5 for these few hundred samples.
TYPED_TEST(ScatterTest, AdjointIsTheDirectSum) {
  unsigned seed = 1;
  for (const Shape& image : {Shape{24, 20}, Shape{33, 17}, Shape{6, 40}})
    for (const std::int64_t coils : {1, 3, 16, 20, 40})
      for (const double accuracy : {1e-2, 1e-3, 1e-5}) {
        const NufftOptions options = options_for_accuracy(accuracy, image);
        ScatterNufft scatter(this->context(), image, options, coils);
        for (const std::size_t n : {257u, 100u}) {  // the second frame meets a grid that the first has used
          const Sampling s = make_sampling(n, seed++);
          const auto samples = Random(seed++).normals(s.count() * coils);
          const auto truth = testing::direct_adjoint(s.k, samples, s.w, coils, image);
          const auto got = this->adjoint(scatter, s, samples, coils);
          EXPECT_LT(testing::relative_error(got, truth, got.size()), 1.5 * expected_error(options, image) + 1e-6)
              << image.text() << ", " << coils << " coils, width " << options.kernel_width;
        }
      }
}

// Samples of k-space differ by orders of magnitude; those at its edges must not drown in the fixed point of its centre.
TYPED_TEST(ScatterTest, SmallSamplesBesideLargeOnes) {
  const Shape image{20, 20};
  const NufftOptions options = options_for_accuracy(1e-5, image);
  ScatterNufft scatter(this->context(), image, options, 1);
  const Sampling s = make_sampling(200, 5);
  auto samples = Random(6).normals(s.count());
  const auto of_small = [&](std::vector<cfloat> values) {
    values[7] = 0;
    return values;
  };
  samples[7] = {1e7f, -2e7f};
  // What the large one leaves: its own direct sum is subtracted in float64. fp32 keeps 1e-7 of it.
  const auto all = testing::direct_adjoint(s.k, samples, s.w, 1, image);
  const auto small = testing::direct_adjoint(s.k, of_small(samples), s.w, 1, image);
  const auto alone = this->adjoint(scatter, s, of_small(samples), 1);
  EXPECT_LT(testing::relative_error(alone, small, small.size()), 1.5e-5);
  const auto got = this->adjoint(scatter, s, samples, 1);
  EXPECT_LT(testing::relative_error(got, all, all.size()), 1.5e-5);
}

TYPED_TEST(ScatterTest, AnyScaleAndTheSameBits) {
  const Shape image{24, 24};
  const std::int64_t coils = 5;
  const NufftOptions options = options_for_accuracy(1e-3, image);
  ScatterNufft scatter(this->context(), image, options, coils);
  const Sampling s = make_sampling(300, 7);
  const auto samples = Random(8).normals(s.count() * coils);
  const auto first = this->adjoint(scatter, s, samples, coils);
  for (int repeat = 0; repeat < 3; ++repeat) EXPECT_EQ(this->adjoint(scatter, s, samples, coils), first);
  // A power of two scales every step exactly.
  for (const int power : {-80, -20, 60}) {
    auto scaled = samples;
    for (auto& v : scaled) v *= std::ldexp(1.0f, power);
    auto expected = first;
    for (auto& v : expected) v *= std::ldexp(1.0f, power);
    const auto got = this->adjoint(scatter, s, scaled, coils);
    EXPECT_LT(testing::relative_error(got, std::vector<cdouble>(expected.begin(), expected.end()), got.size()), 1e-6)
        << power;
  }
}

TYPED_TEST(ScatterTest, WhatIsNotFinite) {
  const Shape image{16, 16};
  const NufftOptions options = options_for_accuracy(1e-3, image);
  ScatterNufft scatter(this->context(), image, options, 2);
  Sampling s = make_sampling(50, 9);
  auto samples = Random(10).normals(100);
  const auto without = [&](std::size_t left_out) {
    Sampling rest = s;
    rest.w[left_out] = 0;
    rest.k[2 * left_out] = 0.1;
    return rest;
  };
  // A sample without a place takes no part, nor does one of weight 0.
  s.k[2 * 20] = std::numeric_limits<double>::quiet_NaN();
  const auto truth = this->adjoint(scatter, without(20), samples, 2);
  EXPECT_EQ(this->adjoint(scatter, s, samples, 2), truth);
  // A sample that is not a number shows, and the frame after it is as ever.
  samples[2 * 30] = {std::numeric_limits<float>::quiet_NaN(), 0};
  const auto bad = this->adjoint(scatter, s, samples, 2);
  EXPECT_FALSE(std::all_of(bad.begin(), bad.end(), [](cfloat v) { return std::isfinite(v.real()); }));
  samples[2 * 30] = 0;
  const auto zero = this->adjoint(scatter, s, samples, 2);
  EXPECT_TRUE(std::all_of(zero.begin(), zero.end(), [](cfloat v) { return std::isfinite(std::abs(v)); }));
  // No sample at all, and samples that are all zero.
  const auto nothing = this->adjoint(scatter, s, std::vector<cfloat>(100), 2);
  EXPECT_EQ(nothing, std::vector<cfloat>(512));
  EXPECT_EQ(this->adjoint(scatter, {}, {}, 2), std::vector<cfloat>(512));
}

TYPED_TEST(ScatterTest, LagsAreThePointSpread) {
  for (const Shape& image : {Shape{12, 16}, Shape{9, 7}}) {
    const Shape doubled{2 * image[0], 2 * image[1]};
    const NufftOptions options = options_for_accuracy(1e-4, doubled);
    ScatterNufft scatter(this->context(), doubled, options, 1);
    const Sampling s = make_sampling(150, 11);
    const std::vector<cfloat> ones(s.w.size(), 1);
    const auto truth = testing::direct_adjoint(s.k, ones, s.w, 1, doubled);
    double power = 0;
    for (const auto& v : truth) power += std::norm(v);
    for (const std::int64_t more : {0, 6}) {
      const Shape grid{doubled[0] + more, doubled[1] + more};
      auto to = this->upload(Random(12).normals(grid.size()), grid);  // must be overwritten
      scatter.lags(this->context(), this->positions(s).cview(), this->upload(s.w, {s.count()}).cview(), to.view());
      const auto got = this->download(to);
      double error = 0;
      for (std::int64_t y = 0; y < grid[0]; ++y)
        for (std::int64_t x = 0; x < grid[1]; ++x) {
          const std::int64_t ly = y < image[0] ? y : y - grid[0], lx = x < image[1] ? x : x - grid[1];
          const bool inside = ly > -image[0] && lx > -image[1];
          const auto at = static_cast<std::size_t>((ly + image[0]) * doubled[1] + lx + image[1]);
          const cdouble want = inside ? truth[at] : cdouble(0);
          error += std::norm(cdouble(got[static_cast<std::size_t>(y * grid[1] + x)]) - want);
        }
      EXPECT_LT(std::sqrt(error / power), 1.5e-4) << grid.text();
    }
  }
}

// The operator of one frame after another, with maps, against F^H W F by its definition.
TYPED_TEST(ScatterTest, FrameToeplitzIsTheExplicitProduct) {
  struct Case {
    Shape image;
    std::int64_t coils;
  };
  // 37: CUDA has lines of its own for it; 260: it has not, and takes cuFFT.
  for (const auto& [image, coils] : {Case{{16, 24}, 3}, Case{{37, 20}, 18}, Case{{10, 260}, 2}, Case{{100, 9}, 5}}) {
    Context& context = this->context();
    const Shape doubled{2 * image[0], 2 * image[1]};
    ScatterNufft scatter(context, doubled, options_for_accuracy(1e-5, doubled), 1);
    FrameToeplitz matrix(context, image, coils);
    const Shape of_coils{coils, image[0], image[1]};
    const std::int64_t n = image.size();
    for (unsigned frame = 0; frame < 2; ++frame) {
      const Sampling s = make_sampling(60 + 20 * frame, 20 + frame);
      const auto maps = Random(8 + frame).normals(coils * n), x = Random(9 + frame).normals(n);
      std::vector<cfloat> products;
      for (std::int64_t i = 0; i < coils * n; ++i)
        products.push_back(maps[static_cast<std::size_t>(i)] * x[static_cast<std::size_t>(i % n)]);
      const auto data = testing::direct_forward(s.k, products, coils, image);
      const auto back = testing::direct_adjoint(s.k, {data.begin(), data.end()}, s.w, coils, image);
      std::vector<cdouble> truth(static_cast<std::size_t>(n));
      for (std::int64_t i = 0; i < coils * n; ++i)
        truth[static_cast<std::size_t>(i % n)] +=
            std::conj(cdouble(maps[static_cast<std::size_t>(i)])) * back[static_cast<std::size_t>(i)];
      scatter.lags(context, this->positions(s).cview(), this->upload(s.w, {s.count()}).cview(), matrix.lags());
      matrix.take(context);
      auto y = this->upload(Random(10).normals(n), image);  // must be overwritten
      matrix.apply_sense(context, this->upload(maps, of_coils).cview(), this->upload(x, image).cview(), y.view());
      EXPECT_LT(testing::relative_error(this->download(y), truth, truth.size()), 2e-5) << image.text();
      auto each = this->upload(maps, of_coils);  // must be overwritten
      matrix.apply(context, this->upload(products, of_coils).cview(), each.view());
      EXPECT_LT(testing::relative_error(this->download(each), back, back.size()), 2e-5) << image.text();
      const float largest = context.template download<float>(matrix.largest()).data()[0];
      const double expected = largest_of_spectrum(s, image, matrix.grid());
      EXPECT_NEAR(static_cast<double>(largest), expected, 2e-5 * expected) << image.text();
    }
  }
}

// What the next frame uses again is on the bill of the scan: two places and two rows of weights per sample.
TEST(ScatterOnCpu, FootprintsArePaidFor) {
  Context context(Backend::cpu, test_resources());
  const Shape image{8, 8};
  const NufftOptions options;
  ScatterNufft scatter(context, image, options, 1);
  auto to = context.allocate<cfloat>({1, 8, 8});
  const auto scattered = [&](std::int64_t n) {
    const auto positions = context.zeros<double>({n, 2});
    const auto samples = context.zeros<cfloat>({n, 1});
    scatter.adjoint(context, positions.cview(), samples.cview(), {}, to.view());
  };
  const auto bytes = [&](std::uint64_t n) {
    return n * 2 * (sizeof(std::int32_t) + sizeof(float) * static_cast<std::uint64_t>(options.kernel_width));
  };
  scattered(10);
  const std::uint64_t before = context.account()->used();
  scattered(20000);
  const std::uint64_t after = context.account()->used();
  EXPECT_GE(after - before, bytes(20000) - bytes(10));  // sizes are rounded up
  scattered(15000);
  EXPECT_EQ(context.account()->used(), after);
}

TYPED_TEST(ScatterTest, RefusesWhatDoesNotFit) {
  Context& context = this->context();
  const NufftOptions options;
  const auto make = [&](const Shape& image, const NufftOptions& of, std::int64_t channels) {
    ScatterNufft(context, image, of, channels);
  };
  EXPECT_THROW(make({8, 8, 8}, options, 1), std::invalid_argument);
  EXPECT_THROW(make({0, 8}, options, 1), std::invalid_argument);
  EXPECT_THROW(make({8, 8}, options, 0), std::invalid_argument);
  EXPECT_THROW(make({8, 8}, {.kernel_width = 9}, 1), std::invalid_argument);
  EXPECT_THROW(make({8, 8}, {.oversampling = 3}, 1), std::invalid_argument);
  EXPECT_THROW(FrameToeplitz(context, {8}, 1), std::invalid_argument);
  EXPECT_THROW(FrameToeplitz(context, {8, 8}, 0), std::invalid_argument);
  ScatterNufft scatter(context, {8, 8}, options, 2);
  const Sampling s = make_sampling(10, 1);
  EXPECT_THROW(this->adjoint(scatter, s, Random(1).normals(30), 3), std::invalid_argument);
  const auto weights = this->upload(std::vector<float>(9, 1.0f), {9});
  const auto samples = this->upload(Random(1).normals(20), {10, 2});
  auto image = context.template allocate<cfloat>({2, 8, 8});
  EXPECT_THROW(scatter.adjoint(context, this->positions(s).cview(), samples.cview(), weights.cview(), image.view()),
               std::invalid_argument);
  auto small = context.template zeros<cfloat>({4, 8});
  EXPECT_THROW(scatter.lags(context, this->positions(s).cview(), {}, small.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
