// The solver against dense solutions in float64.
#include "gadgets/numerics/inverse/solver/pcg.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/resources.h"
#include "tests/support/solver_problem.h"
#include "tests/support/thread_digests.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::fewer;
using testing::make_sampling;
using testing::Random;
using testing::Sampling;
using testing::vector;
using testing::with_batch;

double difference(const std::vector<cfloat>& got, const Eigen::VectorXcd& truth) {
  return (vector(got) - truth).norm() / truth.norm();
}

/// A problem with its matrices in full.
struct Problem {
  Shape image;
  Eigen::MatrixXcd a, r;
  double largest = 0;  ///< eigenvalue of A
  std::shared_ptr<const LinearOperator> op;
  std::shared_ptr<const Regularizer> regularizer;

  Eigen::MatrixXcd matrix(double lambda) const { return a + lambda * largest * r; }
  Eigen::VectorXcd solve(const std::vector<cfloat>& b, double lambda) const {
    return matrix(lambda).llt().solve(vector(b));
  }
};

enum class Prior { tikhonov, smoothness, edges };

template <class B>
class PcgTest : public testing::OnBackend<B> {
 protected:
  std::shared_ptr<const ToeplitzOperator> toeplitz(const Sampling& s, const Shape& image) {
    return testing::make_toeplitz(this->context(), s, image);
  }
  void regularize(Problem& problem, Prior prior) {
    Context& context = this->context();
    const Shape& image = problem.image;
    const auto edges = image.rank() * static_cast<std::size_t>(image.size());
    std::vector<float> weights(edges, 1.0f);
    Random random(91);
    if (prior == Prior::edges)
      for (auto& w : weights) w = random.uniform(0, 1) < 0.2 ? 0.05f : 1.0f;
    const Shape shape = with_batch(static_cast<std::int64_t>(image.rank()), image);
    problem.r = testing::square(testing::difference_matrix(image, weights));
    if (prior == Prior::tikhonov) {
      problem.r = Eigen::MatrixXcd::Identity(image.size(), image.size());
      problem.regularizer = tikhonov(image);
    } else if (prior == Prior::smoothness) {
      problem.regularizer = smoothness(image);
    } else {
      problem.regularizer = edge_stencil(context, this->upload(weights, shape));
    }
  }
  Problem plain(const Shape& image, std::size_t samples, Prior prior, unsigned seed = 1) {
    const Sampling s = make_sampling(image.rank(), samples, seed);
    Problem problem;
    problem.image = image;
    problem.a = testing::gram_matrix(s.k, s.w, image);
    problem.op = std::make_shared<PlainNormal>(toeplitz(s, image));
    finish(problem, prior);
    return problem;
  }
  Problem sense(const Shape& image, std::size_t samples, std::int64_t coils, Prior prior) {
    const Sampling s = make_sampling(image.rank(), samples, 2);
    const std::int64_t n = image.size();
    Problem problem;
    problem.image = image;
    const Eigen::MatrixXcd t = testing::gram_matrix(s.k, s.w, image);
    std::vector<cfloat> maps;
    problem.a = Eigen::MatrixXcd::Zero(n, n);
    for (std::int64_t c = 0; c < coils; ++c) {
      Eigen::VectorXcd map(n);
      for (std::int64_t i = 0; i < n; ++i) {
        double distance = 0, turn = static_cast<double>(c);
        const auto at = testing::position(image, i);
        for (std::size_t a = 0; a < image.rank(); ++a) {
          const double place = static_cast<double>(at[a]) / static_cast<double>(image[a]) - 0.5;
          distance += std::pow(place - 0.6 * std::cos(2.0 * static_cast<double>(c) + 1.5 * static_cast<double>(a)), 2);
          turn += place;
        }
        const cfloat value(std::polar(std::exp(-2 * distance), turn));
        maps.push_back(value);
        map[i] = cdouble(value);
      }
      problem.a += map.conjugate().asDiagonal() * t * map.asDiagonal();
    }
    problem.op = std::make_shared<SenseNormal>(this->context(), toeplitz(s, image),
                                               this->upload(maps, with_batch(coils, image)));
    finish(problem, prior);
    return problem;
  }
  void finish(Problem& problem, Prior prior) {
    regularize(problem, prior);
    Eigen::VectorXcd v = Eigen::VectorXcd::Ones(problem.image.size());
    for (int step = 0; step < 40; ++step) {
      v = problem.a * v.normalized();
      problem.largest = v.norm();
    }
  }
  /// Solves for a batch; x: the start, afterwards the solution.
  PcgResult solve(const Problem& problem, const std::vector<cfloat>& b, std::vector<cfloat>& x, PcgOptions options) {
    const std::int64_t batch = static_cast<std::int64_t>(b.size()) / problem.image.size();
    options.largest_eigenvalue = problem.largest;
    auto right = this->upload(b, with_batch(batch, problem.image)), image = this->upload(x, right.shape());
    auto result = pcg(this->context(), *problem.op, problem.regularizer.get(), right.cview(), image.view(), options);
    x = this->download(image);
    return result;
  }
};
TYPED_TEST_SUITE(PcgTest, Backends, testing::BackendNames);

