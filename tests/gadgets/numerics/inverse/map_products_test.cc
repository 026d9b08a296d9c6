// Products with coil maps against plain loops in float64.
#include "gadgets/numerics/inverse/operators/map_products.h"

#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

template <class B>
class MapProductsTest : public testing::OnBackend<B> {};
TYPED_TEST_SUITE(MapProductsTest, Backends, testing::BackendNames);

TYPED_TEST(MapProductsTest, AreThePlainSums) {
  Context& context = this->context();
  for (const std::int64_t sets : {1, 2})
    for (const std::int64_t frames : {1, 3}) {
      const std::int64_t coils = 5, n = 7 * 6;
      const auto maps = Random(1).normals(sets * coils * n), x = Random(2).normals(frames * sets * n),
                 d = Random(3).normals(frames * coils * n);
      std::vector<cdouble> spread(d.size()), gathered(x.size());
      for (std::int64_t f = 0; f < frames; ++f)
        for (std::int64_t i = 0; i < sets; ++i)
          for (std::int64_t c = 0; c < coils; ++c)
            for (std::int64_t v = 0; v < n; ++v) {
              const auto at_map = static_cast<std::size_t>((i * coils + c) * n + v),
                         at_x = static_cast<std::size_t>((f * sets + i) * n + v),
                         at_d = static_cast<std::size_t>((f * coils + c) * n + v);
              spread[at_d] += cdouble(maps[at_map]) * cdouble(x[at_x]);
              gathered[at_x] += std::conj(cdouble(maps[at_map])) * cdouble(d[at_d]);
            }
      const auto maps_there = this->upload(maps, {sets * coils, 7, 6}),
                 x_there = this->upload(x, {frames * sets, 7, 6}), d_there = this->upload(d, {frames * coils, 7, 6});
      auto to_coils = context.template allocate<cfloat>(d_there.shape());
      auto from_coils = context.template allocate<cfloat>(x_there.shape());
      spread_to_coils(context, maps_there.cview(), x_there.cview(), to_coils.view(), sets);
      gather_from_coils(context, maps_there.cview(), d_there.cview(), from_coils.view(), sets);
      EXPECT_LT(testing::relative_error(this->download(to_coils), spread, spread.size()), 1e-6);
      EXPECT_LT(testing::relative_error(this->download(from_coils), gathered, gathered.size()), 1e-6);
    }
}

TYPED_TEST(MapProductsTest, SetsJoinToOneImage) {
  const std::int64_t sets = 3, n = 20;
  auto x = Random(4).normals(sets * n);
  x[5] = 0;
  std::vector<cdouble> truth;
  for (std::int64_t v = 0; v < n; ++v) {
    double power = 0;
    for (std::int64_t i = 0; i < sets; ++i) power += std::norm(cdouble(x[static_cast<std::size_t>(i * n + v)]));
    truth.push_back(std::polar(std::sqrt(power), std::arg(cdouble(x[static_cast<std::size_t>(v)]))));
  }
  const auto there = this->upload(x, {sets, 4, 5});
  auto joined = this->context().template allocate<cfloat>({1, 4, 5});
  join_sets(this->context(), there.cview(), joined.view());
  EXPECT_LT(testing::relative_error(this->download(joined), truth, truth.size()), 1e-6);
  auto turned = this->context().template allocate<cfloat>({2, 4, 5});
  EXPECT_THROW(join_sets(this->context(), there.cview(), turned.view()), std::invalid_argument);
}

TYPED_TEST(MapProductsTest, RefuseOtherShapes) {
  Context& context = this->context();
  auto maps = context.template zeros<cfloat>({4, 3, 2}), one = context.template zeros<cfloat>({1, 3, 2}),
       two = context.template zeros<cfloat>({2, 3, 2}), turned = context.template zeros<cfloat>({1, 2, 3});
  auto coils = context.template zeros<cfloat>({4, 3, 2});
  EXPECT_NO_THROW(spread_to_coils(context, maps.cview(), one.cview(), coils.view()));
  EXPECT_NO_THROW(spread_to_coils(context, maps.cview(), two.cview(), two.view(), 2));
  EXPECT_THROW(spread_to_coils(context, maps.cview(), one.cview(), two.view()), std::invalid_argument);
  EXPECT_THROW(spread_to_coils(context, maps.cview(), turned.cview(), coils.view()), std::invalid_argument);
  EXPECT_THROW(gather_from_coils(context, maps.cview(), coils.cview(), one.view(), 2), std::invalid_argument);
  EXPECT_THROW(gather_from_coils(context, maps.cview(), coils.cview(), one.view(), 3), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
