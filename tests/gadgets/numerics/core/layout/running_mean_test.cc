// Means over frames that forget old ones, against float64.
#include "gadgets/numerics/core/layout/running_mean.h"

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

/// Frames of one power each, and what becomes of them.
struct Judged {
  double power;
  float share;
  bool forgets;
  bool unlike = false;
};

TYPED_TEST(RunningMeanTest, FramesUnlikeTheOthersAreLeftOut) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  constexpr float kShare = 0.25f;
  const std::vector<std::vector<Judged>> scans = {
      // One frame is larger, then one not finite; the frames after them forget what they left.
      {{1, 1, false},
       {2, kShare, false},
       {1e60, 0, false, true},
       {1, kShare, true},
       {kNan, 0, false, true},
       {kInfinity, 0, true, true},
       {1.5, kShare, true},
       {1, kShare, false}},
      // Two in a row begin anew. So does what comes behind one that was larger from the beginning.
      {{1, 1, false}, {1, kShare, false}, {2000, 0, false, true}, {2000, 1, true}, {1990, kShare, false}},
      {{1e60, 1, false}, {1, 1, true, true}, {1, kShare, false}},
      {{1, 1, false}, {2000, 1, true, true}, {1990, kShare, false}},
      // Nothing says nothing.
      {{0, 0, false}, {1, 1, false}, {0, 0, false}, {1, kShare, false}},
      // Smaller ones are left out eight times; within a thousandth they are not smaller.
      {{5000, 1, false},
       {5000, kShare, false},
       {10, kShare, false},
       {1, 0, false, true},
       {5000, kShare, true},
       {1, 0, false, true},
       {1, 0, true, true},
       {1, 0, true, true},
       {1, 0, true, true},
       {1, 0, true, true},
       {1, 0, true, true},
       {1, 0, true, true},
       {1, 1, true},
       {1, kShare, false}},
  };
  for (std::size_t s = 0; s < scans.size(); ++s) {
    auto frame = this->context().template zeros<FrameLikeness>({1});
    std::int32_t unlike = 0;
    for (std::size_t f = 0; f < scans[s].size(); ++f) {
      const Judged& now = scans[s][f];
      const auto power = this->upload(std::vector<double>{now.power}, {1});
      take_frame(this->context(), power.cview(), 1000, kShare, frame.view());
      const FrameLikeness judged = this->download(frame).at(0);
      EXPECT_EQ(judged.share, now.share) << s << ", " << f;
      EXPECT_EQ(judged.forget != 0, now.forgets) << s << ", " << f;
      unlike += now.unlike ? 1 : 0;
      EXPECT_EQ(judged.unlike, unlike) << s << ", " << f;
    }
  }
}

TYPED_TEST(RunningMeanTest, SharesAreThoseOfTheFrame) {
  const auto frames = frames_of(4);
  auto mean = this->upload(frames[0], {1, kElements});
  auto frame = this->context().template zeros<FrameLikeness>({1});
  const auto take = [&](double power, const std::vector<cfloat>& next) {
    const auto size = this->upload(std::vector<double>{power}, {1});
    const auto values = this->upload(next, {1, kElements});
    take_frame(this->context(), size.cview(), 1000, 0.25f, frame.view());
    add_to_mean(this->context(), values.cview(), frame.cview(), mean.view());
  };
  std::vector<cfloat> huge = frames[2];
  for (cfloat& v : huge) v *= 1e30f;
  take(1e60, huge);  // the first of all
  EXPECT_EQ(this->download(mean), huge);
  take(1, frames[3]);  // nothing of 1e30 is left
  EXPECT_EQ(this->download(mean), frames[3]);
  take(1, frames[0]);
  EXPECT_LT(worst(this->download(mean),
                  [&](std::size_t i) { return 0.75 * cdouble(frames[3][i]) + 0.25 * cdouble(frames[0][i]); }),
            kRounding);
  const auto before = this->download(mean);
  take(1e60, huge);
  EXPECT_EQ(this->download(mean), before);
}

TYPED_TEST(RunningMeanTest, OddInputIsRefused) {
  auto mean = this->context().template zeros<cfloat>({2, 3});
  const auto same = this->context().template zeros<cfloat>({2, 3});
  const auto other = this->context().template zeros<cfloat>({3, 2});
  EXPECT_THROW(add_to_mean(this->context(), other.cview(), 0.5f, mean.view()), std::invalid_argument);
  for (const float share : {-0.1f, 1.1f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THROW(add_to_mean(this->context(), same.cview(), share, mean.view()), std::invalid_argument) << share;
  EXPECT_NO_THROW(add_to_mean(this->context(), same.cview(), 1, mean.view()));
  auto frame = this->context().template zeros<FrameLikeness>({1}),
       none = this->context().template zeros<FrameLikeness>({0});
  const auto power = this->context().template zeros<double>({1});
  EXPECT_THROW(take_frame(this->context(), power.cview(), 1, 0.5f, frame.view()), std::invalid_argument);
  EXPECT_THROW(take_frame(this->context(), power.cview(), 2, 1.5f, frame.view()), std::invalid_argument);
  EXPECT_THROW(take_frame(this->context(), power.cview(), 2, 0.5f, none.view()), std::invalid_argument);
  EXPECT_THROW(add_to_mean(this->context(), other.cview(), frame.cview(), mean.view()), std::invalid_argument);
  EXPECT_THROW(add_to_mean(this->context(), same.cview(), none.cview(), mean.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