const Preconditioner kPreconditioners[] = {Preconditioner::none, Preconditioner::jacobi, Preconditioner::circulant};

TYPED_TEST(PcgTest, IsTheDenseSolution) {
  // A condition of about 1e2..1e3 times the residual's 1e-6, and rounding of the same size.
  constexpr double kTolerance = 1e-4;
  PcgOptions options;
  options.iterations = 500;
  options.tolerance = 1e-6;
  for (const Prior prior : {Prior::tikhonov, Prior::smoothness, Prior::edges})
    for (const bool solid : {false, true})
      for (const bool coils : {false, true}) {
        const Shape image = solid ? fewer(Shape{9, 8, 7}, Shape{5, 4, 3}) : fewer(Shape{24, 23}, Shape{10, 9});
        const auto problem = coils ? this->sense(image, 400, 3, prior) : this->plain(image, 900, prior);
        const auto b = Random(3).normals(image.size());
        options.lambda = fewer(1e-2, 1e-1);
        const Eigen::VectorXcd truth = problem.solve(b, options.lambda);
        for (const Preconditioner preconditioner : kPreconditioners) {
          options.preconditioner = preconditioner;
          std::vector<cfloat> x(b.size());
          const auto result = this->solve(problem, b, x, options);
          EXPECT_EQ(result.items[0].status, PcgStatus::converged);
          EXPECT_LT(difference(x, truth), kTolerance)
              << image.text() << " prior " << static_cast<int>(prior) << " preconditioner "
              << static_cast<int>(preconditioner) << " coils " << coils << " after " << result.items[0].iterations;
        }
      }
}

TYPED_TEST(PcgTest, WithoutARegularizer) {
  // Many more samples than voxels, all over k-space: well conditioned by itself.
  Random random(5);
  Sampling s;
  for (int i = 0; i < 2000; ++i) s.k.insert(s.k.end(), {random.uniform(-0.5, 0.5), random.uniform(-0.5, 0.5)});
  s.w.assign(2000, 1.0f);
  const Shape image{9, 10};
  Problem problem;
  problem.image = image;
  problem.a = testing::gram_matrix(s.k, s.w, image);
  problem.op = std::make_shared<PlainNormal>(this->toeplitz(s, image));
  const auto b = random.normals(image.size());
  std::vector<cfloat> x(b.size());
  PcgOptions options;
  options.tolerance = 1e-6;
  options.iterations = 100;
  options.lambda = 3;  // has no effect without a regularizer
  const auto result = this->solve(problem, b, x, options);
  EXPECT_EQ(result.lambda, 0);
  EXPECT_EQ(result.items[0].status, PcgStatus::converged);
  EXPECT_LT(difference(x, problem.a.llt().solve(vector(b))), 1e-5);
}

