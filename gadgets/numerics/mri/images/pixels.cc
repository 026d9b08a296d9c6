#include "gadgets/numerics/mri/images/pixels.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/images/pixels_ops.h"

namespace echotrain::numerics {
namespace {

void require_as_many(const char* operation, std::int64_t from, std::int64_t to) {
  if (from != to) throw std::invalid_argument(fmt::format("{}: {} values cannot become {}", operation, from, to));
}

}  // namespace

std::int64_t bytes_of(PixelType type) {
  switch (type) {
    case PixelType::u16:
    case PixelType::i16:
      return 2;
    case PixelType::u32:
    case PixelType::i32:
    case PixelType::f32:
      return 4;
    case PixelType::f64:
    case PixelType::c64:
      return 8;
    case PixelType::c128:
      return 16;
  }
  return 0;
}

void from_pixels(Context& context, DeviceView<const std::byte> from, PixelType type, DeviceView<cfloat> to) {
  const std::int64_t bytes = bytes_of(type);
  if (bytes == 0)
    throw std::invalid_argument(fmt::format("from_pixels: {} is no type of pixels", static_cast<int>(type)));
  require_as_many("from_pixels", from.size(), to.size() * bytes);
  if (to.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, from_pixels(context, from.data(), type, to.size(), to.data()));
}

template <class T>
void to_pixels(Context& context, DeviceView<const float> from, DeviceView<T> to, DeviceView<PixelTally> tally) {
  require_as_many("to_pixels", from.size(), to.size());
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, to_pixels(context, from.data(), from.size(), to.data(), tally.data()));
}
template void to_pixels(Context&, DeviceView<const float>, DeviceView<std::int16_t>, DeviceView<PixelTally>);
template void to_pixels(Context&, DeviceView<const float>, DeviceView<std::uint32_t>, DeviceView<PixelTally>);
template void to_pixels(Context&, DeviceView<const float>, DeviceView<std::int32_t>, DeviceView<PixelTally>);
template void to_pixels(Context&, DeviceView<const float>, DeviceView<double>, DeviceView<PixelTally>);

void to_pixels(Context& context, DeviceView<const cfloat> from, DeviceView<cdouble> to, DeviceView<PixelTally> tally) {
  require_as_many("to_pixels", from.size(), to.size());
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, to_pixels(context, from.data(), from.size(), to.data(), tally.data()));
}

void invert(Context& context, DeviceView<const cfloat> from, const Inversion& how, DeviceView<cfloat> to) {
  require_as_many("invert", from.size(), to.size());
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, invert(context, from.data(), from.size(), how, to.data()));
}

void to_complex(Context& context, DeviceView<const float> from, DeviceView<cfloat> to) {
  require_as_many("to_complex", from.size(), to.size());
  if (from.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, to_complex(context, from.data(), from.size(), to.data()));
}

void with_phases(Context& context, DeviceView<const float> magnitudes, DeviceView<const cfloat> phases,
                 DeviceView<cfloat> to) {
  require_as_many("with_phases", magnitudes.size(), to.size());
  require_as_many("with_phases", phases.size(), to.size());
  if (to.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, with_phases(context, magnitudes.data(), phases.data(), to.size(), to.data()));
}

}  // namespace echotrain::numerics
