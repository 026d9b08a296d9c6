// Sums and thresholds against loops in float64.
#include "gadgets/numerics/inverse/proximal/vectors.h"

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using testing::relative_error;

constexpr double kVectorError = 1e-6;

template <class B>
class VectorsTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(VectorsTest, Backends, testing::BackendNames);

TYPED_TEST(VectorsTest, AreAddedUp) {
  for (const std::int64_t n : {1, 5, 40001}) {
    const auto x = Random(1).normals(n), y = Random(2).normals(n), z = Random(3).normals(n);
    auto a = this->upload(x, {n}), b = this->upload(y, {n}), c = this->upload(z, {n});
    auto to = this->context().template zeros<cfloat>({n});
    weighted_sum(this->context(), {0.5, a.cview()}, {-2, b.cview()}, {3, c.cview()}, to.view());
    std::vector<cdouble> three, two;
    for (std::size_t i = 0; i < x.size(); ++i) {
      three.push_back(0.5 * cdouble(x[i]) - 2.0 * cdouble(y[i]) + 3.0 * cdouble(z[i]));
      two.push_back(cdouble(x[i]) - 2.0 * cdouble(y[i]));
    }
    EXPECT_LT(relative_error(this->download(to), three, three.size()), kVectorError);
    weighted_sum(this->context(), {1, a.cview()}, {-2, b.cview()}, a.view());
    EXPECT_LT(relative_error(this->download(a), two, two.size()), kVectorError);
    weighted_sum(this->context(), {}, {1, b.cview()}, to.view());
    EXPECT_EQ(this->download(to), y);
  }
}

TYPED_TEST(VectorsTest, AreShrunkTogether) {
  constexpr double kThreshold = 1.25;
  for (const std::int64_t parts : {1, 3}) {
    const std::int64_t n = 5003;
    auto x = Random(4).normals(parts * n);
    for (std::int64_t p = 0; p < parts; ++p) x[static_cast<std::size_t>(p * n + 7)] = 0;
    auto shrunk = this->upload(x, {parts, n}), clipped = this->upload(x, {parts, n});
    std::vector<cdouble> left, taken;
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      double squares = 0;
      for (std::int64_t p = 0; p < parts; ++p)
        squares += std::norm(cdouble(x[static_cast<std::size_t>(p * n) + i % static_cast<std::size_t>(n)]));
      const double size = std::sqrt(squares), factor = size > kThreshold ? 1 - kThreshold / size : 0;
      left.push_back(factor * cdouble(x[i]));
      taken.push_back((1 - factor) * cdouble(x[i]));
      if (i < static_cast<std::size_t>(n)) sum += size;
    }
    EXPECT_NEAR(sum_of_magnitudes(this->context(), shrunk.cview()) / sum, 1, kVectorError);
    shrink(this->context(), kThreshold, shrunk.view());
    clip(this->context(), kThreshold, clipped.view());
    EXPECT_LT(relative_error(this->download(shrunk), left, left.size()), kVectorError);
    EXPECT_LT(relative_error(this->download(clipped), taken, taken.size()), kVectorError);
  }
}

TYPED_TEST(VectorsTest, RefuseWhatDoesNotFit) {
  auto a = this->context().template zeros<cfloat>({4}), b = this->context().template zeros<cfloat>({5});
  EXPECT_THROW(weighted_sum(this->context(), {1, a.cview()}, {1, b.cview()}, a.view()), std::invalid_argument);
  EXPECT_THROW(shrink(this->context(), -1, a.view()), std::invalid_argument);
  EXPECT_THROW(clip(this->context(), std::nan(""), a.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
