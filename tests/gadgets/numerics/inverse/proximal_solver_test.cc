// Proximal methods against a primal-dual method on dense matrices in float64, which runs until nothing changes.
#include "gadgets/numerics/inverse/proximal/proximal_solver.h"

#include <Eigen/Dense>
#include <limits>
#include <stop_token>

#include "gadgets/numerics/inverse/encoding/masked_fourier.h"
#include "gadgets/numerics/inverse/proximal/discrepancy.h"
#include "gadgets/numerics/inverse/proximal/proximal_parts.h"
#include "gadgets/numerics/inverse/proximal/vectors.h"
#include "gadgets/numerics/inverse/sparse/wavelet.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/wavelets.h"

namespace echotrain::numerics {
namespace {

using Eigen::MatrixXcd;
using Eigen::VectorXcd;
using testing::Backends;
using testing::fewer;
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
    for (int i = 0; i < fewer(4000, 1500); ++i) {
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
  Shape series_{2, 1, 8, 4};

  void SetUp() override {
    testing::OnBackend<B>::SetUp();
    if (!this->IsSkipped()) scan(series_);
  }

  /// Random data of two coils, 60 % of k-space: a matrix for each frame.
  void scan(const Shape& series) {
    series_ = series;
    matrices_.clear();
    dense_.clear();
    bound_ = power_ = 0;
    const double share = fewer(0.6, 1.0);
    const std::int64_t voxels = series[1] * series[2] * series[3];
    const Shape image{series[1], series[2], series[3]}, one{1, series[1], series[2], series[3]};
    Context& context = this->context();
    Random random(5);
    for (std::int64_t f = 0; f < series[0]; ++f) {
      std::vector<float> mask;
      for (std::int64_t i = 0; i < voxels; ++i) mask.push_back(random.uniform(0, 1) < share ? 1.0f : 0.0f);
      const auto fourier = MaskedFourier::make(context, {mask.data(), image}, image, image, image);
      auto maps = this->upload(random.normals(2 * voxels), {2, series[1], series[2], series[3]});
      matrices_.push_back(std::make_unique<SenseNormal>(context, fourier->normal(), maps));
      dense_.push_back(columns(
          [&](DeviceView<cfloat> x, DeviceView<cfloat> y) {
            matrices_.back()->apply(context, DeviceView<const cfloat>(x).reshaped(one), y.reshaped(one));
          },
          voxels, voxels));
      bound_ = std::max(bound_, Eigen::SelfAdjointEigenSolver<MatrixXcd>(dense_.back()).eigenvalues().maxCoeff());
    }
    // Data of an image, so that the least squares are bounded from below where nothing was sampled.
    auto object = this->upload(random.normals(series.size()), series_);
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
    const std::int64_t n = series_.size(), voxels = n / series_[0];
    DenseProblem dense{MatrixXcd::Zero(n, n), VectorXcd(n), {}, lambda};
    for (std::int64_t f = 0; f < series_[0]; ++f)
      dense.a.block(f * voxels, f * voxels, voxels, voxels) = dense_[static_cast<std::size_t>(f)];
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
                              k == 0 && wavelets_first ? 1 : shape[0], priors[k].weight});
    }
    const VectorXcd least = dense.least();
    const std::vector<cdouble> truth(least.data(), least.data() + n);
    const int iterations = fewer(600, 50), inner = fewer(20, 8);
    for (const auto method : {ProximalMethod::fista, ProximalMethod::admm}) {
      auto x = this->context().template zeros<cfloat>(series_);
      const auto found = solve_proximal(
          this->context(), problem(priors), x.view(),
          {.method = method, .iterations = iterations, .lambda = lambda, .bound = bound_, .inner = inner});
      const double error = relative_error(this->download(x), truth, truth.size());
      // J is flat where nothing was sampled: its last 1e-6 allow for the root of that.
      EXPECT_LT(error, 3e-3) << "method " << static_cast<int>(method);
      const double expected = dense.objective(least) + power_ / 2;
      EXPECT_NEAR(found.objective, expected, 1e-5 * expected) << "method " << static_cast<int>(method);
      EXPECT_EQ(found.iterations, iterations);
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

/// Frames of their own size, which the prior continues by zeros: a plane of odd extents, a line, a volume.
TYPED_TEST(ProximalSolverTest, WaveletsOfOddExtents) {
  for (const Shape& series : {Shape{1, 1, 9, 11}, Shape{1, 1, 1, 37}, Shape{1, 3, 5, 6}}) {
    this->scan(series);
    const auto prior = wavelet_prior(series, 4);
    ASSERT_FALSE(prior->is_direct()) << series.text();
    this->expect_least({{wavelet_prior(series, 4)}}, true, 0.3);
  }
}

/// The identity, whose least squares leave of FISTA and ADMM the proximal map.
class Identity final : public LinearOperator {
 public:
  explicit Identity(Shape image) : image_(std::move(image)) {}
  const Shape& image() const override { return image_; }
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override {
    context.copy<cfloat>(x, y);
  }
  void diagonal(Context& context, DeviceView<float> diagonal) const override {
    const std::vector<float> ones(static_cast<std::size_t>(image_.size()), 1.0f);
    context.copy<float>(HostView<const float>(ones.data(), image_), diagonal);
    context.synchronize();
  }
  bool circulant(Context& /*context*/, DeviceView<float> /*eigenvalues*/, DeviceView<float> /*share*/) const override {
    return false;
  }

 private:
  Shape image_;
};

/// |x - u|^2 / 2 + t |W P x|_1 of images u [z, y, x] in float64, P the continuation by zeros to `whole`.
struct Denoising {
  testing::Extents3 n, whole;
  std::vector<cdouble> u;
  double threshold;
  std::int64_t smallest;

  /// from, of one size, where `to`, of another, has voxels too.
  static std::vector<cdouble> corner(const std::vector<cdouble>& from, const testing::Extents3& f,
                                     const testing::Extents3& t) {
    std::vector<cdouble> to(static_cast<std::size_t>(t[0] * t[1] * t[2]));
    for (std::int64_t z = 0; z < std::min(f[0], t[0]); ++z)
      for (std::int64_t y = 0; y < std::min(f[1], t[1]); ++y)
        for (std::int64_t x = 0; x < std::min(f[2], t[2]); ++x)
          to[static_cast<std::size_t>((z * t[1] + y) * t[2] + x)] =
              from[static_cast<std::size_t>((z * f[1] + y) * f[2] + x)];
    return to;
  }
  double value(const std::vector<cdouble>& x) const {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += std::norm(x[i] - u[i]) / 2;
    for (const cdouble& c : testing::wavelets(corner(x, n, whole), whole, smallest)) sum += threshold * std::abs(c);
    return sum;
  }
  /// No x has less: the dual problem's value after some steps of Nesterov's method (Fenchel; p with |p| <= t bounds it
  /// by |u|^2 / 2 - |u - P^H W^H p|^2 / 2).
  double least(int steps) const {
    std::vector<cdouble> p(static_cast<std::size_t>(whole[0] * whole[1] * whole[2])), ahead = p;
    const auto left = [&](const std::vector<cdouble>& dual) {
      std::vector<cdouble> x = corner(testing::wavelets(dual, whole, smallest, false), whole, n);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = u[i] - x[i];
      return x;
    };
    for (int step = 0; step < steps; ++step) {
      std::vector<cdouble> next = testing::wavelets(corner(left(ahead), n, whole), whole, smallest);
      for (std::size_t i = 0; i < p.size(); ++i) {
        next[i] += ahead[i];
        next[i] *= std::min(1.0, threshold / std::max(std::abs(next[i]), 1e-300));
        ahead[i] = next[i] + static_cast<double>(step) / (step + 3) * (next[i] - p[i]);
      }
      p = std::move(next);
    }
    double all = 0, rest = 0;
    for (const cdouble& v : u) all += std::norm(v) / 2;
    for (const cdouble& v : left(p)) rest += std::norm(v) / 2;
    return all - rest;
  }
};

/// The proximal map is that of value(), at any extents: J comes close to a bound from below in float64, where one
/// shrinkage of the continued image leaves it 9e-4 to 2.5e-3 above. fista: float32's rounding of J is some 1e-7, and 80
/// iterations leave about as much. admm: its conjugate gradients stop at 1e-5 of the right-hand side, |x| is off by
/// some 1e-5 of itself, e, and J, whose wavelets have corners, by at most threshold |W e|_1 <= threshold sqrt(N) |e|_2.
TYPED_TEST(ProximalSolverTest, WaveletsAreOptimalAtAnyExtent) {
  for (const Shape& series : {fewer(Shape{1, 1, 180, 230}, Shape{1, 1, 22, 30}), Shape{1, 1, 1, 181},
                              Shape{1, 1, 45, 1}, Shape{1, 9, 18, 21}}) {
    const Shape image{series[1], series[2], series[3]}, whole = wavelet_extents(series, 16);
    // Blocks, ramps and noise: what few wavelets make, up to the ends of all axes.
    Random random(8);
    std::vector<cfloat> u = random.normals(series.size());
    for (std::int64_t i = 0; i < series.size(); ++i) {
      const auto x = static_cast<float>(i % series[3]), y = static_cast<float>(i / series[3] % series[2]);
      u[static_cast<std::size_t>(i)] =
          0.3f * u[static_cast<std::size_t>(i)] + cfloat(x > 50 || y > 20 ? 2.0f : 1.0f, 0.01f * (x + y));
    }
    const Denoising truth{
        {series[1], series[2], series[3]}, {whole[1], whole[2], whole[3]}, {u.begin(), u.end()}, 0.6, 16};
    const double least = truth.least(150);
    const Identity identity(image);
    const auto b = this->upload(u, series);
    for (const auto method : {ProximalMethod::fista, ProximalMethod::admm}) {
      ProximalProblem problem{{&identity}, b.cview(), {{wavelet_prior(series)}}, 0};
      for (const cfloat& v : u) problem.power += std::norm(cdouble(v));
      auto x = this->context().template zeros<cfloat>(series);
      const int iterations = method == ProximalMethod::fista ? 80 : fewer(400, 150);
      const auto found =
          solve_proximal(this->context(), problem, x.view(),
                         {.method = method, .iterations = iterations, .lambda = truth.threshold, .penalty = 1});
      const auto got = this->download(x);
      const double value = truth.value({got.begin(), got.end()});
      const double off =
          truth.threshold * std::sqrt(static_cast<double>(whole.size())) * 1e-5 * std::sqrt(problem.power);
      EXPECT_LT(value, method == ProximalMethod::fista ? least * (1 + 2e-6) : least + off)
          << series.text() << ", method " << static_cast<int>(method);
      EXPECT_GE(value, least * (1 - 1e-9)) << series.text();
      EXPECT_NEAR(found.objective, value, 1e-6 * value) << series.text();
    }
  }
}

/// More iterations never leave J higher, and both methods end at one J.
TYPED_TEST(ProximalSolverTest, ObjectivesFallWhereTheImageIsContinued) {
  this->scan({1, 1, 13, 18});
  double last[2] = {};
  for (const auto method : {ProximalMethod::fista, ProximalMethod::admm}) {
    double before = std::numeric_limits<double>::infinity();
    for (const int iterations : {5, 10, 20, 40, fewer(80, 60), fewer(160, 60), fewer(640, 60)}) {
      auto x = this->context().template zeros<cfloat>(this->series_);
      const auto found = solve_proximal(
          this->context(), this->problem({{wavelet_prior(this->series_, 4)}}), x.view(),
          {.method = method, .iterations = iterations, .lambda = 0.3, .bound = this->bound_, .inner = 20});
      EXPECT_LT(found.objective, before * (1 + 1e-6)) << iterations << ", method " << static_cast<int>(method);
      before = found.objective;
    }
    last[static_cast<int>(method)] = before;
  }
  EXPECT_NEAR(last[0], last[1], 1e-5 * last[0]);
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
    const auto found = solve_proximal(
        this->context(), this->problem({{low_rank_prior(this->series_, 4)}}), x.view(),
        {.method = method, .iterations = fewer(400, 60), .lambda = 0.05, .bound = this->bound_, .inner = 20});
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
