// Conversions between pixels of messages, of all types, and the complex numbers that images are computed with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/pixel_tally.h"

namespace echotrain::numerics {

/// The types of pixels by their numbers on the wire (ISMRMRD's data_type).
enum class PixelType : std::uint16_t { u16 = 1, i16, u32, i32, f32, f64, c64, c128 };
/// The bytes of one pixel; 0 for an unknown type.
std::int64_t bytes_of(PixelType type);
inline bool is_complex(PixelType type) { return type == PixelType::c64 || type == PixelType::c128; }

/// to = the pixels as complex numbers of single precision: integers above 2^24 and doubles are rounded to the nearest,
/// doubles beyond 3.4e38 become infinite. from: [bytes], of to.size() pixels. Throws std::invalid_argument when sizes
/// do not fit or the type is unknown.
void from_pixels(Context& context, DeviceView<const std::byte> from, PixelType type, DeviceView<cfloat> to);

/// to = the values as pixels of T: std::int16_t, std::uint32_t and std::int32_t rounded to the nearest integer, ties to
/// even, and clamped to T's range, with NaN as 0; double unchanged. `tally`: [1] or empty; adds values that are not
/// finite, finite ones that were clamped (saturated), and whether any pixel is not zero.
template <class T>
void to_pixels(Context& context, DeviceView<const float> from, DeviceView<T> to, DeviceView<PixelTally> tally = {});
/// to = the values as complex pixels of double precision; all else as above.
void to_pixels(Context& context, DeviceView<const cfloat> from, DeviceView<cdouble> to,
               DeviceView<PixelTally> tally = {});

/// to = most - v, not below `least`: with of_magnitudes v = |from|, else v = Re(from); the imaginary part becomes 0.
/// NaN stays NaN.
struct Inversion {
  float most = 0;
  float least = 0;
  bool of_magnitudes = true;
};
void invert(Context& context, DeviceView<const cfloat> from, const Inversion& how, DeviceView<cfloat> to);

/// to = real numbers as complex ones.
void to_complex(Context& context, DeviceView<const float> from, DeviceView<cfloat> to);
/// to = complex numbers of these magnitudes, with the phases of `phases`: phase 0 where that is 0.
void with_phases(Context& context, DeviceView<const float> magnitudes, DeviceView<const cfloat> phases,
                 DeviceView<cfloat> to);

}  // namespace echotrain::numerics
