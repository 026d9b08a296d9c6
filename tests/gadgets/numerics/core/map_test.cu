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

/// Counts the calls for the last element of [z, y, x], and those for elements outside.
struct CountedCorner {
  std::int64_t nz, ny, nx;
  std::int32_t* counts;
  ECHOTRAIN_EACH void operator()(std::int64_t z, std::int64_t y, std::int64_t x) const {
    const bool inside = z >= 0 && z < nz && y >= 0 && y < ny && x >= 0 && x < nx;
    if (z == nz - 1 && y == ny - 1 && x == nx - 1) ++counts[0];
    if (!inside) ++counts[1];
  }
};
ECHOTRAIN_MAP(CountedCorner, 3)

struct Halved {
  cfloat* values;
  ECHOTRAIN_EACH void operator()(std::int64_t i) const { store(0.5f * load(values + i) * Complex{0, 1}, values + i); }
};
ECHOTRAIN_MAP(Halved, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <random>
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

TYPED_TEST(MapTest, UpTo31BitsAndMore) {
  // A GPU finds an element's indices by products where its number has 31 bits: [3, 5, 143165576] is the last such one.
  const bool all = this->context().cuda() && fewer(true, false);
  for (const std::int64_t n : {std::int64_t{1031}, std::int64_t{143165576}, std::int64_t{143165577}}) {
    if (n > 1031 && !all) continue;
    auto counts = this->context().template zeros<std::int32_t>({2});
    numerics::map(this->context(), {3, 5, n}, numerics::CountedCorner{3, 5, n, counts.data()});
    EXPECT_EQ(this->download(counts), (std::vector<std::int32_t>{1, 0})) << n;
  }
}

TEST(MapDivisor, DividesAsTheMachineDoes) {
  constexpr std::int64_t kMost = INT32_MAX;
  std::mt19937 random(3);
  std::vector<std::int64_t> divisors{1, 2, 3, 7, 641, 65535, 65536, 65537, kMost / 2, 1 << 30, (1 << 30) + 1, kMost};
  std::uniform_int_distribution<std::int64_t> any(1, kMost);
  for (int i = 0; i < 200; ++i) divisors.push_back(any(random) >> (i % 31) | 1);
  for (const std::int64_t d : divisors) {
    const numerics::map_details::Divisor by(static_cast<std::uint64_t>(d));
    std::vector<std::int64_t> numbers{0, 1, kMost};
    for (int i = 0; i < 50; ++i) {
      const std::int64_t multiple = any(random) / d * d;  // where quotients change
      for (const std::int64_t n : {multiple - 1, multiple, multiple + 1, any(random)})
        if (n >= 0 && n <= kMost) numbers.push_back(n);
    }
    for (const std::int64_t n : numbers) ASSERT_EQ(by(n), n / d) << n << " / " << d;
  }
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
