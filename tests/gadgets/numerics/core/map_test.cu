// Functors get each element of an array once, by its indices or with its neighbours.
#include "gadgets/numerics/core/map.cuh"

namespace echotrain::numerics {

/// Counts the calls for an element, and leaves what they were told.
struct CountedIndices {
  std::int64_t ny, nx;
  std::int32_t* counts;
  ECHOTRAIN_EACH void operator()(std::int64_t z, std::int64_t y, std::int64_t x) const {
    ++counts[(z * ny + y) * nx + x];
  }
};
ECHOTRAIN_MAP(CountedIndices, 3)

struct CountedLanes {
  static constexpr int kLanes[] = {0, 0, 7};
  static constexpr bool kClones = true;
  std::int64_t ny, nx;
  std::int32_t* counts;
  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t z, std::int64_t y, Lanes<kMost> x) const {
    for (int l = 0; l < x.count; ++l) ++counts[(z * ny + y) * nx + x.first + l];
  }
};
ECHOTRAIN_MAP(CountedLanes, 3)

/// Lanes along two axes.
struct CountedBlocks {
  static constexpr int kLanes[] = {3, 0, 16};
  std::int64_t ny, nx;
  std::int32_t* counts;
  template <int kDeep, int kWide>
  ECHOTRAIN_EACH void operator()(Lanes<kDeep> z, std::int64_t y, Lanes<kWide> x) const {
    for (int k = 0; k < z.count; ++k)
      for (int l = 0; l < x.count; ++l) ++counts[((z.first + k) * ny + y) * nx + x.first + l];
  }
};
ECHOTRAIN_MAP(CountedBlocks, 3)

struct Halved {
  cfloat* values;
  ECHOTRAIN_EACH void operator()(std::int64_t i) const { store(0.5f * load(values + i) * Complex{0, 1}, values + i); }
};
ECHOTRAIN_MAP(Halved, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <stop_token>

#include "tests/support/backends.h"

namespace echotrain::testing {
namespace {

using numerics::cfloat;

template <class B>
class MapTest : public OnBackend<B> {
 protected:
  /// The numbers of calls for the elements of [nz, ny, nx].
  template <class F>
  std::vector<std::int32_t> counts(std::int64_t nz, std::int64_t ny, std::int64_t nx, std::int64_t grain) {
    auto to = this->context().template zeros<std::int32_t>({nz, ny, nx});
    numerics::map(this->context(), {nz, ny, nx}, F{ny, nx, to.data()}, grain);
    return this->download(to);
  }
};
TYPED_TEST_SUITE(MapTest, Backends, BackendNames);

TYPED_TEST(MapTest, EachElementOnce) {
  for (const std::int64_t grain : {std::int64_t{1}, std::int64_t{10}, numerics::kMapGrain})
    for (const auto& n : std::vector<std::array<std::int64_t, 3>>{
             {1, 1, 1}, {5, 3, 14}, {4, 1, 17}, {1, 1, 1000}, {2, 300, 1}, {7, 13, 29}}) {
      const std::vector<std::int32_t> once(static_cast<std::size_t>(n[0] * n[1] * n[2]), 1);
      EXPECT_EQ(this->template counts<numerics::CountedIndices>(n[0], n[1], n[2], grain), once);
      EXPECT_EQ(this->template counts<numerics::CountedLanes>(n[0], n[1], n[2], grain), once);
      EXPECT_EQ(this->template counts<numerics::CountedBlocks>(n[0], n[1], n[2], grain), once);
    }
}

TYPED_TEST(MapTest, AnArrayWithoutElementsIsLeft) {
  numerics::map(this->context(), {0}, numerics::Halved{nullptr});
  numerics::map(this->context(), {3, 0, 2}, numerics::CountedLanes{0, 2, nullptr});
}

TYPED_TEST(MapTest, ComplexNumbers) {
  auto values = this->upload(std::vector<cfloat>{{2, 4}, {-6, 0}}, {2});
  numerics::map(this->context(), {2}, numerics::Halved{values.data()});
  EXPECT_EQ(this->download(values), (std::vector<cfloat>{{-2, 1}, {0, -3}}));
}

TYPED_TEST(MapTest, AStoppedScanBeginsNone) {
  std::stop_source stop;
  numerics::Context context(TypeParam::kBackend, test_resources(), {.stop_token = stop.get_token()});
  stop.request_stop();
  EXPECT_THROW(numerics::map(context, {2}, numerics::Halved{nullptr}), numerics::Stopped);
}

}  // namespace
}  // namespace echotrain::testing
#endif
