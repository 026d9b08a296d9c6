// An ultrasound scan has echoes of plane waves, computed from the travel times of sound: `echotrain simulate --modality
// ultrasound`.
#pragma once

#include <complex>
#include <iosfwd>
#include <vector>

#include "clients/cpp/simulate/simulate.h"

namespace echotrain::client {

/// A point that scatters sound: x along the array from its middle, z in depth [mm].
struct Scatterer {
  double x = 0, z = 0, amplitude = 1;
};

/// Returns the phantom's scatterers. points: the four of GPU Gems 2, figure 48-8 (which does not give their places).
/// speckle: scatterers all over the image, about ten in every square of a wavelength by two, with a disc that has none.
std::vector<Scatterer> scatterers(const SimulateOptions& options);

/// Returns the steering angles of a frame's waves [degrees]: equally spaced over the span, about 0; a single wave has
/// angle 0.
std::vector<double> wave_angles(const UltrasoundOptions& options);

/// Returns when traces begin, counted from the moment the wave front passes the array's middle [us].
double first_sample_us(const UltrasoundOptions& options);

/// Returns what each element receives from a plane wave of `angle_deg`: [element, sample]. Sound travels straight; the
/// wave meets a scatterer at (z cos a + x sin a) / c after it has passed the array's middle, and the echo comes back
/// from there to each element, divided by the square root of its path. The pulse is a cosine in a Gaussian envelope. RF
/// is real; IQ is its analytic signal times exp(-2 pi i f_demodulation t).
std::vector<std::complex<float>> echoes(const UltrasoundOptions& options, const std::vector<Scatterer>& phantom,
                                        double angle_deg);

/// Writes the scan, and the array `scatterers` [n, 3] (x, z, amplitude) if options.truth. Throws UsageError on bad
/// options.
void simulate_ultrasound(const SimulateOptions& options, std::ostream& out);

}  // namespace echotrain::client