TYPED_TEST(PcgTest, ResidualsAreThoseThatRemain) {
  const auto problem = this->plain({24, 23}, 900, Prior::edges);
  const auto b = Random(7).normals(24 * 23);
  PcgOptions options;
  options.lambda = 1e-2;
  options.tolerance = 0;
  const auto matrix = problem.matrix(options.lambda);
  for (const Preconditioner preconditioner : kPreconditioners) {
    options.preconditioner = preconditioner;
    for (const int iterations : {0, 1, 5, 20, fewer(60, 20)}) {
      options.iterations = iterations;
      std::vector<cfloat> x = Random(8).normals(24 * 23);
      const auto item = this->solve(problem, b, x, options).items[0];
      EXPECT_EQ(item.iterations, iterations);
      ASSERT_EQ(item.residuals.size(), static_cast<std::size_t>(iterations) + 1);
      EXPECT_EQ(item.status, PcgStatus::iterations_used);
      const double truth = (vector(b) - matrix * vector(x)).norm() / vector(b).norm();
      // In each step rounding adds about 1e-7 of |A| |x| / |b|, which is in the hundreds at this start.
      EXPECT_NEAR(item.residuals.back(), truth, 1e-4 * truth + 1e-6 * item.residuals.front()) << iterations;
      const double best = *std::min_element(item.residuals.begin(), item.residuals.end());
      EXPECT_LT(item.residuals.back(), 5 * best);
    }
  }
}

TYPED_TEST(PcgTest, ErrorFallsInTheEnergyNorm) {
  // Conjugate gradients promise this; residuals may rise on the way.
  const auto problem = this->plain({13, 12}, 300, Prior::tikhonov);
  const auto b = Random(9).normals(156);
  PcgOptions options;
  options.lambda = 1e-2;
  options.tolerance = 0;
  const Eigen::VectorXcd truth = problem.solve(b, options.lambda);
  const auto matrix = problem.matrix(options.lambda);
  for (const Preconditioner preconditioner : kPreconditioners) {
    options.preconditioner = preconditioner;
    double before = std::numeric_limits<double>::infinity();
    for (int iterations = 0; iterations < fewer(12, 4); ++iterations) {
      options.iterations = iterations;
      std::vector<cfloat> x(b.size());
      this->solve(problem, b, x, options);
      const Eigen::VectorXcd error = vector(x) - truth;
      const double energy = std::sqrt(error.dot(matrix * error).real());
      EXPECT_LT(energy, before) << iterations;
      before = energy;
    }
  }
}

TYPED_TEST(PcgTest, WarmStartSavesIterations) {
  const auto problem = this->plain({24, 23}, 900, Prior::smoothness);
  auto b = Random(11).normals(24 * 23);
  PcgOptions options;
  options.iterations = 300;
  options.tolerance = 1e-3;
  options.lambda = 1e-2;
  std::vector<cfloat> x(b.size());
  const auto cold = this->solve(problem, b, x, options).items[0];
  const auto again = this->solve(problem, b, x, options).items[0];
  EXPECT_EQ(again.iterations, 0);
  EXPECT_EQ(again.status, PcgStatus::converged);
  EXPECT_NEAR(again.residuals[0], cold.residuals.back(), 1e-5);
  for (auto& v : b) v *= 1.02f;  // the next frame
  EXPECT_LT(this->solve(problem, b, x, options).items[0].iterations, cold.iterations * 3 / 4);
}

