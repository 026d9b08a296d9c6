#include "protocol/dicom/stored_pixels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "protocol/dicom/values.h"

namespace echotrain::protocol::dicom {
namespace {

constexpr float kMost = 32767;
constexpr double kPhaseSlope = 1.0 / 8192;

std::vector<float> values_of(const Image& image, std::size_t channel, Part part) {
  const ImageHeader& head = image.head;
  const std::size_t count = std::size_t{head.matrix_size[0]} * head.matrix_size[1] * head.matrix_size[2];
  const std::size_t each = bytes_per_pixel(head.data_type);
  if (count != 0 && each == 0) throw DicomError(fmt::format("an image has the unknown data type {}", +head.data_type));
  if (count == 0 || image.pixels.bytes.size() != count * head.channels * each)
    throw DicomError(fmt::format("an image of {} x {} x {} voxels and {} channels holds {} bytes", +head.matrix_size[0],
                                 +head.matrix_size[1], +head.matrix_size[2], +head.channels,
                                 image.pixels.bytes.size()));
  return pixel_values(image.pixels, head.data_type, channel * count, count, part);
}

/// Makes all values finite, and counts by plane those that were not.
void tame(std::vector<float>& values, std::size_t planes, StoredPixels& counts) {
  counts.not_numbers.assign(planes, 0);
  counts.infinite.assign(planes, 0);
  float most = 0;
  for (const float v : values)
    if (std::isfinite(v)) most = std::max(most, std::abs(v));
  const std::size_t plane = values.size() / planes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& v = values[i];
    if (std::isfinite(v)) continue;
    ++(std::isnan(v) ? counts.not_numbers : counts.infinite)[i / plane];
    v = std::isnan(v) ? 0 : std::copysign(most, v);
  }
}

/// The magnitude that kShownShare of the values do not exceed.
double shown_magnitude(const std::vector<float>& values) {
  std::vector<float> magnitudes;
  magnitudes.reserve(values.size());
  for (const float v : values) magnitudes.push_back(std::abs(v));
  const auto at = magnitudes.begin() +
                  static_cast<std::ptrdiff_t>(std::lround(kShownShare * static_cast<double>(magnitudes.size() - 1)));
  std::nth_element(magnitudes.begin(), at, magnitudes.end());
  return *at > 0 ? *at : *std::max_element(magnitudes.begin(), magnitudes.end());
}

}  // namespace

std::vector<Part> parts_of(const ImageHeader& head) {
  if (const Part only = part_of(head.image_type); only != Part::magnitude) return {only};
  if (is_complex(head)) return {Part::magnitude, Part::phase};
  return {Part::magnitude};
}

StoredPixels stored_pixels(const Image& image, std::size_t channel, Part part, double scale, double offset) {
  std::vector<float> values = values_of(image, channel, part);
  StoredPixels out;
  tame(values, image.head.matrix_size[2], out);
  const auto [low_at, high_at] = std::minmax_element(values.begin(), values.end());
  const float low = *low_at, high = *high_at;
  const bool whole = std::all_of(values.begin(), values.end(), [](float v) { return v == std::trunc(v); });
  const bool narrow = image.head.data_type == ISMRMRD::ISMRMRD_USHORT || image.head.data_type == ISMRMRD::ISMRMRD_SHORT;
  const bool radians = part == Part::phase && !narrow;
  double slope = 1;
  if (narrow || (whole && !radians && low >= -kMost && high <= (low < 0 ? kMost : 2 * kMost + 1))) {
    out.is_signed = image.head.data_type == ISMRMRD::ISMRMRD_SHORT || low < 0;
  } else {
    out.is_signed = low < 0 || part != Part::magnitude;
    const double most = std::max(std::abs(low), std::abs(high));
    if (most > 0) slope = std::exp2(std::ceil(std::log2(most / kMost)));
    if (radians) slope = most > 0 ? std::max(slope, kPhaseSlope) : kPhaseSlope;
  }
  out.stored.reserve(values.size());
  for (const float v : values) {
    const auto number = static_cast<std::int32_t>(std::lround(static_cast<double>(v) / slope));
    out.stored.push_back(static_cast<std::uint16_t>(number));
  }
  const bool about_zero = part == Part::real || part == Part::imaginary || low < 0;
  const GreyWindow window = radians ? grey_window(Part::phase, 0)
                                    : grey_window(about_zero ? Part::real : Part::magnitude, shown_magnitude(values));
  const double centre = (window.low + window.high) / 2, width = window.high - window.low;
  out.slope = slope * scale;
  out.intercept = offset;
  out.centre = centre * scale + offset;
  out.width = width > 0 ? width * std::abs(scale) : 1;
  return out;
}

}  // namespace echotrain::protocol::dicom
