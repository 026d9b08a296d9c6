// A tally counts pixels in conversions: every voxel that is not finite, every one that is cut, and images of zeros.
#include <cmath>
#include <limits>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

template <class B>
class TallyTest : public testing::OnBackend<B> {
 protected:
  /// Returns the counts that `convert(tally)` adds to a tally of zeros.
  template <class Convert>
  PixelTally tallied(const Convert& convert) {
    Array<PixelTally> tally = this->context().template zeros<PixelTally>({1});
    convert(tally.view());
    return *this->context().template download<PixelTally>(tally.view()).data();
  }
};
TYPED_TEST_SUITE(TallyTest, Backends, testing::BackendNames);

constexpr std::int64_t kCount = 100003;  // no multiple of a block, and of many pieces and blocks
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

/// Values of about one, among them the odd ones, each as often as its place in this list, from 1.
std::vector<cfloat> values_with_faults() {
  std::vector<cfloat> values = Random(11).normals(kCount);
  const std::vector<cfloat> odd{{kNan, 0},        {0, kNan},         {kInfinity, 1},
                                {-1, -kInfinity}, {kInfinity, kNan}, {kLargest, kLargest},
                                {7e4f, 0},        {-kLargest, 0.5f}, {0, 0}};
  std::size_t at = 5;
  for (std::size_t kind = 0; kind < odd.size(); ++kind)
    for (std::size_t i = 0; i <= kind; ++i, at += 1009) values[at] = odd[kind];
  values.front() = values.back() = {kNan, kInfinity};
  return values;
}

/// Counts in float64 what single precision cannot hold.
std::uint64_t not_finite(const std::vector<cfloat>& values, double factor, bool magnitude) {
  std::uint64_t count = 0;
  for (const cfloat v : values) {
    const cdouble z = factor * cdouble(v);
    const double most = magnitude ? std::abs(z) : std::max(std::abs(z.real()), std::abs(z.imag()));
    const bool nan = std::isnan(v.real()) || std::isnan(v.imag());
    count += nan || most > static_cast<double>(kLargest) ? 1 : 0;
  }
  return count;
}

TYPED_TEST(TallyTest, CountsWhatIsNotFinite) {
  const std::vector<cfloat> values = values_with_faults();
  auto from = this->upload(values, {kCount});
  auto to = this->context().template allocate<float>({kCount});
  auto same = this->context().template allocate<cfloat>({kCount});
  for (const float factor : {1.0f, 0.5f, 1e4f}) {
    for (const Component what : {Component::magnitude, Component::phase, Component::real, Component::imaginary}) {
      const PixelTally tally = this->tallied([&](DeviceView<PixelTally> view) {
        component(this->context(), from.cview(), what, factor, to.view(), view);
      });
      EXPECT_EQ(tally.not_finite, not_finite(values, factor, what == Component::magnitude)) << factor;
      EXPECT_EQ(tally.saturated, 0u);
      EXPECT_EQ(tally.any, 1u);
    }
    const PixelTally tally = this->tallied(
        [&](DeviceView<PixelTally> view) { scale(this->context(), from.cview(), factor, same.view(), view); });
    EXPECT_EQ(tally.not_finite, not_finite(values, factor, false)) << factor;
  }
  const PixelTally plain =
      this->tallied([&](DeviceView<PixelTally> view) { tally(this->context(), from.cview(), view); });
  EXPECT_EQ(plain.not_finite, not_finite(values, 1, false));
  EXPECT_EQ(plain.any, 1u);
}

TYPED_TEST(TallyTest, CountsWhatSixteenBitsCut) {
  const std::vector<cfloat> values = values_with_faults();
  auto from = this->upload(values, {kCount});
  auto to = this->context().template allocate<std::uint16_t>({kCount});
  for (const double factor : {1.0, 0.5, 3e4}) {
    for (const bool magnitude : {true, false}) {
      std::uint64_t cut = 0;
      for (const cfloat v : values) {
        const double value = factor * (magnitude ? std::abs(cdouble(v)) : static_cast<double>(v.real()));
        cut += (value >= 65535.5 || value < -0.5) && std::abs(value) <= static_cast<double>(kLargest) ? 1 : 0;
      }
      const PixelTally tally = this->tallied([&](DeviceView<PixelTally> view) {
        component(this->context(), from.cview(), magnitude ? Component::magnitude : Component::real,
                  static_cast<float>(factor), to.view(), view);
      });
      EXPECT_EQ(tally.saturated, cut) << factor;
      EXPECT_EQ(tally.not_finite, not_finite(values, factor, magnitude)) << factor;
      EXPECT_EQ(tally.any, 1u);
    }
  }
}

TYPED_TEST(TallyTest, KnowsImagesOfZeros) {
  std::vector<cfloat> values(kCount);
  values[7] = {-0.0f, 0.0f};
  const auto any = [&](Component what, float factor, auto type) {
    auto from = this->upload(values, {kCount});
    auto to = this->context().template allocate<decltype(type)>({kCount});
    const PixelTally tally = this->tallied(
        [&](DeviceView<PixelTally> view) { component(this->context(), from.cview(), what, factor, to.view(), view); });
    EXPECT_EQ(tally.not_finite + tally.saturated, 0u);
    return tally.any;
  };
  constexpr std::uint16_t kInteger = 0;
  EXPECT_EQ(any(Component::magnitude, 1, 0.0f), 0u);
  EXPECT_EQ(any(Component::phase, 1, 0.0f), 0u);
  EXPECT_EQ(any(Component::magnitude, 1, kInteger), 0u);
  values[kCount - 1] = {0.4f, 0};
  EXPECT_EQ(any(Component::magnitude, 1, 0.0f), 1u);
  EXPECT_EQ(any(Component::magnitude, 1, kInteger), 0u);  // all are rounded to 0
  EXPECT_EQ(any(Component::magnitude, 2, kInteger), 1u);
  // The phase of a real image, and its imaginary part, are zero and right.
  EXPECT_EQ(any(Component::phase, 1, 0.0f), 1u);
  EXPECT_EQ(any(Component::imaginary, 1, 0.0f), 1u);
  values[kCount - 1] = {0, 1e-42f};
  EXPECT_EQ(any(Component::magnitude, 1, 0.0f), 1u);
  EXPECT_EQ(any(Component::magnitude, 1e-6f, 0.0f), 0u);
}

TYPED_TEST(TallyTest, AddsToWhatIsThere) {
  auto from = this->upload(std::vector<cfloat>{{kNan, 0}, {1, 0}}, {2});
  const PixelTally twice = this->tallied([&](DeviceView<PixelTally> view) {
    tally(this->context(), from.cview(), view);
    tally(this->context(), from.cview(), view);
  });
  EXPECT_EQ(twice.not_finite, 2u);
  EXPECT_THROW(tally(this->context(), from.cview(), {}), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
