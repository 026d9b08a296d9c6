// Regularizers against dense matrices made from their definitions, in float64.
#include "gadgets/numerics/inverse/solver/regularizer.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "tests/support/backends.h"
#include "tests/support/dense.h"
#include "tests/support/direct_sum.h"
#include "tests/support/solver_problem.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::difference_matrix;
using testing::Random;
using testing::square;
using testing::with_batch;

/// A few float operations per voxel.
constexpr double kTolerance = 1e-6;

std::vector<float> random_weights(const Shape& image, unsigned seed) {
  Random random(seed);
  std::vector<float> w;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(image.rank()) * image.size(); ++i)
    w.push_back(i % 7 == 3 ? 0.0f : static_cast<float>(random.uniform(-1.5, 2)));
  return w;
}
Shape with_axes(const Shape& image) {
  Shape shape{static_cast<std::int64_t>(image.rank())};
  for (const auto e : image) shape.push_back(e);
  return shape;
}

const std::vector<Shape>& images() {
  static const std::vector<Shape> all{{7}, {1}, {6, 5}, {1, 9}, {33, 70}, {4, 3, 5}, {2, 1, 7}, {1, 1, 1}, {9, 8, 7}};
  return all;
}

template <class B>
class RegularizerTest : public testing::OnBackend<B> {
 protected:
  /// Checks add() and diagonal() against R, a dense matrix.
  void expect_is(const Regularizer& regularizer, const Eigen::MatrixXcd& r) {
    Context& context = this->context();
    const Shape& image = regularizer.image();
    const std::int64_t batch = 2, n = image.size();
    ASSERT_EQ(r.rows(), n);
    const auto x = Random(1).normals(batch * n), y = Random(2).normals(batch * n);
    auto from = this->upload(x, with_batch(batch, image)), to = this->upload(y, with_batch(batch, image));
    constexpr double kScale = 0.375;
    regularizer.add(context, static_cast<float>(kScale), from.cview(), to.view());
    std::vector<cdouble> truth;
    for (std::int64_t b = 0; b < batch; ++b) {
      Eigen::VectorXcd v(n);
      for (std::int64_t i = 0; i < n; ++i) v[i] = cdouble(x[static_cast<std::size_t>(b * n + i)]);
      const Eigen::VectorXcd product = r * v;
      for (std::int64_t i = 0; i < n; ++i)
        truth.push_back(cdouble(y[static_cast<std::size_t>(b * n + i)]) + kScale * product[i]);
    }
    EXPECT_LT(testing::relative_error(this->download(to), truth, truth.size()), kTolerance) << image.text();
    auto diagonal = context.template allocate<float>(image);
    regularizer.diagonal(context, diagonal.view());
    const auto got = this->download(diagonal);
    for (std::int64_t i = 0; i < n; ++i)
      EXPECT_NEAR(static_cast<double>(got[static_cast<std::size_t>(i)]), r(i, i).real(),
                  kTolerance * (1 + r(i, i).real()))
          << image.text() << i;
  }
};
TYPED_TEST_SUITE(RegularizerTest, Backends, testing::BackendNames);

TYPED_TEST(RegularizerTest, Tikhonov) {
  const auto r = tikhonov({5, 6});
  EXPECT_TRUE(r->identity());
  this->expect_is(*r, Eigen::MatrixXcd::Identity(30, 30));
}

TYPED_TEST(RegularizerTest, Smoothness) {
  for (const Shape& image : images()) {
    if (image.size() > 600) continue;
    const std::vector<float> ones(image.rank() * static_cast<std::size_t>(image.size()), 1.0f);
    const auto w = difference_matrix(image, ones);
    const auto r = smoothness(image);
    EXPECT_FALSE(r->identity());
    this->expect_is(*r, square(w));
  }
}

TYPED_TEST(RegularizerTest, SmoothnessOfLongVoxels) {
  const Shape image{4, 3, 5};
  const std::vector<double> size{2.5, 0.5, 1.25};
  std::vector<float> weights;
  for (const double s : size) weights.insert(weights.end(), 60, static_cast<float>(1 / s));
  const auto w = difference_matrix(image, weights);
  this->expect_is(*smoothness(image, size), square(w));
}

