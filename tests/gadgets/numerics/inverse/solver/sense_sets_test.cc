// Several sets of coil maps against the matrix written out in float64.
#include "gadgets/numerics/inverse/solver/pcg.h"
#include "tests/support/solver_problem.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::make_sampling;
using testing::Random;
using testing::Sampling;
using testing::with_batch;

template <class B>
class SenseSetsTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(SenseSetsTest, Backends, testing::BackendNames);

/// sum_c [S_1c, S_2c ..]^H T [S_1c, S_2c ..]. maps: [set, coil, voxel].
Eigen::MatrixXcd written_out(const Eigen::MatrixXcd& t, const std::vector<cfloat>& maps, std::int64_t sets) {
  const std::int64_t n = t.rows(), coils = static_cast<std::int64_t>(maps.size()) / n / sets;
  Eigen::MatrixXcd a = Eigen::MatrixXcd::Zero(sets * n, sets * n);
  for (std::int64_t c = 0; c < coils; ++c) {
    Eigen::MatrixXcd s(n, sets * n);
    for (std::int64_t i = 0; i < sets; ++i) {
      const auto begin = maps.begin() + (i * coils + c) * n;
      s.middleCols(i * n, n) = testing::vector({begin, begin + n}).asDiagonal();
    }
    a += s.adjoint() * t * s;
  }
  return a;
}

TYPED_TEST(SenseSetsTest, AreTheMatrixWrittenOut) {
  Context& context = this->context();
  for (const Shape& image : {Shape{7, 6}, Shape{3, 4, 5}}) {
    const std::int64_t coils = 4, n = image.size();
    const Sampling s = make_sampling(image.rank(), 80, 1);
    const Eigen::MatrixXcd t = testing::gram_matrix(s.k, s.w, image);
    for (const std::int64_t sets : {1, 2, 3}) {
      SCOPED_TRACE(image.text() + " " + std::to_string(sets));
      const auto maps = Random(2).normals(sets * coils * n), x = Random(3).normals(2 * sets * n);
      const Eigen::MatrixXcd a = written_out(t, maps, sets);
      const SenseNormal op(context, testing::make_toeplitz(context, s, image),
                           this->upload(maps, with_batch(sets * coils, image)), alone(), sets);
      EXPECT_EQ(op.image().size(), sets * n);
      const auto there = this->upload(x, with_batch(2, op.image()));
      auto y = context.template allocate<cfloat>(there.shape());
      op.apply(context, there.cview(), y.view());
      const auto got = this->download(y);
      auto diagonal = context.template allocate<float>(op.image());
      op.diagonal(context, diagonal.view());
      const auto on_diagonal = this->download(diagonal);
      for (std::int64_t i = 0; i < sets * n; ++i)
        EXPECT_NEAR(static_cast<double>(on_diagonal[static_cast<std::size_t>(i)]), a(i, i).real(), 1e-5 * a.norm());
      for (std::int64_t item = 0; item < 2; ++item) {
        const Eigen::VectorXcd truth =
            a * testing::vector({x.begin() + item * sets * n, x.begin() + (item + 1) * sets * n});
        const Eigen::VectorXcd found =
            testing::vector({got.begin() + item * sets * n, got.begin() + (item + 1) * sets * n});
        EXPECT_LT((found - truth).norm(), 1e-5 * truth.norm());
      }
      auto eigenvalues = context.template allocate<float>(op.image()),
           share = context.template allocate<float>(op.image());
      EXPECT_EQ(op.circulant(context, eigenvalues.view(), share.view()), sets == 1);
    }
  }
}

// The solver takes the images of both sets as one longer image.
TYPED_TEST(SenseSetsTest, AreSolvedFor) {
  Context& context = this->context();
  const Shape image{6, 7};
  const std::int64_t coils = 6, sets = 2, n = image.size();
  const Sampling s = make_sampling(2, 120, 4);
  const auto maps = Random(5).normals(sets * coils * n), x = Random(6).normals(sets * n);
  const Eigen::MatrixXcd a = written_out(testing::gram_matrix(s.k, s.w, image), maps, sets);
  const SenseNormal op(context, testing::make_toeplitz(context, s, image),
                       this->upload(maps, with_batch(sets * coils, image)), alone(), sets);
  const double lambda = 0.05, largest = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXcd>(a).eigenvalues().maxCoeff();
  const Eigen::VectorXcd b = a * testing::vector(x);
  std::vector<cfloat> right;
  for (std::int64_t i = 0; i < b.size(); ++i) right.push_back(cfloat(b[i]));
  const Eigen::VectorXcd truth =
      (a + lambda * largest * Eigen::MatrixXcd::Identity(sets * n, sets * n)).ldlt().solve(testing::vector(right));
  for (const Preconditioner how : {Preconditioner::none, Preconditioner::jacobi}) {
    const auto b_there = this->upload(right, with_batch(1, op.image()));
    auto solution = context.template zeros<cfloat>(b_there.shape());
    pcg(context, op, tikhonov(op.image()).get(), b_there.cview(), solution.view(),
        {.iterations = 200, .tolerance = 1e-6, .preconditioner = how, .lambda = lambda, .largest_eigenvalue = largest});
    EXPECT_LT((testing::vector(this->download(solution)) - truth).norm(), 1e-4 * truth.norm());
  }
  auto solution = context.template zeros<cfloat>(with_batch(1, op.image()));
  EXPECT_THROW(
      pcg(context, op, nullptr, solution.cview(), solution.view(), {.preconditioner = Preconditioner::circulant}),
      std::invalid_argument);
}

TYPED_TEST(SenseSetsTest, RefuseMapsThatAreNoSets) {
  Context& context = this->context();
  const Shape image{6, 7};
  const auto toeplitz = testing::make_toeplitz(context, make_sampling(2, 20, 7), image);
  const auto maps = this->upload(Random(8).normals(5 * image.size()), with_batch(5, image));
  EXPECT_NO_THROW(SenseNormal(context, toeplitz, maps, alone(), 5));
  EXPECT_THROW(SenseNormal(context, toeplitz, maps, alone(), 2), std::invalid_argument);
  EXPECT_THROW(SenseNormal(context, toeplitz, maps, alone(), 0), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
