// The pixels of image messages: their types, their values, and the greys that pictures show them in.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "protocol/data/messages.h"

namespace echotrain::protocol {

/// Returns the bytes per pixel of an ISMRMRD data type; 0 when the type is not one of 1..8.
std::size_t bytes_per_pixel(std::uint16_t data_type);

/// Returns the bytes of an image's pixels, according to its header; nothing when a size is zero, data_type is not 1..8
/// or the product exceeds `limit` (so it cannot overflow).
std::optional<std::uint64_t> pixel_bytes(const ImageHeader& head, std::uint64_t limit);

bool is_complex(const ImageHeader& head);

/// Calls `call` with a pixel, whose value says nothing, of the type that data_type names; false when it is not one of
/// 1..8.
template <class Call>
bool with_pixel_type(std::uint16_t data_type, const Call& call) {
  switch (data_type) {
    case ISMRMRD::ISMRMRD_USHORT:
      call(std::uint16_t{});
      return true;
    case ISMRMRD::ISMRMRD_SHORT:
      call(std::int16_t{});
      return true;
    case ISMRMRD::ISMRMRD_UINT:
      call(std::uint32_t{});
      return true;
    case ISMRMRD::ISMRMRD_INT:
      call(std::int32_t{});
      return true;
    case ISMRMRD::ISMRMRD_FLOAT:
      call(float{});
      return true;
    case ISMRMRD::ISMRMRD_DOUBLE:
      call(double{});
      return true;
    case ISMRMRD::ISMRMRD_CXFLOAT:
      call(std::complex<float>{});
      return true;
    case ISMRMRD::ISMRMRD_CXDOUBLE:
      call(std::complex<double>{});
      return true;
    default:
      return false;
  }
}

enum class PixelPart { magnitude, phase, real, imaginary };
/// The part that pixels which are not complex hold, by ISMRMRD's image_type: magnitude unless it names another.
PixelPart part_of(std::uint16_t image_type);
/// Returns pixels [first, first + count) of a payload: `part` of complex ones, others as they are; none of unknown
/// types. Precondition: the payload has them.
std::vector<float> pixel_values(const Payload& pixels, std::uint16_t data_type, std::size_t first, std::size_t count,
                                PixelPart part);

/// The values that a picture shows as black and as white.
struct GreyWindow {
  double low = 0, high = 1;
};
/// The share of magnitudes that a window shows; those above are white.
inline constexpr double kShownShare = 0.995;
/// The window of one part of images: magnitudes from 0, real and imaginary parts symmetric about 0, phases -pi to pi.
/// shown: the magnitude that kShownShare of all do not exceed.
GreyWindow grey_window(PixelPart part, double shown);
/// Maps values to greys: `low` becomes 0, `high` 255, linear in between, values outside and NaN clamped (NaN to 0).
std::vector<std::uint8_t> to_grey(std::span<const float> values, const GreyWindow& window);

}  // namespace echotrain::protocol