TYPED_TEST(RegularizerTest, EdgeStencilIsItsSparseMatrix) {
  Context& context = this->context();
  for (const Shape& image : images()) {
    const auto weights = random_weights(image, 3);
    const auto stencil = edge_stencil(context, this->upload(weights, with_axes(image)));
    const auto w = difference_matrix(image, weights);
    if (image.size() <= 600) this->expect_is(*stencil, square(w));
    const auto x = Random(4).normals(image.size());
    auto from = this->upload(x, with_batch(1, image));
    auto to = context.template zeros<cfloat>(with_batch(1, image));
    stencil->add(context, 0.7f, from.cview(), to.view());
    Eigen::VectorXcd v(image.size());
    for (std::int64_t i = 0; i < image.size(); ++i) v[i] = cdouble(x[static_cast<std::size_t>(i)]);
    const Eigen::VectorXcd product = 0.7 * (w.adjoint() * (w * v));
    const std::vector<cdouble> truth(product.data(), product.data() + product.size());
    EXPECT_LT(testing::relative_error(this->download(to), truth, truth.size()), kTolerance) << image.text();
  }
}

TYPED_TEST(RegularizerTest, SymbolIsTheDiagonalInFourierSpace) {
  Context& context = this->context();
  const Shape image{6, 5};
  const auto weights = random_weights(image, 6);
  const std::vector<double> size{2.0, 0.5};
  for (const auto& regularizer : {tikhonov(image), smoothness(image, size)}) {
    auto symbol = context.template allocate<float>(image);
    regularizer->symbol(context, symbol.view());
    const auto got = this->download(symbol);
    // All waves at once, each of length 1.
    std::vector<cfloat> waves;
    for (int f = 0; f < 30; ++f)
      for (int r = 0; r < 30; ++r) {
        const double turns = static_cast<double>(f / 5 * (r / 5)) / 6 + static_cast<double>(f % 5 * (r % 5)) / 5;
        waves.push_back(cfloat(std::polar(1 / std::sqrt(30.0), 2 * std::numbers::pi * turns)));
      }
    auto from = this->upload(waves, {30, 6, 5});
    auto to = context.template zeros<cfloat>({30, 6, 5});
    regularizer->add(context, 1.0f, from.cview(), to.view());
    const auto products = this->download(to);
    for (std::size_t f = 0; f < 30; ++f) {
      cdouble sum = 0;
      for (std::size_t r = 0; r < 30; ++r) sum += std::conj(cdouble(waves[f * 30 + r])) * cdouble(products[f * 30 + r]);
      EXPECT_NEAR(static_cast<double>(got[f]), sum.real(), 1e-5 * (1 + sum.real())) << f;
    }
  }
  // Other weights: the mean of their squares, so that the trace is kept.
  const auto regularizer = edge_stencil(context, this->upload(weights, with_axes(image)));
  auto symbol = context.template allocate<float>(image), diagonal = context.template allocate<float>(image);
  regularizer->symbol(context, symbol.view());
  regularizer->diagonal(context, diagonal.view());
  double trace = 0, sum = 0;
  for (const float v : this->download(diagonal)) trace += static_cast<double>(v);
  for (const float v : this->download(symbol)) sum += static_cast<double>(v);
  EXPECT_NEAR(sum, trace, 1e-5 * trace);
}

TYPED_TEST(RegularizerTest, RefusesWhatIsNone) {
  Context& context = this->context();
  EXPECT_THROW(tikhonov({}), std::invalid_argument);
  EXPECT_THROW(tikhonov({2, 0}), std::invalid_argument);
  EXPECT_THROW(tikhonov({1, 2, 3, 4}), std::invalid_argument);
  EXPECT_THROW(tikhonov({1 << 16, 1 << 16}), std::invalid_argument);
  EXPECT_THROW(smoothness({2, 2}, {1}), std::invalid_argument);
  EXPECT_THROW(smoothness({2, 2}, {1, 0}), std::invalid_argument);
  EXPECT_THROW(smoothness({2, 2}, {1, -1}), std::invalid_argument);
  EXPECT_THROW(smoothness({2, 2}, {1, std::numeric_limits<double>::quiet_NaN()}), std::invalid_argument);
  EXPECT_THROW(edge_stencil(context, context.template zeros<float>({3, 4, 4})), std::invalid_argument);
  EXPECT_THROW(edge_stencil(context, context.template zeros<float>({4})), std::invalid_argument);
  std::vector<float> weights(8, 1.0f);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  weights[3] = weights[2] = nan;  // no edge starts there along y
  EXPECT_NO_THROW(edge_stencil(context, this->upload(weights, {2, 2, 2})));
  weights[1] = nan;
  EXPECT_THROW(edge_stencil(context, this->upload(weights, {2, 2, 2})), std::invalid_argument);

  const auto r = smoothness({2, 3});
  auto x = context.template zeros<cfloat>({1, 3, 2}), y = context.template zeros<cfloat>({1, 2, 3});
  EXPECT_THROW(r->add(context, 1.0f, x.cview(), y.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