TYPED_TEST(PcgTest, ItemsOfABatchAreAsAlone) {
  const auto problem = this->plain({13, 12}, 300, Prior::smoothness);
  const std::size_t n = 156, batch = 4;
  auto b = Random(13).normals(static_cast<std::int64_t>(n * batch));
  std::fill_n(b.begin() + n, n, cfloat());  // zero
  for (std::size_t i = 2 * n; i < 3 * n; ++i)
    b[i] = cfloat(problem.matrix(1e-2).col(5)[static_cast<std::int64_t>(i - 2 * n)]);
  b[3 * n + 7] = std::numeric_limits<float>::quiet_NaN();
  const auto start = [&](std::size_t i) {
    return Random(static_cast<unsigned>(20 + i)).normals(static_cast<std::int64_t>(n));
  };
  PcgOptions options;
  options.iterations = 40;
  options.tolerance = 1e-3;
  options.lambda = 1e-2;
  for (const Preconditioner preconditioner : kPreconditioners) {
    options.preconditioner = preconditioner;
    std::vector<cfloat> together;
    for (std::size_t i = 0; i < batch; ++i) {
      const auto one = start(i);
      together.insert(together.end(), one.begin(), one.end());
    }
    const auto all = this->solve(problem, b, together, options);
    ASSERT_EQ(all.items.size(), batch);
    EXPECT_EQ(all.items[3].status, PcgStatus::broke_down);
    EXPECT_EQ(all.items[1].status, PcgStatus::converged);
    EXPECT_NE(all.items[0].iterations, all.items[2].iterations);
    for (std::size_t i = 0; i < batch; ++i) {
      auto x = start(i);
      const auto begin = b.begin() + static_cast<std::ptrdiff_t>(i * n);
      const auto item = this->solve(problem, {begin, begin + static_cast<std::ptrdiff_t>(n)}, x, options).items[0];
      EXPECT_EQ(item.status, all.items[i].status);
      if (this->context().cuda()) {  // cuFFT rounds differently in other batches
        EXPECT_NEAR(item.iterations, all.items[i].iterations, 1) << i;
        continue;
      }
      EXPECT_EQ(item.iterations, all.items[i].iterations) << i;
      EXPECT_TRUE(std::equal(x.begin(), x.end(), together.begin() + static_cast<std::ptrdiff_t>(i * n))) << i;
      if (i != 3) {
        EXPECT_EQ(item.residuals, all.items[i].residuals) << i;
      }
    }
  }
}

TYPED_TEST(PcgTest, ZeroGivesZero) {
  const auto problem = this->plain({6, 5}, 60, Prior::tikhonov);
  for (const Preconditioner preconditioner : kPreconditioners) {
    PcgOptions options;
    options.tolerance = 0;
    options.preconditioner = preconditioner;
    std::vector<cfloat> x = Random(15).normals(30);
    const auto item = this->solve(problem, std::vector<cfloat>(30), x, options).items[0];
    EXPECT_EQ(item.status, PcgStatus::converged);
    EXPECT_EQ(item.iterations, 0);
    EXPECT_EQ(item.residuals, std::vector<double>{0});
    for (const cfloat v : x) EXPECT_EQ(v, cfloat());
  }
}

TYPED_TEST(PcgTest, WhatIsNotFiniteEndsClearly) {
  const auto problem = this->plain({6, 5}, 60, Prior::smoothness);
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, infinity, -infinity})
    for (const Preconditioner preconditioner : kPreconditioners)
      for (const bool in_start : {false, true}) {
        auto b = Random(16).normals(30), x = Random(17).normals(30);
        (in_start ? x : b)[11] = cfloat(1, bad);
        PcgOptions options;
        options.preconditioner = preconditioner;
        const auto item = this->solve(problem, b, x, options).items[0];
        EXPECT_EQ(item.status, PcgStatus::broke_down);
        EXPECT_EQ(item.iterations, 0);
        for (const cfloat v : x) EXPECT_EQ(v, cfloat());
      }
}

TYPED_TEST(PcgTest, NegativeCurvatureEndsClearly) {
  // q = -1 at lag 0: A = -1.
  Context& context = this->context();
  std::vector<cfloat> q(12 * 10);
  q[0] = -1;
  auto lags = this->upload(q, {12, 10});
  Problem problem;
  problem.image = {6, 5};
  problem.op = std::make_shared<PlainNormal>(std::make_shared<const ToeplitzOperator>(context, lags.cview()));
  const auto b = Random(18).normals(30);
  std::vector<cfloat> x(30, cfloat(0.5f, 0));
  const auto item = this->solve(problem, b, x, {}).items[0];
  EXPECT_EQ(item.status, PcgStatus::broke_down);
  EXPECT_STREQ(to_string(item.status), "broke down");
  for (const cfloat v : x) EXPECT_EQ(v, cfloat(0.5f, 0));
}

TYPED_TEST(PcgTest, ManyMoreIterationsThanNeededDoNoHarm) {
  const auto problem = this->plain({13, 12}, 300, Prior::tikhonov);
  const auto b = Random(19).normals(156);
  PcgOptions options;
  options.lambda = 1e-2;
  options.iterations = fewer(2000, 200);
  options.tolerance = 0;
  std::vector<cfloat> x(b.size());
  const auto item = this->solve(problem, b, x, options).items[0];
  EXPECT_LT(item.residuals.back(), 1e-5);
  EXPECT_LT(difference(x, problem.solve(b, options.lambda)), 1e-4);
}

