#include "protocol/dicom/stored_pixels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "protocol/dicom/values.h"

namespace echotrain::protocol::dicom {
namespace {

template <class T>
Image row_of(std::vector<T> pixels, int data_type, int image_type = ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE) {
  Image image;
  image.head.matrix_size[0] = static_cast<std::uint16_t>(pixels.size());
  image.head.matrix_size[1] = image.head.matrix_size[2] = 1;
  image.head.channels = 1;
  image.head.data_type = static_cast<std::uint16_t>(data_type);
  image.head.image_type = static_cast<std::uint16_t>(image_type);
  image.pixels = Payload::take(std::move(pixels));
  return image;
}

std::vector<double> values_of(const StoredPixels& of) {
  std::vector<double> values;
  for (const std::uint16_t stored : of.stored)
    values.push_back((of.is_signed ? static_cast<double>(static_cast<std::int16_t>(stored)) : stored) * of.slope +
                     of.intercept);
  return values;
}

TEST(StoredPixels, KeepIntegersThatSixteenBitsHold) {
  const auto narrow = stored_pixels(row_of<std::uint16_t>({0, 1, 65535}, ISMRMRD::ISMRMRD_USHORT), 0, Part::magnitude);
  EXPECT_FALSE(narrow.is_signed);
  EXPECT_EQ(narrow.slope, 1);
  EXPECT_EQ(values_of(narrow), (std::vector<double>{0, 1, 65535}));
  const auto wide = stored_pixels(row_of<std::int32_t>({-32767, 5, 32767}, ISMRMRD::ISMRMRD_INT), 0, Part::magnitude);
  EXPECT_TRUE(wide.is_signed);
  EXPECT_EQ(wide.slope, 1);
  EXPECT_EQ(values_of(wide), (std::vector<double>{-32767, 5, 32767}));
}

TEST(StoredPixels, DivideOthersByAPowerOfTwo) {
  const std::vector<std::int32_t> pixels{-2000000000, 123456789, 2000000000};
  const auto wide = stored_pixels(row_of(pixels, ISMRMRD::ISMRMRD_INT), 0, Part::magnitude);
  EXPECT_EQ(wide.slope, 65536);
  for (std::size_t i = 0; i < pixels.size(); ++i) EXPECT_NEAR(values_of(wide)[i], pixels[i], 32768);
  const auto small = stored_pixels(row_of<float>({0, 1e-12F, 3e-12F}, ISMRMRD::ISMRMRD_FLOAT), 0, Part::magnitude);
  EXPECT_EQ(std::exp2(std::round(std::log2(small.slope))), small.slope);
  EXPECT_NEAR(values_of(small)[1], 1e-12, 3e-12 / 32767);
  EXPECT_NEAR(values_of(small)[2], 3e-12, 3e-12 / 32767);
}

TEST(StoredPixels, OfPhasesHaveOneSlopeWhateverTheirValues) {
  for (const float most : {0.001F, 3.14159F})
    EXPECT_EQ(
        stored_pixels(row_of<float>({0, most}, ISMRMRD::ISMRMRD_FLOAT, ISMRMRD::ISMRMRD_IMTYPE_PHASE), 0, Part::phase)
            .slope,
        1.0 / 8192);
  const auto degrees = stored_pixels(
      row_of<float>({-180, 179.5F}, ISMRMRD::ISMRMRD_FLOAT, ISMRMRD::ISMRMRD_IMTYPE_PHASE), 0, Part::phase);
  EXPECT_NEAR(values_of(degrees)[0], -180, 180.0 / 32767) << "not only radians fit";
}

TEST(StoredPixels, SplitComplexPixels) {
  const Image image =
      row_of<std::complex<double>>({{3, -4}}, ISMRMRD::ISMRMRD_CXDOUBLE, ISMRMRD::ISMRMRD_IMTYPE_COMPLEX);
  EXPECT_EQ(parts_of(image.head), (std::vector<Part>{Part::magnitude, Part::phase}));
  EXPECT_EQ(values_of(stored_pixels(image, 0, Part::magnitude))[0], 5);
  EXPECT_NEAR(values_of(stored_pixels(image, 0, Part::phase))[0], std::atan2(-4, 3), 1.0 / 16384);
}

TEST(StoredPixels, ApplyTheImagesOwnScaleToValuesAndWindow) {
  const Image image = row_of<std::int16_t>({0, 100, 200}, ISMRMRD::ISMRMRD_SHORT);
  const auto pixels = stored_pixels(image, 0, Part::magnitude, 0.5, -10);
  EXPECT_EQ(values_of(pixels), (std::vector<double>{-10, 40, 90}));
  EXPECT_EQ(pixels.centre, 40);
  EXPECT_EQ(pixels.width, 100);
}

TEST(StoredPixels, AreFinite) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const auto pixels =
      stored_pixels(row_of<float>({NAN, kInfinite, -kInfinite, 0.5F}, ISMRMRD::ISMRMRD_FLOAT), 0, Part::magnitude);
  EXPECT_EQ(values_of(pixels), (std::vector<double>{0, 0.5, -0.5, 0.5}));
  const auto none = stored_pixels(row_of<float>({NAN, kInfinite}, ISMRMRD::ISMRMRD_FLOAT), 0, Part::magnitude);
  EXPECT_EQ(values_of(none), (std::vector<double>{0, 0}));
  EXPECT_GT(none.width, 0);
}

TEST(StoredPixels, CountWhatWasNotFiniteByPlane) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  Image image = row_of<float>({1, NAN, kInfinite, 2, 3, -kInfinite, -kInfinite, 4}, ISMRMRD::ISMRMRD_FLOAT);
  image.head.matrix_size[0] = 2;
  image.head.matrix_size[2] = 4;
  const auto pixels = stored_pixels(image, 0, Part::magnitude);
  EXPECT_EQ(pixels.not_numbers, (std::vector<std::uint32_t>{1, 0, 0, 0}));
  EXPECT_EQ(pixels.infinite, (std::vector<std::uint32_t>{0, 1, 1, 1}));
}

TEST(StoredPixels, RefuseAMatrixThatThePixelsDoNotFill) {
  Image image = row_of<float>({1, 2}, ISMRMRD::ISMRMRD_FLOAT);
  image.head.matrix_size[1] = 2;
  EXPECT_THROW(stored_pixels(image, 0, Part::magnitude), DicomError);
  image = row_of<float>({1}, 99);
  EXPECT_THROW(stored_pixels(image, 0, Part::magnitude), DicomError);
}

}  // namespace
}  // namespace echotrain::protocol::dicom
