// The median over frames against sorting.
#include "gadgets/numerics/inverse/nlinv/frame_median.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;

template <class B>
class FrameMedianTest : public testing::OnBackend<B> {
 protected:
  std::vector<cfloat> median(const std::vector<std::vector<cfloat>>& frames) {
    std::vector<Array<cfloat>> there;
    std::vector<DeviceView<const cfloat>> views;
    const auto n = static_cast<std::int64_t>(frames.front().size());
    for (const auto& frame : frames) there.push_back(this->upload(frame, {n}));
    for (const auto& frame : there) views.push_back(frame.cview());
    auto to = this->context().template allocate<cfloat>({n});
    median_of_frames(this->context(), views, to.view());
    return this->download(to);
  }
};
TYPED_TEST_SUITE(FrameMedianTest, Backends, testing::BackendNames);

TYPED_TEST(FrameMedianTest, IsTheMiddleMagnitude) {
  constexpr std::int64_t kVoxels = 5000;
  for (const std::size_t count : {1u, 2u, 3u, 5u, 8u, 9u}) {
    std::vector<std::vector<cfloat>> frames;
    for (std::size_t f = 0; f < count; ++f) frames.push_back(Random(static_cast<unsigned>(f)).normals(kVoxels));
    const auto out = this->median(frames);
    for (std::size_t v = 0; v < kVoxels; ++v) {
      std::vector<double> sizes;
      for (const auto& frame : frames) sizes.push_back(std::abs(cdouble(frame[v])));
      std::sort(sizes.begin(), sizes.end());
      ASSERT_NEAR(static_cast<double>(out[v].real()), sizes[(count - 1) / 2], 1e-6) << count;
      ASSERT_EQ(out[v].imag(), 0.0f);
    }
  }
}

TYPED_TEST(FrameMedianTest, WhatIsNotFiniteCountsAsTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(this->median({{{3, 4}}, {nan}, {1}}).front(), cfloat(5));
  EXPECT_EQ(this->median({{nan}, {2}, {1}}).front(), cfloat(2));
}

TYPED_TEST(FrameMedianTest, RefusesOtherSizesAndNumbers) {
  auto one = this->context().template zeros<cfloat>({4}), other = this->context().template zeros<cfloat>({5});
  const std::vector<DeviceView<const cfloat>> two{one.cview(), other.cview()}, many(10, one.cview());
  EXPECT_THROW(median_of_frames(this->context(), two, one.view()), std::invalid_argument);
  EXPECT_THROW(median_of_frames(this->context(), many, one.view()), std::invalid_argument);
  EXPECT_THROW(median_of_frames(this->context(), {}, one.view()), std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
