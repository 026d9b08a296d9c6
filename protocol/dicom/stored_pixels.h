// Stored pixels are pixels of any type as the 16-bit integers of MR Image Storage, with what turns them back into
// values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "protocol/data/pixels.h"

namespace echotrain::protocol::dicom {

/// A part of an image that DICOM can hold: MR Image Storage knows no complex pixels.
using Part = PixelPart;

/// Returns the parts that an image becomes: those of its image_type, and magnitude and phase of a complex one.
std::vector<Part> parts_of(const ImageHeader& head);

struct StoredPixels {
  bool is_signed = false;
  std::vector<std::uint16_t> stored;  ///< [z, y, x]; two's complement where signed
  double slope = 1, intercept = 0;    ///< value = stored * slope + intercept
  double centre = 0, width = 1;       ///< the window, in values
  /// [z]: pixels of each plane that were not numbers, and infinite ones.
  std::vector<std::uint32_t> not_numbers, infinite;
};

/// Stores one channel of an image. Integers that 16 bits hold are stored as they are (slope 1). Others are divided by
/// the smallest power of two for which the largest magnitude is at most 32767, and rounded: an error of at most the
/// largest magnitude / 32767; phases by 2^-13, up to +-4. What is not a number becomes 0, what is infinite the largest
/// number. The window shows 0 to the 99.5th percentile of the magnitudes, real and imaginary parts symmetric about 0,
/// phases -pi to pi. `scale` and `offset` are the image's own attributes RescaleSlope and RescaleIntercept: value =
/// pixel * scale + offset. DicomError when the pixels do not fill the matrix.
StoredPixels stored_pixels(const Image& image, std::size_t channel, Part part, double scale = 1, double offset = 0);

}  // namespace echotrain::protocol::dicom
