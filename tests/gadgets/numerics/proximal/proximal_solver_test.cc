// Proximal methods against a primal-dual method on dense matrices in float64, which runs until nothing changes.
#include "gadgets/numerics/proximal/proximal_solver.h"

#include <Eigen/Dense>
#include <stop_token>

#include "gadgets/numerics/encoding/masked_fourier.h"
#include "gadgets/numerics/proximal/discrepancy.h"
#include "gadgets/numerics/proximal/proximal_parts.h"
#include "gadgets/numerics/sparse/wavelet.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using Eigen::MatrixXcd;
using Eigen::VectorXcd;
using testing::Backends;
using testing::Random;
using testing::relative_error;

/// weight times the sum over v of the root of the sum over parts of |(G x)[part, v]|^2.
struct DensePrior {
  MatrixXcd g;
  std::int64_t parts;
  double weight;

  double size(const VectorXcd& c, std::int64_t v) const {
    const std::int64_t n = c.size() / parts;
    double squares = 0;
    for (std::int64_t p = 0; p < parts; ++p) squares += std::norm(c[p * n + v]);
    return std::sqrt(squares);
  }
  double value(const VectorXcd& x) const {
    const VectorXcd c = g * x;
    double sum = 0;
    for (std::int64_t v = 0; v < c.size() / parts; ++v) sum += size(c, v);
    return weight * sum;
  }
  void clip_to(double radius, VectorXcd& c) const {
    const std::int64_t n = c.size() / parts;
    for (std::int64_t v = 0; v < n; ++v) {
      const double s = size(c, v);
      for (std::int64_t p = 0; p < parts && s > radius; ++p) c[p * n + v] *= radius / s;
    }
  }
};

/// 1/2 x^H A x - Re x^H b + lambda sum of priors, made least by Condat's and Vu's method (Condat, JOTA 158, 2013).
struct DenseProblem {
  MatrixXcd a;
  VectorXcd b;
  std::vector<DensePrior> priors;
  double lambda;

  double objective(const VectorXcd& x) const {
    double value = (x.adjoint() * a * x)(0).real() / 2 - (x.adjoint() * b)(0).real();
    for (const DensePrior& prior : priors) value += lambda * prior.value(x);
    return value;
  }
  VectorXcd least() const {
    VectorXcd x = VectorXcd::Zero(b.size());
    std::vector<VectorXcd> duals;
    double bound = 0;
    for (const DensePrior& prior : priors) {
      duals.push_back(VectorXcd::Zero(prior.g.rows()));
      bound += (prior.g.adjoint() * prior.g).norm();
    }
    const double sigma = 0.5, step = 1 / (a.norm() / 2 + sigma * bound);
    for (int i = 0; i < 4000; ++i) {
      VectorXcd gradient = a * x - b;
      for (std::size_t k = 0; k < duals.size(); ++k) gradient += priors[k].g.adjoint() * duals[k];
      const VectorXcd next = x - step * gradient, ahead = 2 * next - x;
      for (std::size_t k = 0; k < duals.size(); ++k) {
        duals[k] += sigma * (priors[k].g * ahead);
        priors[k].clip_to(lambda * priors[k].weight, duals[k]);
      }
      x = next;
    }
    return x;
  }
};

template <class B>
class ProximalSolverTest : public testing::OnBackend<B> {
 protected:
  static constexpr std::int64_t kFrames = 2, kHeight = 8, kWidth = 4, kVoxels = kHeight * kWidth;
  const Shape series_{kFrames, 1, kHeight, kWidth};

