// Singular values of blocks against Eigen's decomposition of each, in float64.
#include "gadgets/numerics/inverse/sparse/low_rank.h"

#include <Eigen/SVD>

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using testing::relative_error;

/// A series shrunk block by block, and the sum of singular values before that.
struct PlainLowRank {
  std::vector<cdouble> series;
  double sum = 0;
};

PlainLowRank plain_low_rank(const std::vector<cfloat>& x, const Shape& n, const LowRankBlocks& blocks,
                            double threshold) {
  PlainLowRank out{{x.begin(), x.end()}, 0};
  std::array<std::int64_t, 3> extent{};
  for (std::size_t a = 0; a < 3; ++a) extent[a] = std::min(blocks.extent, n[a + 1]);
  const std::int64_t size = n[1] * n[2] * n[3];
  for (std::int64_t z = 0; z < n[1]; z += extent[0])
    for (std::int64_t y = 0; y < n[2]; y += extent[1])
      for (std::int64_t r = 0; r < n[3]; r += extent[2]) {
        std::vector<std::int64_t> voxels;
        for (std::int64_t k = z; k < std::min(z + extent[0], n[1]); ++k)
          for (std::int64_t j = y; j < std::min(y + extent[1], n[2]); ++j)
            for (std::int64_t i = r; i < std::min(r + extent[2], n[3]); ++i)
              voxels.push_back(((k + blocks.shift[0]) % n[1] * n[2] + (j + blocks.shift[1]) % n[2]) * n[3] +
                               (i + blocks.shift[2]) % n[3]);
        Eigen::MatrixXcd matrix(static_cast<std::int64_t>(voxels.size()), n[0]);
        const auto at = [&](std::int64_t f, std::int64_t v) {
          return static_cast<std::size_t>(f * size + voxels[static_cast<std::size_t>(v)]);
        };
        for (std::int64_t f = 0; f < n[0]; ++f)
          for (std::int64_t v = 0; v < matrix.rows(); ++v) matrix(v, f) = cdouble(x[at(f, v)]);
        const Eigen::JacobiSVD<Eigen::MatrixXcd> svd(matrix, Eigen::ComputeThinU | Eigen::ComputeThinV);
        out.sum += svd.singularValues().sum();
        const Eigen::VectorXd kept = (svd.singularValues().array() - threshold).max(0);
        const Eigen::MatrixXcd shrunk = svd.matrixU() * kept.cast<cdouble>().asDiagonal() * svd.matrixV().adjoint();
        for (std::int64_t f = 0; f < n[0]; ++f)
          for (std::int64_t v = 0; v < matrix.rows(); ++v) out.series[at(f, v)] = shrunk(v, f);
      }
  return out;
}

template <class B>
class LowRankTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(LowRankTest, Backends, testing::BackendNames);

TYPED_TEST(LowRankTest, IsTheDecompositionOfEachBlock) {
  for (const auto& [n, blocks] : std::vector<std::pair<Shape, LowRankBlocks>>{
           {{6, 1, 16, 16}, {8, {}}},
           {{7, 1, 13, 9}, {4, {0, 5, 8}}},  // the last blocks are smaller, and some have fewer voxels than frames
           {{1, 1, 8, 8}, {4, {}}},          // one frame
           {{20, 3, 4, 5}, {2, {2, 3, 1}}},  // more frames than voxels
           {{2, 5, 6, 1}, {3, {}}},          // planes in another direction
           {{33, 1, 8, 8}, {8, {0, 1, 0}}}}) {
    auto x = Random(4).normals(n.size());
    // Two frames are alike, so that small singular values are there, too.
    for (std::int64_t i = 0; i < n.size() / n[0] && n[0] > 1; ++i)
      x[static_cast<std::size_t>(i + n.size() / n[0])] = 2.0f * x[static_cast<std::size_t>(i)];
    for (const double threshold : {0.0, 1.5, 4.0}) {
      const PlainLowRank truth = plain_low_rank(x, n, blocks, threshold);
      auto there = this->upload(x, n);
      EXPECT_NEAR(sum_of_singular_values(this->context(), blocks, there.cview()) / truth.sum, 1, 1e-6) << n.text();
      EXPECT_EQ(this->download(there), x);
      shrink_singular_values(this->context(), blocks, threshold, there.view());
      EXPECT_LT(relative_error(this->download(there), truth.series, x.size()), 2e-6) << n.text() << threshold;
    }
  }
}

TYPED_TEST(LowRankTest, NothingStaysNothing) {
  auto there = this->context().template zeros<cfloat>({4, 1, 8, 8});
  shrink_singular_values(this->context(), {4, {}}, 1, there.view());
  for (const cfloat v : this->download(there)) ASSERT_EQ(v, cfloat{});
  EXPECT_EQ(sum_of_singular_values(this->context(), {4, {}}, there.cview()), 0);
}

TYPED_TEST(LowRankTest, RefusesWhatDoesNotFit) {
  auto there = this->context().template zeros<cfloat>({4, 1, 8, 8});
  Context& context = this->context();
  EXPECT_THROW(shrink_singular_values(context, {0, {}}, 1, there.view()), std::invalid_argument);
  EXPECT_THROW(shrink_singular_values(context, {8, {}}, -1, there.view()), std::invalid_argument);
  EXPECT_THROW(shrink_singular_values(context, {8, {0, 8, 0}}, 1, there.view()), std::invalid_argument);
  EXPECT_THROW(count(LowRankBlocks{8, {}}, {8, 8}), std::invalid_argument);
  EXPECT_THROW(count(LowRankBlocks{16, {}}, {kMostLowRank + 1, 1, 16, 16}), std::invalid_argument);
  EXPECT_THROW(count(LowRankBlocks{64, {}}, {3, 64, 64, 64}), std::invalid_argument);  // 786432 numbers
  EXPECT_EQ(count(LowRankBlocks{64, {}}, {2, 64, 64, 64}), 1);
  EXPECT_EQ(count(LowRankBlocks{5, {}}, {kMostLowRank + 1, 1, 16, 9}), 8);
}

}  // namespace
}  // namespace echotrain::numerics