TYPED_TEST(PcgTest, ScaleDoesNotMatter) {
  const auto problem = this->plain({13, 12}, 300, Prior::tikhonov);
  PcgOptions options;
  options.lambda = 1e-2;
  options.iterations = 200;
  options.tolerance = 1e-5;
  for (const float scale : {0x1p-60f, 0x1p60f}) {
    auto b = Random(21).normals(156);
    const Eigen::VectorXcd truth = problem.solve(b, options.lambda) * static_cast<double>(scale);
    for (auto& v : b) v *= scale;
    std::vector<cfloat> x(b.size());
    EXPECT_EQ(this->solve(problem, b, x, options).items[0].status, PcgStatus::converged);
    EXPECT_LT(difference(x, truth), 1e-4);
  }
}

TYPED_TEST(PcgTest, PreconditionersHelpWhereTheyShould) {
  PcgOptions options;
  options.iterations = 1000;
  options.tolerance = 1e-4;
  options.lambda = fewer(1e-4, 1e-3);
  // Dense and smooth sampling, heavy at the centre: the circulant is close.
  const std::int64_t n = 24;
  Sampling s;
  for (int r = 0; r < 80; ++r)
    for (int i = -32; i < 32; ++i) {
      const double angle = 3.14159265358979 * r / 80, radius = (i + 0.5) / 64.0;
      s.k.insert(s.k.end(), {radius * std::cos(angle), radius * std::sin(angle)});
      s.w.push_back(1.0f);
    }
  Problem radial;
  radial.image = {n, n};
  radial.a = testing::gram_matrix(s.k, s.w, radial.image);
  radial.op = std::make_shared<PlainNormal>(this->toeplitz(s, radial.image));
  this->finish(radial, Prior::tikhonov);
  const auto count = [&](const Problem& problem, Preconditioner preconditioner) {
    options.preconditioner = preconditioner;
    const auto b = Random(23).normals(problem.image.size());
    std::vector<cfloat> x(b.size());
    const auto item = this->solve(problem, b, x, options).items[0];
    EXPECT_EQ(item.status, PcgStatus::converged);
    return item.iterations;
  };
  const int without = count(radial, Preconditioner::none);
  EXPECT_LT(count(radial, Preconditioner::circulant), without / 2);
  EXPECT_NEAR(count(radial, Preconditioner::jacobi), without, 0.05 * without + 1);  // the diagonal is constant
  // With coil maps it is only as close as their sum of squares tells.
  const auto parallel = this->sense({24, 23}, 3000, 3, Prior::tikhonov);
  EXPECT_LT(count(parallel, Preconditioner::circulant), count(parallel, Preconditioner::none));
  // The diagonal tells where a prior weighs more.
  Problem uneven = radial;
  std::vector<float> weights;
  for (std::int64_t i = 0; i < 2 * n * n; ++i)
    weights.push_back(
        static_cast<float>(std::pow(10.0, 1 + 2 * static_cast<double>(i % n) / static_cast<double>(n - 1))));
  uneven.regularizer = edge_stencil(this->context(), this->upload(weights, {2, n, n}));
  EXPECT_LT(count(uneven, Preconditioner::jacobi), count(uneven, Preconditioner::none) / 2);
}

// The loop may end at any iteration; a longer limit gives the same result as a shorter one that suffices.
TYPED_TEST(PcgTest, EndsWhenAllAreDone) {
  const auto problem = this->plain({13, 12}, 300, Prior::tikhonov);
  const auto b = Random(26).normals(2 * 156);
  PcgOptions options;
  options.lambda = 0.1;
  for (const Preconditioner preconditioner : kPreconditioners) {
    options.preconditioner = preconditioner;
    std::vector<cfloat> x(b.size()), y(b.size());
    options.iterations = 10000;
    const auto longer = this->solve(problem, b, x, options);
    int needed = 0;
    for (const auto& item : longer.items) {
      EXPECT_EQ(item.status, PcgStatus::converged);
      needed = std::max(needed, item.iterations);
    }
    options.iterations = needed;
    const auto enough = this->solve(problem, b, y, options);
    EXPECT_EQ(x, y);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(enough.items[i].residuals, longer.items[i].residuals);
    options.iterations = needed - 1;
    std::fill(y.begin(), y.end(), cfloat());
    const auto less = this->solve(problem, b, y, options);
    EXPECT_TRUE(std::any_of(less.items.begin(), less.items.end(),
                            [](const PcgItem& item) { return item.status == PcgStatus::iterations_used; }));
  }
}

