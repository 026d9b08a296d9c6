#include "gadgets/numerics/mri/coils/compression.h"

#include <Eigen/Eigenvalues>
#include <cmath>
#include <numbers>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using Eigen::MatrixXcd;
using testing::Backends;
using testing::Random;
using testing::relative_error;

template <class B>
class CompressionTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(CompressionTest, Backends, testing::BackendNames);

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
double distance(const std::vector<T>& values, const std::vector<cdouble>& right) {
  EXPECT_EQ(values.size(), right.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    error += std::norm(cdouble(values[i]) - right[i]);
    norm += std::norm(right[i]);
  }
  return std::sqrt(error / norm);
}

TYPED_TEST(CompressionTest, GramIsTheSumByDefinition) {
  for (const std::int64_t coils : {1, 5, 33}) {
    const std::int64_t readouts = 3, samples = 45;
    const auto values = Random(11).normals(readouts * coils * samples);
    const auto value = [&](std::int64_t i, std::int64_t c, std::int64_t s) {
      return cdouble(values[at((i * coils + c) * samples + s)]);
    };
    auto data = this->upload(values, {readouts, coils, samples});
    for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{0, samples}, {7, 44}, {20, 21}, {9, 9}}) {
      auto gram = this->context().template zeros<cdouble>({coils, coils});
      add_coil_gram(this->context(), data.cview(), first, last, gram.view());
      std::vector<cdouble> right(at(coils * coils));
      for (std::int64_t a = 0; a < coils; ++a)
        for (std::int64_t b = 0; b < coils; ++b)
          for (std::int64_t i = 0; i < readouts; ++i)
            for (std::int64_t s = first; s < last; ++s)
              right[at(a * coils + b)] += value(i, a, s) * std::conj(value(i, b, s));
      const auto got = this->download(gram);
      if (first == last) {
        EXPECT_EQ(got, right);
      } else {
        EXPECT_LT(distance(got, right), 1e-13) << coils << " coils, samples " << first << " to " << last;
      }
    }
    auto grams = this->context().template zeros<cdouble>({coils, coils, samples});
    add_coil_grams(this->context(), data.cview(), grams.view());
    std::vector<cdouble> right(at(coils * coils * samples));
    for (std::int64_t a = 0; a < coils; ++a)
      for (std::int64_t b = 0; b < coils; ++b)
        for (std::int64_t s = 0; s < samples; ++s)
          for (std::int64_t i = 0; i < readouts; ++i)
            right[at((a * coils + b) * samples + s)] += value(i, a, s) * std::conj(value(i, b, s));
    EXPECT_LT(distance(this->download(grams), right), 1e-13);
  }
}

TYPED_TEST(CompressionTest, GramHasTheSameBitsInAnyNumberOfCalls) {
  const std::int64_t readouts = 6, coils = 7, samples = 61;
  auto data = this->upload(Random(12).normals(readouts * coils * samples), {readouts, coils, samples});
  const auto of = [&](std::int64_t step) {
    auto gram = this->context().template zeros<cdouble>({coils, coils});
    auto grams = this->context().template zeros<cdouble>({coils, coils, samples});
    for (std::int64_t i = 0; i < readouts; i += step) {
      const auto part = data.cview().part(i * coils * samples, {step, coils, samples});
      add_coil_gram(this->context(), part, 3, 60, gram.view());
      add_coil_grams(this->context(), part, grams.view());
    }
    return std::pair{this->download(gram), this->download(grams)};
  };
  EXPECT_EQ(of(6), of(1));
  EXPECT_EQ(of(6), of(2));
}