  void SetUp() override {
    testing::OnBackend<B>::SetUp();
    if (this->IsSkipped()) return;
    Context& context = this->context();
    Random random(5);
    for (std::int64_t f = 0; f < kFrames; ++f) {
      std::vector<float> mask;
      for (std::int64_t i = 0; i < kVoxels; ++i) mask.push_back(random.uniform(0, 1) < 0.6 ? 1.0f : 0.0f);
      const Shape image{kHeight, kWidth};
      const auto fourier = MaskedFourier::make(context, {mask.data(), image}, image, image, image);
      auto maps = this->upload(random.normals(2 * kVoxels), {2, kHeight, kWidth});
      matrices_.push_back(std::make_unique<SenseNormal>(context, fourier->normal(), maps));
      dense_.push_back(columns(
          [&](DeviceView<cfloat> x, DeviceView<cfloat> y) {
            matrices_.back()->apply(context, DeviceView<const cfloat>(x).reshaped({1, kHeight, kWidth}),
                                    y.reshaped({1, kHeight, kWidth}));
          },
          kVoxels, kVoxels));
      bound_ = std::max(bound_, Eigen::SelfAdjointEigenSolver<MatrixXcd>(dense_.back()).eigenvalues().maxCoeff());
    }
    // Data of an image, so that the least squares are bounded from below where nothing was sampled.
    auto object = this->upload(random.normals(kFrames * kVoxels), series_);
    right_ = context.template zeros<cfloat>(series_);
    apply_matrices(context, problem({}), object.cview(), right_.view());
    b_ = this->download(right_);
    const auto x = this->download(object);
    for (std::size_t i = 0; i < x.size(); ++i) power_ += (std::conj(cdouble(x[i])) * cdouble(b_[i])).real();
  }

  /// A linear operation's matrix.
  template <class Work>
  MatrixXcd columns(const Work& work, std::int64_t from, std::int64_t to) {
    MatrixXcd all(to, from);
    for (std::int64_t i = 0; i < from; ++i) {
      std::vector<cfloat> unit(static_cast<std::size_t>(from));
      unit[static_cast<std::size_t>(i)] = 1;
      auto x = this->upload(unit, {from}), y = this->context().template zeros<cfloat>({to});
      work(x.view(), y.view());
      const auto column = this->download(y);
      for (std::int64_t j = 0; j < to; ++j) all(j, i) = cdouble(column[static_cast<std::size_t>(j)]);
    }
    return all;
  }

  ProximalProblem problem(std::vector<WeighedPrior> priors) {
    ProximalProblem out;
    for (const auto& matrix : matrices_) out.matrices.push_back(matrix.get());
    out.b = right_.cview();
    out.priors = std::move(priors);
    out.power = power_;
    return out;
  }

  /// Both methods find what the dense one finds. A linear prior's matrix: forward(), and what value() does to it.
  void expect_least(std::vector<WeighedPrior> priors, bool wavelets_first, double lambda) {
    const std::int64_t n = kFrames * kVoxels;
    DenseProblem dense{MatrixXcd::Zero(n, n), VectorXcd(n), {}, lambda};
    for (std::int64_t f = 0; f < kFrames; ++f)
      dense.a.block(f * kVoxels, f * kVoxels, kVoxels, kVoxels) = dense_[static_cast<std::size_t>(f)];
    for (std::int64_t i = 0; i < n; ++i) dense.b[i] = cdouble(b_[static_cast<std::size_t>(i)]);
    for (std::size_t k = 0; k < priors.size(); ++k) {
      const ConvexPrior& prior = *priors[k].prior;
      const Shape shape = prior.coefficients();
      dense.priors.push_back({columns(
                                  [&](DeviceView<cfloat> x, DeviceView<cfloat> c) {
                                    prior.forward(this->context(), x.reshaped(series_), c.reshaped(shape));
                                    if (k == 0 && wavelets_first)
                                      wavelet_analysis(this->context(), c.reshaped(shape), {4, {}});
                                  },
                                  n, shape.size()),
                              prior.is_direct() ? 1 : shape[0], priors[k].weight});
    }
    const VectorXcd least = dense.least();
    const std::vector<cdouble> truth(least.data(), least.data() + n);
    for (const auto method : {ProximalMethod::fista, ProximalMethod::admm}) {
      auto x = this->context().template zeros<cfloat>(series_);
      const auto found =
          solve_proximal(this->context(), problem(priors), x.view(),
                         {.method = method, .iterations = 600, .lambda = lambda, .bound = bound_, .inner = 20});
      const double error = relative_error(this->download(x), truth, truth.size());
      // J is flat where nothing was sampled: its last 1e-6 allow for the root of that.
      EXPECT_LT(error, 3e-3) << "method " << static_cast<int>(method);
      const double expected = dense.objective(least) + power_ / 2;
      EXPECT_NEAR(found.objective, expected, 1e-5 * expected) << "method " << static_cast<int>(method);
      EXPECT_EQ(found.iterations, 600);
      EXPECT_FALSE(found.converged);
    }
  }

