// The discrepancy principle on simulated noise.
#include <cmath>
#include <limits>

#include "gadgets/numerics/inverse/solver/pcg.h"
#include "tests/support/solver_problem.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::make_sampling;
using testing::Random;
using testing::Sampling;
using testing::vector;
using testing::with_batch;

template <class B>
class DiscrepancyTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(DiscrepancyTest, Backends, testing::BackendNames);

/// A smooth image, its noisy samples, and what the discrepancy principle makes of them.
struct Noisy {
  Sampling s;
  std::vector<cfloat> b;
  Eigen::MatrixXcd f;
  Eigen::VectorXcd d;
};
Noisy make_noisy(const Shape& image, double sigma, double signal) {
  Noisy noisy;
  Random random(31);
  noisy.s = make_sampling(2, 1200, 33);
  noisy.s.w.assign(1200, 1.0f);
  Eigen::VectorXcd x(image.size());
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const auto at = testing::position(image, i);
    const double r = std::hypot(static_cast<double>(at[0]) - 11, static_cast<double>(at[1]) - 12);
    x[i] = signal * (r < 8 ? cdouble(1, 0.3) : cdouble(0.1, 0));
  }
  noisy.f = testing::fourier_matrix(noisy.s.k, noisy.s.w, image);
  noisy.d = noisy.f * x;
  for (std::int64_t i = 0; i < noisy.d.size(); ++i) noisy.d[i] += sigma * cdouble(random.normal());
  const Eigen::VectorXcd b = noisy.f.adjoint() * noisy.d;
  for (std::int64_t i = 0; i < b.size(); ++i) noisy.b.push_back(cfloat(b[i]));
  return noisy;
}

TYPED_TEST(DiscrepancyTest, LambdaByDiscrepancy) {
  const Shape image{24, 23};
  const double sigma = 2;
  const Noisy noisy = make_noisy(image, sigma, 1);
  const PlainNormal a(testing::make_toeplitz(this->context(), noisy.s, image));
  PcgOptions options;
  options.iterations = 300;
  options.tolerance = 1e-5;
  for (const auto& regularizer : {tikhonov(image), smoothness(image)}) {
    auto b = this->upload(noisy.b, with_batch(1, image)), x = this->context().template zeros<cfloat>(b.shape());
    const auto found = lambda_by_discrepancy(this->context(), a, regularizer.get(), b.cview(), x.view(),
                                             noisy.d.squaredNorm(), 1200, sigma, options);
    EXPECT_EQ(found.status, DiscrepancyResult::Status::matched);
    EXPECT_LE(found.solves, 9);
    EXPECT_NEAR(found.target, 2 * sigma * sigma * 1200, 1e-6);
    EXPECT_NEAR(found.residual, found.target, 0.02 * found.target);
    EXPECT_EQ(found.last.items.at(0).status, PcgStatus::converged);
    EXPECT_GT(found.lambda, 1e-6);
    const double truth = (noisy.f * vector(this->download(x)) - noisy.d).squaredNorm();
    // Rounding of the sums that cancel: some 1e-7 of |d|^2, which is 30 times the noise.
    EXPECT_NEAR(found.residual, truth, 1e-3 * truth);
  }
}

TYPED_TEST(DiscrepancyTest, NoLambdaMatches) {
  const Shape image{24, 23};
  const auto regularizer = tikhonov(image);
  PcgOptions options;
  options.iterations = testing::fewer(200, 30);
  const auto run = [&](const Noisy& noisy, double sigma, const DiscrepancyOptions& search = {}) {
    const PlainNormal a(testing::make_toeplitz(this->context(), noisy.s, image));
    auto b = this->upload(noisy.b, with_batch(1, image)), x = this->context().template zeros<cfloat>(b.shape());
    auto found = lambda_by_discrepancy(this->context(), a, regularizer.get(), b.cview(), x.view(),
                                       noisy.d.squaredNorm(), 1200, sigma, options, search);
    for (const cfloat v : this->download(x)) EXPECT_TRUE(std::isfinite(v.real()) && std::isfinite(v.imag()));
    return found;
  };
  const Noisy noisy = make_noisy(image, 2, 1);
  EXPECT_EQ(run(noisy, 0.5).status, DiscrepancyResult::Status::below_range);  // the noise is given as less than it is
  EXPECT_EQ(run(make_noisy(image, 2, 0), 4).status, DiscrepancyResult::Status::above_range);
  const auto short_of_time = run(noisy, 2, {.accuracy = 1e-9, .solves = 3});
  EXPECT_EQ(short_of_time.status, DiscrepancyResult::Status::not_matched);
  EXPECT_EQ(short_of_time.solves, 3);
  EXPECT_THROW(run(noisy, 0), std::invalid_argument);
  EXPECT_THROW(run(noisy, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
  EXPECT_THROW(run(noisy, 1, {.smallest = 1, .largest = 0.1}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