TYPED_TEST(CompressionTest, CompressIsTheProductByDefinition) {
  for (const auto& [coils, kept] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {32, 10}, {5, 5}, {130, 3}})
    for (const std::int64_t samples : {1, 300})
      for (const bool each : {false, true}) {
        const std::int64_t readouts = 4, positions = each ? samples : 1;
        const auto values = Random(13).normals(readouts * coils * samples);
        const auto numbers = Random(14).normals(kept * coils * positions);
        auto data = this->upload(values, {readouts, coils, samples});
        auto matrix = this->upload(numbers, each ? Shape{kept, coils, samples} : Shape{kept, coils});
        auto to = this->context().template allocate<cfloat>({readouts, kept, samples});
        compress(this->context(), matrix.cview(), data.cview(), to.view());
        std::vector<cdouble> right(at(readouts * kept * samples));
        for (std::int64_t i = 0; i < readouts; ++i)
          for (std::int64_t k = 0; k < kept; ++k)
            for (std::int64_t c = 0; c < coils; ++c)
              for (std::int64_t s = 0; s < samples; ++s)
                right[at((i * kept + k) * samples + s)] +=
                    cdouble(numbers[at((k * coils + c) * positions + (each ? s : 0))]) *
                    cdouble(values[at((i * coils + c) * samples + s)]);
        EXPECT_LT(relative_error(this->download(to), right, right.size()), 2e-6)
            << coils << " to " << kept << ", " << samples << " samples, each: " << each;
      }
}

TYPED_TEST(CompressionTest, RefusesWrongShapes) {
  Context& context = this->context();
  auto data = context.template zeros<cfloat>({2, 4, 8});
  auto to = context.template zeros<cfloat>({2, 3, 8});
  auto matrix = context.template zeros<cfloat>({3, 4});
  auto each = context.template zeros<cfloat>({3, 4, 7});
  auto gram = context.template zeros<cdouble>({4, 4});
  auto grams = context.template zeros<cdouble>({4, 4, 8});
  EXPECT_THROW(compress(context, matrix.cview(), to.cview(), to.view()), std::invalid_argument);
  EXPECT_THROW(compress(context, matrix.cview(), data.cview(), data.view()), std::invalid_argument);
  EXPECT_THROW(compress(context, each.cview(), data.cview(), to.view()), std::invalid_argument);
  EXPECT_THROW(add_coil_gram(context, to.cview(), 0, 8, gram.view()), std::invalid_argument);
  EXPECT_THROW(add_coil_gram(context, data.cview(), 0, 9, gram.view()), std::invalid_argument);
  EXPECT_THROW(add_coil_gram(context, data.cview(), 5, 4, gram.view()), std::invalid_argument);
  EXPECT_THROW(add_coil_grams(context, to.cview(), grams.view()), std::invalid_argument);
  compress(context, matrix.cview(), data.cview(), to.view());
}

const ThreadPool& pool() {
  static const ThreadPool threads(2);
  return threads;
}

/// [row, column] as the functions here take and give it.
template <class T>
MatrixXcd matrix_of(const std::vector<T>& values, std::int64_t rows, std::int64_t columns) {
  MatrixXcd out(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) out(i, j) = cdouble(values[at(i * columns + j)]);
  return out;
}

/// A Gram matrix of the eigenvalues 1, 1/2, 1/4, ...
std::vector<cdouble> graded_gram(std::int64_t coils) {
  const MatrixXcd random = matrix_of(Random(15).normals(coils * coils), coils, coils);
  const MatrixXcd q = Eigen::SelfAdjointEigenSolver<MatrixXcd>(random + random.adjoint()).eigenvectors();
  Eigen::VectorXcd values(coils);
  for (std::int64_t i = 0; i < coils; ++i) values(i) = std::ldexp(1.0, -static_cast<int>(i));
  const MatrixXcd gram = q * values.asDiagonal() * q.adjoint();
  std::vector<cdouble> out;
  for (std::int64_t i = 0; i < coils; ++i)
    for (std::int64_t j = 0; j < coils; ++j) out.push_back(gram(i, j));
  return out;
}

