// The steps of each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/ultrasound/plane_wave.h"

namespace echotrain::numerics {

namespace cpu {
void take_band(Context& context, DeviceView<const cfloat> spectra, DeviceView<const double> advances,
               const EchoBand& which, DeviceView<cfloat> band);
void multiply(Context& context, DeviceView<const cfloat> factors, DeviceView<cfloat> data);
void mean_of_channels(Context& context, DeviceView<const cfloat> from, bool magnitudes, DeviceView<cfloat> to);
void log_compress(Context& context, DeviceView<const cfloat> from, float reference, float range, DeviceView<cfloat> to);
}  // namespace cpu
namespace cuda {
void take_band(Context& context, DeviceView<const cfloat> spectra, DeviceView<const double> advances,
               const EchoBand& which, DeviceView<cfloat> band);
void multiply(Context& context, DeviceView<const cfloat> factors, DeviceView<cfloat> data);
void mean_of_channels(Context& context, DeviceView<const cfloat> from, bool magnitudes, DeviceView<cfloat> to);
void log_compress(Context& context, DeviceView<const cfloat> from, float reference, float range, DeviceView<cfloat> to);
}  // namespace cuda

}  // namespace echotrain::numerics
