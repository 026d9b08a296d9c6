// Plane-wave ultrasound: the imaging steps that are not Fourier transforms.
#pragma once

#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// A band of frequencies: frequency k is first_hz + k * step_hz and lies in bin (first_bin + k) mod bins of the traces'
/// spectra. first_bin is in [0, bins).
struct EchoBand {
  std::int64_t first_bin = 0;
  double first_hz = 0, step_hz = 0;
};

/// Takes a band out of the traces' spectra, and moves each trace in time:
///   band[w, k, e] = spectra[e, w, (first_bin + k) mod bins] exp(2 pi i (first_hz + k step_hz) advances[w, e]),
/// and 0 for e >= elements. spectra: [element, wave, bin]; advances: [wave, element], seconds; band: [wave, frequency,
/// column] with columns >= elements and frequencies <= bins. Throws std::invalid_argument otherwise.
void take_band(Context& context, DeviceView<const cfloat> spectra, DeviceView<const double> advances,
               const EchoBand& which, DeviceView<cfloat> band);

/// data[i] *= factors[i]. Sizes are equal.
void multiply(Context& context, DeviceView<const cfloat> factors, DeviceView<cfloat> data);

/// to[i] = mean over c of from[c, i], or of |from[c, i]|. from: [channel, z, y, x]; to: [1, z, y, x].
void mean_of_channels(Context& context, DeviceView<const cfloat> from, bool magnitudes, DeviceView<cfloat> to);

/// to[i] = max(0, range + 20 log10(|from[i]| / reference)): decibels above the floor, which lies `range` below
/// `reference`. reference and range > 0. Sizes are equal; `to` may be `from`.
void log_compress(Context& context, DeviceView<const cfloat> from, float reference, float range, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
