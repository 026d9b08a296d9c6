// The geometric mean of images, against the definition in float64.
#include "gadgets/numerics/inverse/fit/geometric_mean.h"

#include <cmath>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using namespace testing;

template <class B>
class GeometricMeanTest : public OnBackend<B> {};
TYPED_TEST_SUITE(GeometricMeanTest, Backends, BackendNames);

TYPED_TEST(GeometricMeanTest, IsTheRootOfTheProduct) {
  constexpr std::int64_t kVoxels = 61;
  std::vector<cfloat> values = Random(1).normals(5 * kVoxels);
  values[7] = 0;
  const auto from = this->upload(values, {5, kVoxels});
  auto to = this->context().template allocate<cfloat>({kVoxels});
  geometric_mean(this->context(), from.cview(), {4, 0, 2}, to.view());
  const std::vector<cfloat> got = this->download(to);
  for (std::size_t v = 0; v < kVoxels; ++v) {
    double product = 1;
    for (const std::size_t i : {4, 0, 2}) product *= std::abs(cdouble(values[i * kVoxels + v]));
    // Logarithms of some 5 with 1e-7 each, and an exponential.
    ASSERT_NEAR(got[v].real(), std::cbrt(product), 2e-6 * std::cbrt(product)) << v;
    ASSERT_EQ(got[v].imag(), 0);
  }
  EXPECT_EQ(got[7], cfloat(0));
}

TYPED_TEST(GeometricMeanTest, RefusesWhatDoesNotFit) {
  const auto from = this->context().template zeros<cfloat>({2, 5});
  auto to = this->context().template zeros<cfloat>({5}), other = this->context().template zeros<cfloat>({4});
  EXPECT_THROW(geometric_mean(this->context(), from.cview(), {2}, to.view()), std::invalid_argument);
  EXPECT_THROW(geometric_mean(this->context(), from.cview(), {}, to.view()), std::invalid_argument);
  EXPECT_THROW(geometric_mean(this->context(), from.cview(), {0}, other.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
