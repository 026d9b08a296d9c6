// Means over frames that forget old ones, against float64.
#include "gadgets/numerics/layout/running_mean.h"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

template <class B>
class RunningMeanTest : public testing::OnBackend<B> {
 protected:
  /// The mean of frames [frame][element] that begins at `first`, with the share of frame f, from 0, by `share`.
  template <class Share>
  std::vector<cfloat> mean_of(const std::vector<std::vector<cfloat>>& frames, const std::vector<cfloat>& first,
                              const Share& share) {
    const auto n = static_cast<std::int64_t>(first.size());
    auto mean = this->upload(first, {1, n});
    for (std::size_t f = 0; f < frames.size(); ++f) {
      const auto next = this->upload(frames[f], {1, n});
      add_to_mean(this->context(), next.cview(), share(f), mean.view());
    }
    return this->download(mean);
  }
};
TYPED_TEST_SUITE(RunningMeanTest, Backends, testing::BackendNames);

constexpr std::int64_t kElements = 100003;  // no multiple of a block, and of many pieces and blocks

std::vector<std::vector<cfloat>> frames_of(int count) {
  Random random(5);
  std::vector<std::vector<cfloat>> out;
  for (int f = 0; f < count; ++f) out.push_back(random.normals(kElements));
  return out;
}

// Each step rounds three times, and values are below 6: 10 steps err by less than 10 * 3 * 6 * 2^-24 = 1.1e-5.
constexpr double kRounding = 1.1e-5;

template <class Expected>
double worst(const std::vector<cfloat>& mean, const Expected& expected) {
  double out = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) out = std::max(out, std::abs(cdouble(mean[i]) - expected(i)));
  return out;
}

TYPED_TEST(RunningMeanTest, SharesOfOneNthAreThePlainMean) {
  const auto frames = frames_of(10);
  const auto mean = this->mean_of(frames, std::vector<cfloat>(kElements),
                                  [](std::size_t f) { return 1 / static_cast<float>(f + 1); });
  EXPECT_LT(worst(mean,
                  [&](std::size_t i) {
                    cdouble sum = 0;
                    for (const auto& frame : frames) sum += cdouble(frame[i]);
                    return sum / 10.0;
                  }),
            kRounding);
}

TYPED_TEST(RunningMeanTest, AConstantShareForgets) {
  const auto frames = frames_of(10);
  const auto first = Random(6).normals(kElements);
  constexpr double kShare = 0.125;
  const auto mean = this->mean_of(frames, first, [](std::size_t) { return static_cast<float>(kShare); });
  EXPECT_LT(worst(mean,
                  [&](std::size_t i) {
                    cdouble sum = std::pow(1 - kShare, 10) * cdouble(first[i]);
                    for (std::size_t f = 0; f < 10; ++f)
                      sum += kShare * std::pow(1 - kShare, 9 - static_cast<double>(f)) * cdouble(frames[f][i]);
                    return sum;
                  }),
            kRounding);
}

// The other component of the element counts.
TYPED_TEST(RunningMeanTest, LeavesOutWhatIsNotFinite) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<cfloat> first{{1, 2}, {1, 2}, {1, 2}, {1, 2}, {1, 2}};
  const std::vector<cfloat> next{{kNan, 4}, {3, kNan}, {kInfinity, 4}, {3, -kInfinity}, {kNan, kInfinity}};
  EXPECT_EQ(this->mean_of({next}, first, [](std::size_t) { return 0.5f; }),
            (std::vector<cfloat>{{1, 3}, {2, 2}, {1, 3}, {2, 2}, {1, 2}}));
}

TYPED_TEST(RunningMeanTest, AShareOfOneIsTheFrameAndOfZeroTheMean) {
  const std::vector<cfloat> first{{1, -2}, {0, 0.5f}}, next{{3, 4}, {-5, 0.25f}};
  EXPECT_EQ(this->mean_of({next}, first, [](std::size_t) { return 1.0f; }), next);
  EXPECT_EQ(this->mean_of({next}, first, [](std::size_t) { return 0.0f; }), first);
}

TYPED_TEST(RunningMeanTest, OddInputIsRefused) {
  auto mean = this->context().template zeros<cfloat>({2, 3});
  const auto same = this->context().template zeros<cfloat>({2, 3});
  const auto other = this->context().template zeros<cfloat>({3, 2});
  EXPECT_THROW(add_to_mean(this->context(), other.cview(), 0.5f, mean.view()), std::invalid_argument);
  for (const float share : {-0.1f, 1.1f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(add_to_mean(this->context(), same.cview(), share, mean.view()), std::invalid_argument) << share;
  EXPECT_NO_THROW(add_to_mean(this->context(), same.cview(), 1, mean.view()));
}

}  // namespace
}  // namespace echotrain::numerics
