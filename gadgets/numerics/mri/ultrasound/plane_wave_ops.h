// The plane-wave steps of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/ultrasound/plane_wave.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void take_band(Context& context, DeviceView<const cfloat> spectra, DeviceView<const double> advances, const EchoBand& which,
               DeviceView<cfloat> band);
void multiply(Context& context, DeviceView<const cfloat> factors, DeviceView<cfloat> data);
void mean_of_channels(Context& context, DeviceView<const cfloat> from, bool magnitudes, DeviceView<cfloat> to);
void log_compress(Context& context, DeviceView<const cfloat> from, float reference, float range, DeviceView<cfloat> to);
)
// clang-format on

}  // namespace echotrain::numerics
