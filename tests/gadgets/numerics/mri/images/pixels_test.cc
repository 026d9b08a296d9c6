// Pixels of all types against their values in float64.
#include "gadgets/numerics/mri/images/pixels.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;

template <class B>
class PixelsTest : public testing::OnBackend<B> {
 protected:
  template <class T>
  std::vector<cfloat> as_complex(const std::vector<T>& pixels, PixelType type) {
    std::vector<std::byte> bytes(pixels.size() * sizeof(T));
    std::memcpy(bytes.data(), pixels.data(), bytes.size());
    const Array<std::byte> from = this->upload(bytes, {static_cast<std::int64_t>(bytes.size())});
    Array<cfloat> to = this->context().template allocate<cfloat>({static_cast<std::int64_t>(pixels.size())});
    from_pixels(this->context(), from.cview(), type, to.view());
    return this->download(to);
  }
  template <class T>
  std::vector<T> as_pixels(const std::vector<float>& values) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    const Array<float> from = this->upload(values, shape);
    Array<T> to = this->context().template allocate<T>(shape);
    Array<PixelTally> tally = this->context().template zeros<PixelTally>({1});
    to_pixels(this->context(), from.cview(), to.view(), tally.view());
    tally_ = this->download(tally).at(0);
    return this->download(to);
  }
  PixelTally tally_;
};
TYPED_TEST_SUITE(PixelsTest, Backends, testing::BackendNames);

TYPED_TEST(PixelsTest, EveryTypeBecomesComplexNumbers) {
  EXPECT_EQ(this->template as_complex<std::uint16_t>({0, 1, 65535}, PixelType::u16),
            (std::vector<cfloat>{0, 1, 65535}));
  EXPECT_EQ(this->template as_complex<std::int16_t>({-32768, -1, 32767}, PixelType::i16),
            (std::vector<cfloat>{-32768, -1, 32767}));
  EXPECT_EQ(this->template as_complex<std::uint32_t>({0, 1u << 24, 4294967295u}, PixelType::u32),
            (std::vector<cfloat>{0, 16777216.0f, 4294967296.0f}));
  EXPECT_EQ(this->template as_complex<std::int32_t>({-2147483647 - 1, -7, 16777217}, PixelType::i32),
            (std::vector<cfloat>{-2147483648.0f, -7, 16777216.0f}));
  EXPECT_EQ(this->template as_complex<float>({-1.5f, 3e38f}, PixelType::f32), (std::vector<cfloat>{-1.5f, 3e38f}));
  EXPECT_EQ(this->template as_complex<double>({0.1, 1e300}, PixelType::f64),
            (std::vector<cfloat>{0.1f, std::numeric_limits<float>::infinity()}));
  EXPECT_EQ(this->template as_complex<cfloat>({{1, -2}, {0, 3}}, PixelType::c64),
            (std::vector<cfloat>{{1, -2}, {0, 3}}));
  EXPECT_EQ(this->template as_complex<cdouble>({{0.1, -2}, {0, 3}}, PixelType::c128),
            (std::vector<cfloat>{{0.1f, -2}, {0, 3}}));
}

TYPED_TEST(PixelsTest, IntegersAreRoundedAndClampedAndThatIsCounted) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(this->template as_pixels<std::int16_t>({0.5f, 1.5f, -2.5f, 32767.4f, 40000, -40000, nan, -infinity}),
            (std::vector<std::int16_t>{0, 2, -2, 32767, 32767, -32768, 0, -32768}));
  EXPECT_EQ(this->tally_.saturated, 2u);
  EXPECT_EQ(this->tally_.not_finite, 2u);
  EXPECT_EQ(this->tally_.any, 1u);
  EXPECT_EQ(this->template as_pixels<std::uint32_t>({-0.4f, -1, 3e9f, 1e10f, 16777216}),
            (std::vector<std::uint32_t>{0, 0, 3000000000u, 4294967295u, 16777216}));
  EXPECT_EQ(this->tally_.saturated, 2u);
  EXPECT_EQ(this->template as_pixels<std::int32_t>({-2147483648.0f, 2147483648.0f, -3e9f, 7.5f}),
            (std::vector<std::int32_t>{-2147483647 - 1, 2147483647, -2147483647 - 1, 8}));
  EXPECT_EQ(this->tally_.saturated, 2u);
  EXPECT_EQ(this->template as_pixels<double>({0.1f, -5}), (std::vector<double>{0.1f, -5}));
  EXPECT_EQ(this->template as_pixels<std::int32_t>({0.2f, -0.4f}), (std::vector<std::int32_t>{0, 0}));
  EXPECT_EQ(this->tally_.any, 0u);
}

TYPED_TEST(PixelsTest, ComplexPixelsOfDoublePrecision) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Array<cfloat> from = this->upload(std::vector<cfloat>{{0.1f, -2}, {nan, nan}, {0, 0}}, {3});
  Array<cdouble> to = this->context().template allocate<cdouble>({3});
  Array<PixelTally> tally = this->context().template zeros<PixelTally>({1});
  to_pixels(this->context(), from.cview(), to.view(), tally.view());
  const auto pixels = this->download(to);
  EXPECT_EQ(pixels[0], cdouble(0.1f, -2));
  EXPECT_TRUE(std::isnan(pixels[1].real()) && std::isnan(pixels[1].imag()));
  EXPECT_EQ(this->download(tally)[0].not_finite, 1u);
}

TYPED_TEST(PixelsTest, InversionTakesMagnitudesOrRealParts) {
  const std::vector<cfloat> values{{3, 4}, {-2, 0}, {0, 12}};
  const Array<cfloat> from = this->upload(values, {3});
  Array<cfloat> to = this->context().template allocate<cfloat>({3});
  invert(this->context(), from.cview(), {10, 0, true}, to.view());
  EXPECT_EQ(this->download(to), (std::vector<cfloat>{5, 8, 0}));
  invert(this->context(), from.cview(), {10, -1e30f, false}, to.view());
  EXPECT_EQ(this->download(to), (std::vector<cfloat>{7, 12, 10}));
}

TYPED_TEST(PixelsTest, MagnitudesGetPhases) {
  const Array<cfloat> phases = this->upload(std::vector<cfloat>{{3, 4}, {0, 0}, {0, -2}}, {3});
  const Array<float> magnitudes = this->upload(std::vector<float>{10, 7, 1}, {3});
  Array<cfloat> to = this->context().template allocate<cfloat>({3});
  with_phases(this->context(), magnitudes.cview(), phases.cview(), to.view());
  EXPECT_EQ(this->download(to), (std::vector<cfloat>{{6, 8}, {7, 0}, {0, -1}}));
  to_complex(this->context(), magnitudes.cview(), to.view());
  EXPECT_EQ(this->download(to), (std::vector<cfloat>{10, 7, 1}));
}

TYPED_TEST(PixelsTest, SizesThatDoNotFitAreRefused) {
  const Array<std::byte> bytes = this->upload(std::vector<std::byte>(7), {7});
  Array<cfloat> to = this->context().template allocate<cfloat>({3});
  EXPECT_THROW(from_pixels(this->context(), bytes.cview(), PixelType::u16, to.view()), std::invalid_argument);
  EXPECT_THROW(from_pixels(this->context(), bytes.cview(), static_cast<PixelType>(9), to.view()),
               std::invalid_argument);
}

}  // namespace
}  // namespace echotrain::numerics