TEST(CompressionByPca, RowsAreTheLargestEigenvectors) {
  constexpr std::int64_t kCoils = 12;
  const auto gram = graded_gram(kCoils);
  for (const std::int64_t kept : {1, 4, 12, 20}) {
    const Compression c = compression_by_pca(pool(), gram, kCoils, {.channels = kept});
    ASSERT_EQ(c.kept, std::min(kept, kCoils));
    EXPECT_EQ(c.samples, 0);
    const MatrixXcd v = matrix_of(c.matrix, c.kept, kCoils);
    // Orthonormal, and diagonal with the known eigenvalues: float32 rounding only.
    EXPECT_LT((v * v.adjoint() - MatrixXcd::Identity(c.kept, c.kept)).norm(), 1e-6);
    const MatrixXcd diagonal = v * matrix_of(gram, kCoils, kCoils) * v.adjoint();
    double held = 0;
    for (std::int64_t i = 0; i < c.kept; ++i) {
      const double value = std::ldexp(1.0, -static_cast<int>(i));
      EXPECT_NEAR(diagonal(i, i).real(), value, 1e-6);
      held += value;
      Eigen::Index largest = 0;
      v.row(i).cwiseAbs().maxCoeff(&largest);
      EXPECT_GT(v(i, largest).real(), 0);
      EXPECT_NEAR(v(i, largest).imag(), 0, 1e-7);
    }
    EXPECT_NEAR(c.energy, held / (2 - std::ldexp(1.0, 1 - static_cast<int>(kCoils))), 1e-12);
  }
}

TEST(CompressionByPca, KeepsAsFewAsHoldTheEnergy) {
  const auto gram = graded_gram(12);  // the first k eigenvalues hold 1 - 2^-k of the sum, but for 2^-12
  EXPECT_EQ(compression_by_pca(pool(), gram, 12, {.energy = 0.4}).kept, 1);
  EXPECT_EQ(compression_by_pca(pool(), gram, 12, {.energy = 0.74}).kept, 2);
  EXPECT_EQ(compression_by_pca(pool(), gram, 12, {.energy = 0.76}).kept, 3);
  EXPECT_EQ(compression_by_pca(pool(), gram, 12, {.energy = 0.995}).kept, 8);
}

TEST(CompressionByPca, RefusesWhatHasNoDirections) {
  EXPECT_THROW(compression_by_pca(pool(), std::vector<cdouble>(9), 3, {}), std::invalid_argument);
  EXPECT_THROW(compression_by_pca(pool(), std::vector<cdouble>(9, std::nan("")), 3, {}), std::invalid_argument);
  EXPECT_THROW(compression_by_pca(pool(), std::vector<cdouble>(8, 1.0), 3, {}), std::invalid_argument);
  EXPECT_THROW(compression_by_pca(pool(), graded_gram(3), 3, {.channels = -1}), std::invalid_argument);
  EXPECT_THROW(compression_by_pca(pool(), graded_gram(3), 3, {.energy = 1.1}), std::invalid_argument);
}

/// Coils whose signal at position x lies in a plane that turns with x: spanned by two fixed pairs of coils.
class TurningPlane {
 public:
  static constexpr std::int64_t kCoils = 6, kPositions = 64;
  /// Rows: the plane's basis at x.
  static MatrixXcd basis(std::int64_t x) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(x) / kPositions;
    MatrixXcd rows = MatrixXcd::Zero(2, kCoils);
    rows(0, 0) = std::cos(angle);
    rows(0, 1) = cdouble(0, std::sin(angle));
    rows(1, 2) = std::sin(angle);
    rows(1, 4) = std::cos(angle);
    return rows;
  }
  /// [coil, coil, position], with the strengths 2 and 1 in the plane, which change places along x, and `noise`.
  static std::vector<cdouble> grams(double noise) {
    std::vector<cdouble> out(at(kCoils * kCoils * kPositions));
    for (std::int64_t x = 0; x < kPositions; ++x) {
      const MatrixXcd rows = basis(x);
      const Eigen::Vector2cd strengths(x % 32 < 16 ? 2.0 : 1.0, x % 32 < 16 ? 1.0 : 2.0);
      const MatrixXcd gram =
          rows.adjoint() * strengths.asDiagonal() * rows + noise * MatrixXcd::Identity(kCoils, kCoils);
      for (std::int64_t a = 0; a < kCoils; ++a)
        for (std::int64_t b = 0; b < kCoils; ++b) out[at((a * kCoils + b) * kPositions + x)] = gram(a, b);
    }
    return out;
  }
};

