// Parts of coil arrays against their definitions.
#include "gadgets/numerics/mri/coils/coil_regions.h"

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using namespace testing;

template <class B>
class CoilRegionsTest : public OnBackend<B> {};
TYPED_TEST_SUITE(CoilRegionsTest, Backends, BackendNames);

TYPED_TEST(CoilRegionsTest, ARegionIsCutAndWeighed) {
  const Shape n{3, 4, 5, 7};
  const std::vector<cfloat> values = Random(1).normals(n.size());
  const auto from = this->upload(values, n);
  auto to = this->context().template allocate<cfloat>({3, 2, 3, 4});
  const std::array<std::vector<double>, 3> factors{{{0.5, 2}, {1, 0.25, 3}, {1, 0.7, 0.1, 2}}};
  cut_region(this->context(), from.cview(), {1, 2, 3}, factors, to.view());
  const std::vector<cfloat> got = this->download(to);
  for (std::size_t c = 0, i = 0; c < 3; ++c)
    for (std::size_t z = 0; z < 2; ++z)
      for (std::size_t y = 0; y < 3; ++y)
        for (std::size_t x = 0; x < 4; ++x, ++i) {
          const cdouble truth = factors[0][z] * factors[1][y] * factors[2][x] *
                                cdouble(values[((c * 4 + 1 + z) * 5 + 2 + y) * 7 + 3 + x]);
          ASSERT_LE(std::abs(cdouble(got[i]) - truth), 3e-7 * std::abs(truth)) << i;
        }
}

TYPED_TEST(CoilRegionsTest, MapsHaveUnitLength) {
  const std::int64_t coils = 5, nz = 3, ny = 6, nx = 9, z0 = 1, y0 = 1, x0 = 2;  // the middles of 3, 6, 9 and 1, 4, 5
  std::vector<cfloat> values = Random(2).normals(coils * nz * ny * nx);
  const auto at = [&](std::int64_t c, std::int64_t y, std::int64_t x) {
    return static_cast<std::size_t>(((c * nz + z0) * ny + y0 + y) * nx + x0 + x);
  };
  for (std::int64_t c = 0; c < coils; ++c) values[at(c, 2, 3)] = cfloat(1e-7f);
  const auto maps = this->upload(values, {coils, nz, ny, nx});
  auto to = this->context().template allocate<cfloat>({coils, 1, 4, 5});
  unit_maps(this->context(), maps.cview(), to.view());
  const std::vector<cfloat> got = this->download(to);
  for (std::int64_t y = 0; y < 4; ++y)
    for (std::int64_t x = 0; x < 5; ++x) {
      double power = 0;
      for (std::int64_t c = 0; c < coils; ++c) power += std::norm(cdouble(values[at(c, y, x)]));
      for (std::int64_t c = 0; c < coils; ++c) {
        const cdouble truth = power > 1e-12 ? cdouble(values[at(c, y, x)]) / std::sqrt(power) : cdouble(0);
        ASSERT_LE(std::abs(cdouble(got[static_cast<std::size_t>((c * 4 + y) * 5 + x)]) - truth), 1e-6) << y << " " << x;
      }
    }
}

TYPED_TEST(CoilRegionsTest, RefusesWhatDoesNotFit) {
  const auto from = this->context().template zeros<cfloat>({2, 4, 5, 6});
  auto to = this->context().template zeros<cfloat>({2, 2, 3, 4});
  const std::array<std::vector<double>, 3> ones{{{1, 1}, {1, 1, 1}, {1, 1, 1, 1}}};
  EXPECT_NO_THROW(cut_region(this->context(), from.cview(), {2, 2, 2}, ones, to.view()));
  EXPECT_THROW(cut_region(this->context(), from.cview(), {2, 2, 3}, ones, to.view()), std::invalid_argument);
  EXPECT_THROW(cut_region(this->context(), from.cview(), {-1, 2, 2}, ones, to.view()), std::invalid_argument);
  EXPECT_THROW(cut_region(this->context(), from.cview(), {0, 0, 0}, {{{1, 1}, {1, 1}, {1, 1, 1, 1}}}, to.view()),
               std::invalid_argument);
  EXPECT_THROW(unit_maps(this->context(), to.cview(), this->context().template zeros<cfloat>({2, 2, 3, 5}).view()),
               std::invalid_argument);
  EXPECT_THROW(unit_maps(this->context(), from.cview(), this->context().template zeros<cfloat>({1, 2, 3, 4}).view()),
               std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
