// The geometry of plane-wave echoes: the places of an array's elements, and the frequencies of its sampled echoes.
#pragma once

#include <cstdint>

#include "gadgets/api/items.h"

namespace echotrain {

/// The place of element `e` along the array, whose middle is 0 [mm].
inline double element_mm(const EchoGeometry& geometry, std::int64_t e) {
  return (static_cast<double>(e) - static_cast<double>(geometry.elements - 1) / 2) * geometry.pitch_mm;
}

/// The frequencies first_hz + k * step_hz, k < count, of which the first lies in bin first_bin of `bins`.
struct EchoFrequencies {
  std::int64_t first_bin = 0, count = 0;
  double first_hz = 0, step_hz = 0;
};
/// The frequencies that sampling has not aliased and that lie within `bandwidth` times the centre frequency about it:
/// for RF, in the Nyquist zone [z, z + 1) * sampling / 2 that holds the centre frequency; for IQ, within half of the
/// sampling frequency about the demodulation frequency. `bins`: length of the traces' transforms, even.
EchoFrequencies kept_frequencies(const EchoGeometry& geometry, std::int64_t bins, double bandwidth);

}  // namespace echotrain
