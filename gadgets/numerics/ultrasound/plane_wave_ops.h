// The steps of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/ultrasound/plane_wave.h"

namespace echotrain::numerics {

// clang-format off
ECHOTRAIN_BACKENDS(
void take_band(Context& context, View<const cfloat> spectra, View<const double> advances, const EchoBand& which,
               View<cfloat> band);
void multiply(Context& context, View<const cfloat> factors, View<cfloat> data);
void mean_of_channels(Context& context, View<const cfloat> from, bool magnitudes, View<cfloat> to);
void log_compress(Context& context, View<const cfloat> from, float reference, float range, View<cfloat> to);
)
// clang-format on

}  // namespace echotrain::numerics