/// Like another operator, but never part of a graph: as with several members, or drivers that have no such graphs.
class NotRecorded final : public LinearOperator {
 public:
  explicit NotRecorded(std::shared_ptr<const LinearOperator> same) : same_(std::move(same)) {}
  const Shape& image() const override { return same_->image(); }
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override {
    ++applied;
    same_->apply(context, x, y);
  }
  void diagonal(Context& context, DeviceView<float> to) const override { same_->diagonal(context, to); }
  bool circulant(Context& context, DeviceView<float> eigenvalues, DeviceView<float> share) const override {
    return same_->circulant(context, eigenvalues, share);
  }
  bool can_be_recorded() const override { return false; }
  mutable int applied = 0;  ///< how often

 private:
  std::shared_ptr<const LinearOperator> same_;
};

// The same kernels on the same numbers in the same order.
TYPED_TEST(PcgTest, RecordedOrNotTheBitsAreTheSame) {
  for (Problem problem :
       {this->plain({13, 12}, 300, Prior::edges), this->sense({9, 8, 7}, 900, 3, Prior::smoothness)}) {
    const auto b = Random(27).normals(2 * static_cast<std::size_t>(problem.image.size()));
    for (const Preconditioner preconditioner : kPreconditioners)
      for (const int iterations : {1, fewer(7, 3), fewer(20, 7)}) {
        const PcgOptions options{.iterations = iterations, .preconditioner = preconditioner, .lambda = 0.01};
        Problem plain = problem;
        plain.op = std::make_shared<NotRecorded>(problem.op);
        std::vector<cfloat> x(b.size()), y(b.size());
        const auto recorded = this->solve(problem, b, x, options), not_recorded = this->solve(plain, b, y, options);
        EXPECT_EQ(x, y);
        for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(recorded.items[i].residuals, not_recorded.items[i].residuals);
      }
  }
}

// A 0 = 0 and b - 0 = b exactly, so that nothing differs but the time.
TYPED_TEST(PcgTest, FromZeroTheBitsAreThoseOfAStartOfZeros) {
  for (Problem problem : {this->plain({13, 12}, 300, Prior::edges), this->sense({9, 8, 7}, 900, 3, Prior::tikhonov)}) {
    const auto counted = std::make_shared<NotRecorded>(problem.op);
    problem.op = counted;
    const auto b = Random(28).normals(2 * static_cast<std::size_t>(problem.image.size()));
    for (const Preconditioner preconditioner : kPreconditioners) {
      PcgOptions options{.iterations = 5, .tolerance = 0, .preconditioner = preconditioner, .lambda = 0.01};
      const float bad = std::numeric_limits<float>::quiet_NaN();
      std::vector<cfloat> x(b.size()), y(b.size(), cfloat(bad, bad));
      counted->applied = 0;
      const auto zeros = this->solve(problem, b, x, options);
      const int with_zeros = std::exchange(counted->applied, 0);
      options.from_zero = true;
      const auto from_zero = this->solve(problem, b, y, options);
      EXPECT_EQ(x, y);
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(zeros.items[i].residuals, from_zero.items[i].residuals);
      EXPECT_EQ(counted->applied, with_zeros - 1);
    }
  }
}

