// ESPIRiT's maps that scans of the same reference lines share.
#include "gadgets/shared/cache/espirit_map_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/backends.h"

namespace echotrain {
namespace {

using numerics::Context;
using numerics::EspiritOptions;
using numerics::Shape;
using testing::BackendNames;
using testing::Backends;
using testing::OnBackend;
using testing::Random;

const Shape kLines{4, 1, 20, 18}, kMaps{4, 1, 24, 26}, kImage{1, 24, 26};

/// Points seen by coils with linear phases: low rank, so that there are maps.
std::vector<cfloat> lines() {
  Random random(3);
  std::vector<cfloat> out(static_cast<std::size_t>(kLines.size()));
  for (int source = 0; source < 5; ++source) {
    const double at = 0.2 * source - 0.4, strength = 1 + source;
    for (std::int64_t c = 0; c < 4; ++c)
      for (std::int64_t y = 0; y < 20; ++y)
        for (std::int64_t x = 0; x < 18; ++x)
          out[static_cast<std::size_t>((c * 20 + y) * 18 + x)] +=
              cfloat(std::polar(strength * std::exp(-std::abs(at - 0.2 * static_cast<double>(c))),
                                6.28 * at * static_cast<double>(x - y) + 0.3 * static_cast<double>(c)));
  }
  for (cfloat& v : out) v += 1e-3f * random.normal();
  return out;
}

template <class B>
class MapsCacheTest : public OnBackend<B> {
 protected:
  std::vector<cfloat> maps(Context& context, const std::vector<cfloat>& of, const EspiritOptions& options = {},
                           const Shape& image = kImage) {
    const Array<cfloat> there = context.upload<cfloat>({of.data(), kLines});
    const auto host = context.download<cfloat>(cached_espirit_maps(context, there, options, image).view());
    return {host.data(), host.data() + host.size()};
  }
  CacheCounts counts() { return this->context().resources().template get<EspiritMapCache>().counts(); }
};
TYPED_TEST_SUITE(MapsCacheTest, Backends, BackendNames);

TYPED_TEST(MapsCacheTest, GivesKeptMapsOfTheSameLinesOnly) {
  const auto same = lines();
  const auto first = this->maps(this->context(), same);
  const Array<cfloat> there = this->upload(same, kLines);
  Array<cfloat> made = this->context().template allocate<cfloat>(kMaps);
  numerics::espirit_maps(this->context(), there.cview(), {}, made.view());
  EXPECT_EQ(first, this->download(made));
  {
    Context other(TypeParam::kBackend, this->context().shared_resources());  // another client's scan
    EXPECT_EQ(this->maps(other, same), first);
  }
  EXPECT_EQ(this->counts().hits, 1u);
  EXPECT_EQ(this->counts().misses, 1u);
  // One bit of one sample, wherever it is, and each parameter.
  for (const std::size_t at : {std::size_t{0}, same.size() / 2, same.size() - 1}) {
    auto changed = same;
    changed[at] = cfloat(changed[at].real(), std::nextafter(changed[at].imag(), 1e9f));
    this->maps(this->context(), changed);
  }
  this->maps(this->context(), same, {.calibration = 16});
  this->maps(this->context(), same, {.kernel = 5});
  this->maps(this->context(), same, {.threshold = 0.021});
  this->maps(this->context(), same, {.crop = 0.81});
  this->maps(this->context(), same, {.sets = 2});
  this->maps(this->context(), same, {.sets = numerics::kSetsAsNeeded});
  this->maps(this->context(), same, {}, {1, 26, 24});
  EXPECT_EQ(this->counts().misses, 11u);
  EXPECT_EQ(this->counts().hits, 1u);
  EXPECT_EQ(this->maps(this->context(), same), first);
  EXPECT_EQ(this->counts().hits, 2u);
}

TYPED_TEST(MapsCacheTest, IsChargedAndGivesMemoryBack) {
  numerics::MemoryBudget& budget = *this->context().resources().memory();
  this->maps(this->context(), lines());
  const CacheCounts counts = this->counts();
  EXPECT_EQ(counts.entries, 1u);
  const auto size = static_cast<std::uint64_t>(kMaps.size()) * sizeof(cfloat);
  EXPECT_GE(counts.bytes, size);
  if (!this->context().cuda()) {  // a GPU's memory is no part of the machine's
    const std::uint64_t before = budget.used();
    EXPECT_GE(before, size);
    budget.evict_unused();
    EXPECT_LE(budget.used() + size, before);
    EXPECT_EQ(this->counts().entries, 0u);
  }
}

TEST(EspiritMapCache, KeepsNothingWhereOperatorsAreNotKept) {
  auto options = test_resource_options();
  options.operator_cache_bytes = 0;
  Context context(numerics::Backend::cpu, std::make_shared<numerics::Resources>(options));
  const auto values = lines();
  const Array<cfloat> there = context.upload<cfloat>({values.data(), kLines});
  const Array<cfloat> first = cached_espirit_maps(context, there, {}, kImage),
                      second = cached_espirit_maps(context, there, {}, kImage);
  EXPECT_NE(first.data(), second.data());
  EXPECT_TRUE(std::equal(first.data(), first.data() + first.size(), second.data()));
  EXPECT_EQ(context.resources().get<EspiritMapCache>().counts().entries, 0u);
}

}  // namespace
}  // namespace echotrain
