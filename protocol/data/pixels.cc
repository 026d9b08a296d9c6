#include "protocol/data/pixels.h"

#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

namespace echotrain::protocol {

std::size_t bytes_per_pixel(std::uint16_t data_type) {
  static constexpr std::array<std::size_t, 9> kBytes = {0, 2, 2, 4, 4, 4, 8, 8, 16};
  return data_type < kBytes.size() ? kBytes[data_type] : 0;
}

std::optional<std::uint64_t> pixel_bytes(const ImageHeader& head, std::uint64_t limit) {
  std::uint64_t bytes = bytes_per_pixel(head.data_type);
  for (const std::uint16_t size : {+head.matrix_size[0], +head.matrix_size[1], +head.matrix_size[2], +head.channels}) {
    if (size == 0 || bytes == 0 || bytes > limit / size) return std::nullopt;
    bytes *= size;
  }
  return bytes;
}

bool is_complex(const ImageHeader& head) {
  return head.data_type == ISMRMRD::ISMRMRD_CXFLOAT || head.data_type == ISMRMRD::ISMRMRD_CXDOUBLE;
}

PixelPart part_of(std::uint16_t image_type) {
  switch (image_type) {
    case ISMRMRD::ISMRMRD_IMTYPE_PHASE:
      return PixelPart::phase;
    case ISMRMRD::ISMRMRD_IMTYPE_REAL:
      return PixelPart::real;
    case ISMRMRD::ISMRMRD_IMTYPE_IMAG:
      return PixelPart::imaginary;
    default:
      return PixelPart::magnitude;
  }
}

std::vector<float> pixel_values(const Payload& pixels, std::uint16_t data_type, std::size_t first, std::size_t count,
                                PixelPart part) {
  std::vector<float> values;
  with_pixel_type(data_type, [&](auto value) {
    values.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&value, pixels.bytes.data() + (first + i) * sizeof(value), sizeof(value));
      if constexpr (requires { value.imag(); })
        values[i] = static_cast<float>(part == PixelPart::phase       ? std::arg(value)
                                       : part == PixelPart::real      ? value.real()
                                       : part == PixelPart::imaginary ? value.imag()
                                                                      : std::abs(value));
      else
        values[i] = static_cast<float>(value);
    }
  });
  return values;
}

GreyWindow grey_window(PixelPart part, double shown) {
  if (part == PixelPart::phase) return {-std::numbers::pi, std::numbers::pi};
  return {part == PixelPart::magnitude ? 0 : -shown, shown};
}

std::vector<std::uint8_t> to_grey(std::span<const float> values, const GreyWindow& window) {
  const auto low = static_cast<float>(window.low), high = static_cast<float>(window.high);
  const float scale = high > low ? 255 / (high - low) : 0;
  std::vector<std::uint8_t> grey(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float level = (values[i] - low) * scale;
    grey[i] = level >= 255 ? 255 : level > 0 ? static_cast<std::uint8_t>(std::lround(level)) : 0;
  }
  return grey;
}

}  // namespace echotrain::protocol