TYPED_TEST(PcgTest, LargestEigenvalue) {
  for (const bool coils : {false, true}) {
    const auto problem =
        coils ? this->sense({13, 12}, 200, 3, Prior::tikhonov) : this->plain({7, 6, 5}, 400, Prior::tikhonov);
    const double largest =
        Eigen::SelfAdjointEigenSolver<Eigen::MatrixXcd>(problem.a, Eigen::EigenvaluesOnly).eigenvalues().maxCoeff();
    const double found = largest_eigenvalue(this->context(), *problem.op);
    EXPECT_LT(found, largest * (1 + 1e-5));
    EXPECT_GT(found, largest * 0.9);
    EXPECT_NEAR(largest_eigenvalue(this->context(), *problem.op, 300), largest, 1e-3 * largest);
    EXPECT_EQ(found, largest_eigenvalue(this->context(), *problem.op));
    // lambda is relative to this eigenvalue.
    auto b = this->upload(Random(27).normals(problem.image.size()), with_batch(1, problem.image));
    auto x = this->context().template zeros<cfloat>(b.shape());
    PcgOptions options;
    options.iterations = 1;
    options.lambda = 0.5;
    EXPECT_DOUBLE_EQ(pcg(this->context(), *problem.op, problem.regularizer.get(), b.cview(), x.view(), options).lambda,
                     0.5 * found);
  }
  const auto nothing = this->context().template zeros<cfloat>({12, 10});
  const PlainNormal zero(std::make_shared<const ToeplitzOperator>(this->context(), nothing.cview()));
  EXPECT_EQ(largest_eigenvalue(this->context(), zero), 0);
}

TYPED_TEST(PcgTest, RefusesWhatDoesNotFit) {
  Context& context = this->context();
  const auto problem = this->plain({6, 5}, 60, Prior::tikhonov);
  auto b = context.template zeros<cfloat>({1, 6, 5}), x = context.template zeros<cfloat>({1, 6, 5}),
       other = context.template zeros<cfloat>({1, 5, 6}), two = context.template zeros<cfloat>({2, 6, 5});
  const auto refused = [&](DeviceView<const cfloat> right, DeviceView<cfloat> image, const PcgOptions& options,
                           const Regularizer* regularizer = nullptr) {
    EXPECT_THROW(pcg(context, *problem.op, regularizer, right, image, options), std::invalid_argument);
  };
  refused(b.cview(), two.view(), {});
  refused(other.cview(), other.view(), {});
  refused(b.cview(), x.view(), {}, tikhonov({5, 6}).get());
  refused(b.cview(), x.view(), {.iterations = -1});
  refused(b.cview(), x.view(), {.tolerance = -1});
  refused(b.cview(), x.view(), {.tolerance = std::numeric_limits<double>::quiet_NaN()});
  refused(b.cview(), x.view(), {.lambda = -1});
  refused(b.cview(), x.view(), {.lambda = std::numeric_limits<double>::infinity()});
  EXPECT_TRUE(pcg(context, *problem.op, nullptr, DeviceView<const cfloat>(nullptr, {0, 6, 5}),
                  DeviceView<cfloat>(nullptr, {0, 6, 5}), {})
                  .items.empty());
  const auto t = this->toeplitz(make_sampling(2, 60, 1), {6, 5});
  EXPECT_THROW(SenseNormal(context, t, context.template zeros<cfloat>({2, 5, 6})), std::invalid_argument);
  EXPECT_THROW(SenseNormal(context, t, context.template zeros<cfloat>({2, 6, 5})), std::invalid_argument);
  std::vector<cfloat> maps(60, cfloat(1));
  maps[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(SenseNormal(context, t, this->upload(maps, {2, 6, 5})), std::invalid_argument);
}

TEST(PcgThreads, DoNotShow) {
  testing::expect_same_bits(3, [](Context& context, const testing::NoteBits& note) {
    const Shape image{50, 41};
    const Sampling s = make_sampling(2, 900, 41);
    auto q = context.allocate<cfloat>({100, 82});
    point_spread(context, {s.k.data(), {900, 2}}, {}, image, VoxelBasis::delta, q.view());
    const PlainNormal a(std::make_shared<const ToeplitzOperator>(context, q.cview()));
    const auto right = Random(42).normals(2 * image.size());
    const auto b = context.upload<cfloat>({right.data(), with_batch(2, image)});
    for (const Preconditioner preconditioner : kPreconditioners) {
      auto x = context.zeros<cfloat>(with_batch(2, image));
      pcg(context, a, smoothness(image).get(), b.view(), x.view(),
          {.iterations = 10, .preconditioner = preconditioner, .lambda = 1e-2});
      note(x.data(), x.size(), "pcg");
    }
  });
}

}  // namespace
}  // namespace echotrain::numerics