TEST(GeometricCompression, FollowsAPlaneThatTurnsSmoothly) {
  ThreadPool threads(2);
  const Compression c = geometric_compression(threads, TurningPlane::grams(1e-6), TurningPlane::kCoils,
                                              TurningPlane::kPositions, {.energy = 0.9});
  ASSERT_EQ(c.kept, 2);
  ASSERT_EQ(c.samples, TurningPlane::kPositions);
  MatrixXcd before;
  for (std::int64_t x = 0; x < TurningPlane::kPositions; ++x) {
    MatrixXcd v(2, TurningPlane::kCoils);
    for (std::int64_t k = 0; k < 2; ++k)
      for (std::int64_t coil = 0; coil < TurningPlane::kCoils; ++coil)
        v(k, coil) = cdouble(c.matrix[at((k * TurningPlane::kCoils + coil) * TurningPlane::kPositions + x)]);
    EXPECT_LT((v * v.adjoint() - MatrixXcd::Identity(2, 2)).norm(), 1e-6);
    // Five positions are summed, turned by up to 0.2 to either side. Where the strengths change, the mean is off by a
    // third of that at most; at the ends the sum is on one side, off by half.
    const bool end = x < 2 || x > TurningPlane::kPositions - 3;
    const MatrixXcd plane = TurningPlane::basis(x);
    EXPECT_LT((v - v * plane.adjoint() * plane).norm(), end ? 0.15 : 0.07) << x;
    // From one position to the next, the plane turns by 0.098 in both directions: 0.14; at the ends somewhat more.
    if (x > 0) {
      EXPECT_LT((v - before).norm(), 0.2) << x;
    }
    before = v;
  }
}

TEST(GeometricCompression, CountsTheEnergyOfAllPositions) {
  ThreadPool threads(2);
  const auto of = [&](const CompressionOptions& options) {
    return geometric_compression(threads, TurningPlane::grams(0.01), TurningPlane::kCoils, TurningPlane::kPositions,
                                 options);
  };
  // 3.02 of 3.06 in the plane, of which summing neighbours puts 3 / 3.06 times the mean square of their angles beside
  // it: 2 steps^2.
  const double step = 2 * std::numbers::pi / TurningPlane::kPositions;
  EXPECT_NEAR(of({.channels = 2}).energy, 3.02 / 3.06 - 2 * step * step * 3 / 3.06, 0.001);
  EXPECT_EQ(of({.energy = 0.96}).kept, 2);
  EXPECT_EQ(of({.energy = 1.0}).kept, TurningPlane::kCoils);
  EXPECT_EQ(of({.channels = 5}).kept, 5);
}

TEST(GeometricCompression, RefusesWhatHasNoDirections) {
  ThreadPool threads(2);
  EXPECT_THROW(geometric_compression(threads, std::vector<cdouble>(36), 3, 4, {}), std::invalid_argument);
  EXPECT_THROW(geometric_compression(threads, std::vector<cdouble>(35, 1.0), 3, 4, {}), std::invalid_argument);
}

/// Coils that measure nothing in common, so that all are kept: each position's SVD would take seconds of 256 of them.
TEST(GeometricCompression, RefusesMoreThanItCanAlign) {
  ThreadPool threads(2);
  constexpr std::int64_t kCoils = kMostGeometric + 1;
  std::vector<cdouble> grams(static_cast<std::size_t>(kCoils * kCoils));
  for (std::int64_t c = 0; c < kCoils; ++c) grams[static_cast<std::size_t>(c * (kCoils + 1))] = 1.0;
  EXPECT_THROW(geometric_compression(threads, grams, kCoils, 1, {.energy = 1}), std::invalid_argument);
  EXPECT_EQ(geometric_compression(threads, grams, kCoils, 1, {.channels = kMostGeometric}).kept, kMostGeometric);
}

TEST(GeometricCompression, StopsWithTheScan) {
  std::stop_source stop;
  ThreadPool all(2);
  ThreadPool threads(all, stop.get_token());
  stop.request_stop();
  EXPECT_THROW(
      geometric_compression(threads, TurningPlane::grams(0.1), TurningPlane::kCoils, TurningPlane::kPositions, {}),
      Stopped);
}

}  // namespace
}  // namespace echotrain::numerics
