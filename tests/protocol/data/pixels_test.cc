#include "protocol/data/pixels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

namespace echotrain::protocol::test {
namespace {

TEST(Pixels, PixelBytesNeverOverflow) {
  ImageHeader head{};
  head.data_type = 8;
  head.channels = 2;
  head.matrix_size[0] = head.matrix_size[1] = 3;
  head.matrix_size[2] = 1;
  EXPECT_EQ(pixel_bytes(head, 288), 288u);
  EXPECT_EQ(pixel_bytes(head, 287), std::nullopt);
  head.channels = 0;
  EXPECT_EQ(pixel_bytes(head, 288), std::nullopt);
  // 16 * 2^15 * 2^15 * 2^15 * 2^15 = 2^64, which wraps to 0.
  head.channels = head.matrix_size[0] = head.matrix_size[1] = head.matrix_size[2] = 32768;
  EXPECT_EQ(pixel_bytes(head, UINT64_MAX), std::nullopt);
  // 16 * 65535^4 wraps to something that is not 0.
  head.channels = head.matrix_size[0] = head.matrix_size[1] = head.matrix_size[2] = 65535;
  EXPECT_EQ(pixel_bytes(head, UINT64_MAX), std::nullopt);
}

TEST(Pixels, BytesPerPixel) {
  const std::vector<std::size_t> expected = {0, 2, 2, 4, 4, 4, 8, 8, 16, 0};
  for (std::uint16_t type = 0; type < expected.size(); ++type) EXPECT_EQ(bytes_per_pixel(type), expected[type]) << type;
  EXPECT_EQ(bytes_per_pixel(65535), 0u);
}

/// A pixel before the values, at an odd address.
template <class T>
Payload odd(const std::vector<T>& values) {
  std::vector<std::byte> bytes(1 + sizeof(T) * (values.size() + 1));
  std::memcpy(bytes.data() + 1 + sizeof(T), values.data(), sizeof(T) * values.size());
  Payload whole = Payload::take(std::move(bytes));
  whole.bytes = whole.bytes.subspan(1);
  return whole;
}

template <class T>
void expect_values(std::uint16_t type, const std::vector<T>& values, const std::vector<float>& expected,
                   PixelPart part = PixelPart::magnitude) {
  EXPECT_EQ(pixel_values(odd(values), type, 1, values.size(), part), expected) << type;
}

TEST(Pixels, ValuesOfEveryType) {
  expect_values<std::uint16_t>(1, {65535, 3}, {65535, 3});
  expect_values<std::int16_t>(2, {-32768, 3}, {-32768, 3});
  expect_values<std::uint32_t>(3, {1U << 31, 3}, {2147483648.0f, 3});
  expect_values<std::int32_t>(4, {-5, 3}, {-5, 3});
  expect_values<float>(5, {-0.5f, 3}, {-0.5f, 3});
  expect_values<double>(6, {-0.1, 3}, {-0.1f, 3}, PixelPart::phase);  // not complex: as they are
  expect_values<std::complex<float>>(7, {{-3, 4}, {0, -2}}, {5, 2});
  const std::vector<std::complex<double>> values = {{-3, 4}, {0, -2}};
  expect_values(8, values, {5, 2});
  expect_values(8, values, {std::arg(std::complex(-3.0f, 4.0f)), -std::numbers::pi_v<float> / 2}, PixelPart::phase);
  expect_values(8, values, {-3, 0}, PixelPart::real);
  expect_values(8, values, {4, -2}, PixelPart::imaginary);
  for (const std::uint16_t unknown : {0, 9, 65535})
    EXPECT_TRUE(pixel_values({}, unknown, 0, 5, PixelPart::magnitude).empty()) << unknown;
}

TEST(Pixels, ComplexOnesAreTwoTypes) {
  ImageHeader head{};
  for (head.data_type = 0; head.data_type < 10; ++head.data_type)
    EXPECT_EQ(is_complex(head), head.data_type == 7 || head.data_type == 8) << +head.data_type;
}

TEST(Pixels, PartsByTheTypeOfTheImage) {
  const std::vector<PixelPart> expected = {PixelPart::magnitude, PixelPart::magnitude, PixelPart::phase,
                                           PixelPart::real,      PixelPart::imaginary, PixelPart::magnitude};
  for (std::uint16_t type = 0; type < expected.size(); ++type) EXPECT_EQ(part_of(type), expected[type]) << type;
}

TEST(Pixels, WindowsByPart) {
  const auto window = [](PixelPart part) {
    const GreyWindow made = grey_window(part, 3);
    return std::pair(made.low, made.high);
  };
  EXPECT_EQ(window(PixelPart::magnitude), std::pair(0.0, 3.0));
  EXPECT_EQ(window(PixelPart::real), std::pair(-3.0, 3.0));
  EXPECT_EQ(window(PixelPart::imaginary), std::pair(-3.0, 3.0));
  EXPECT_EQ(window(PixelPart::phase), std::pair(-std::numbers::pi, std::numbers::pi));
}

TEST(Pixels, GreyLevelsAreClampedAndRounded) {
  const std::vector<float> values = {-1, 0, 1, 2, 3, NAN, 1.004f};
  EXPECT_EQ(to_grey(values, {0, 2}), (std::vector<std::uint8_t>{0, 0, 128, 255, 255, 0, 128}));
  EXPECT_EQ(to_grey(values, {1, 1}), std::vector<std::uint8_t>(7, 0));
}

}  // namespace
}  // namespace echotrain::protocol::test