  std::vector<std::unique_ptr<LinearOperator>> matrices_;
  std::vector<MatrixXcd> dense_;
  std::vector<cfloat> b_;
  Array<cfloat> right_;
  double bound_ = 0, power_ = 0;
};
TYPED_TEST_SUITE(ProximalSolverTest, Backends, testing::BackendNames);

TYPED_TEST(ProximalSolverTest, Wavelets) { this->expect_least({{wavelet_prior(this->series_, 4)}}, true, 0.3); }

// Continued by zeros, the proximal map is still one: it brings no two points further apart than they are, less what it
// moves them by differently (firm nonexpansiveness, which proximal maps have).
TYPED_TEST(ProximalSolverTest, WaveletsOfOddExtents) {
  const Shape shape{1, 1, 13, 11};
  const auto prior = wavelet_prior(shape, 4);
  const auto a = Random(6).normals(shape.size()), b = Random(7).normals(shape.size());
  auto x = this->upload(a, shape), y = this->upload(b, shape);
  const double before = prior->value(this->context(), x.cview());
  prior->shrink(this->context(), 0.5, x.view());
  prior->shrink(this->context(), 0.5, y.view());
  EXPECT_LT(prior->value(this->context(), x.cview()), 0.8 * before);
  const auto p = this->download(x), q = this->download(y);
  double inner = 0, size = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const cdouble moved = cdouble(p[i]) - cdouble(q[i]);
    inner += (std::conj(moved) * (cdouble(a[i]) - cdouble(b[i]))).real();
    size += std::norm(moved);
  }
  EXPECT_LE(size, inner * (1 + 1e-6));
  EXPECT_GT(size, 0);
  // Nothing is taken away without a threshold.
  auto same = this->upload(a, shape);
  prior->shrink(this->context(), 0, same.view());
  EXPECT_LT(relative_error(this->download(same), a, a.size()), 1e-6);
}

TYPED_TEST(ProximalSolverTest, TotalVariation) {
  this->expect_least({{variation_prior(this->series_, DifferenceAxes::space())}}, false, 0.2);
}

TYPED_TEST(ProximalSolverTest, SumsOfSeveral) {
  this->expect_least({{wavelet_prior(this->series_, 4), 0.5},
                      {variation_prior(this->series_, DifferenceAxes::space()), 1},
                      {variation_prior(this->series_, DifferenceAxes::time()), 2}},
                     true, 0.2);
}

TYPED_TEST(ProximalSolverTest, LowRankIsTheSameByBothMethods) {
  std::vector<double> objectives;
  std::vector<std::vector<cfloat>> images;
  for (const auto method : {ProximalMethod::fista, ProximalMethod::admm}) {
    auto x = this->context().template zeros<cfloat>(this->series_);
    const auto found =
        solve_proximal(this->context(), this->problem({{low_rank_prior(this->series_, 4)}}), x.view(),
                       {.method = method, .iterations = 400, .lambda = 0.05, .bound = this->bound_, .inner = 20});
    objectives.push_back(found.objective);
    images.push_back(this->download(x));
  }
  EXPECT_NEAR(objectives[0], objectives[1], 1e-4 * std::abs(objectives[0]));
  EXPECT_LT(relative_error(images[0], images[1], images[0].size()), 5e-3);
}

TYPED_TEST(ProximalSolverTest, StopsByChangeAndSaysSo) {
  auto x = this->context().template zeros<cfloat>(this->series_);
  const ProximalOptions options{.iterations = 5000, .tolerance = 1e-3, .lambda = 1, .bound = this->bound_};
  const auto found =
      solve_proximal(this->context(), this->problem({{wavelet_prior(this->series_, 4)}}), x.view(), options);
  EXPECT_TRUE(found.converged);
  EXPECT_LT(found.iterations, 1000);
  EXPECT_LE(found.change, 1e-3);
  // With so large a lambda nothing is left, and J is half of |d|^2.
  ProximalProblem empty =
      this->problem({{variation_prior(this->series_, DifferenceAxes::space())}, {wavelet_prior(this->series_, 4)}});
  empty.power = 8;
  auto none = this->context().template zeros<cfloat>(this->series_);
  const auto zero = solve_proximal(this->context(), empty, none.view(),
                                   {.iterations = 50, .lambda = 1e3, .bound = this->bound_, .inner = 100});
  EXPECT_NEAR(zero.objective, 4, 0.02);
}

TYPED_TEST(ProximalSolverTest, SaysWhereNumbersOverflow) {
  // A b is beyond float32, b is not.
  float most = 0;
  for (const cfloat& v : this->b_) most = std::max({most, std::abs(v.real()), std::abs(v.imag())});
  ProximalProblem problem = this->problem({{wavelet_prior(this->series_, 4)}});
  auto b = this->context().template allocate<cfloat>(this->series_);
  weighted_sum(this->context(), {3e38 / most, this->right_.cview()}, {0, this->right_.cview()}, b.view());
  problem.b = b.cview();
  for (const auto method : {ProximalMethod::fista, ProximalMethod::admm}) {
    auto x = this->context().template zeros<cfloat>(this->series_);
    const auto found = solve_proximal(this->context(), problem, x.view(),
                                      {.method = method, .iterations = 10, .lambda = 1, .bound = this->bound_ / 1e4});
    EXPECT_FALSE(std::isfinite(found.residual)) << "method " << static_cast<int>(method);
  }
}

TYPED_TEST(ProximalSolverTest, StopsWhenTheScanDoes) {
  std::stop_source source;
  Context stopped(TypeParam::kBackend, test_resources(), {.stop_token = source.get_token()});
  const auto problem = this->problem({{wavelet_prior(this->series_, 4)}});
  auto x = stopped.template zeros<cfloat>(this->series_);
  source.request_stop();
  EXPECT_THROW(solve_proximal(stopped, problem, x.view(), {}), Stopped);
}

TYPED_TEST(ProximalSolverTest, RefusesWhatDoesNotFit) {
  Context& context = this->context();
  auto x = context.template zeros<cfloat>(this->series_), flat = x.reshaped({2, 8, 4});
  const auto prior = [&] { return std::vector<WeighedPrior>{{wavelet_prior(this->series_, 4)}}; };
  const auto solve = [&](const ProximalProblem& problem, const ProximalOptions& options) {
    solve_proximal(context, problem, x.view(), options);
  };
  EXPECT_THROW(solve_proximal(context, this->problem(prior()), flat.view(), {}), std::invalid_argument);
  EXPECT_THROW(solve(this->problem(prior()), {.lambda = -1}), std::invalid_argument);
  EXPECT_THROW(solve(this->problem(prior()), {.bound = 0}), std::invalid_argument);
  EXPECT_THROW(solve(this->problem(prior()), {.inner = 0}), std::invalid_argument);
  EXPECT_THROW(solve(this->problem({{wavelet_prior({2, 1, 9, 9}, 4)}}), {}), std::invalid_argument);
  EXPECT_THROW(solve(this->problem({{wavelet_prior(this->series_, 4), -1}}), {}), std::invalid_argument);
  auto few = this->problem(prior());
  few.matrices = {few.matrices[0], few.matrices[0], few.matrices[0]};
  EXPECT_THROW(solve(few, {}), std::invalid_argument);
}

TEST(MatchNoiseTest, FindsTheLambdaOfAResidual) {
  using Status = NoiseMatch::Status;
  int solves = 0;
  const auto residual = [&](double lambda) {
    ++solves;
    return 10 * lambda / (lambda + 0.01);
  };
  const auto match = match_noise(2, 1e-6, 1, 12, residual);
  EXPECT_EQ(match.status, Status::matched);
  EXPECT_NEAR(residual(match.lambda), 2, 0.04);
  EXPECT_EQ(match.solves, solves - 1);
  EXPECT_EQ(match_noise(11, 1e-6, 1, 12, residual).status, Status::above_range);
  EXPECT_EQ(match_noise(1e-5, 1e-6, 1, 12, residual).status, Status::below_range);
  EXPECT_EQ(match_noise(2, 1e-6, 1, 2, residual).status, Status::not_matched);
  EXPECT_THROW(match_noise(0, 1e-6, 1, 12, residual), std::invalid_argument);
  EXPECT_THROW(match_noise(1, 1, 1, 12, residual), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
