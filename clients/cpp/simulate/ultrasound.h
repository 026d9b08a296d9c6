// `echotrain simulate --modality ultrasound`: echoes of plane waves, by the times that sound takes.
#pragma once

#include <complex>
#include <iosfwd>
#include <vector>

#include "clients/cpp/simulate/simulate.h"

namespace echotrain::client {

/// A place that scatters sound: x along the array from its middle, z in depth [mm].
struct Scatterer {
  double x = 0, z = 0, amplitude = 1;
};

/// The phantom's scatterers. points: the four of GPU Gems 2, figure 48-8 (whose places are not given). speckle:
/// scatterers all over the image, about ten in every square of a wavelength by two, with a disc that has none.
std::vector<Scatterer> scatterers(const SimulateOptions& options);

/// Steering angles of a frame's waves [degrees]: equally spaced over the span, about 0; of one wave: 0.
std::vector<double> wave_angles(const UltrasoundOptions& options);

/// When traces begin, after the wave front has passed the array's middle.
double first_sample_us(const UltrasoundOptions& options);

/// What each element receives of a plane wave of `angle_deg`: [element, sample]. Sound travels straight; the wave meets
/// a scatterer at (z cos a + x sin a) / c after it has passed the array's middle, and the echo comes back from there to
/// each element, weakened by the square root of its way. The pulse is a cosine in a Gaussian envelope. RF is real; IQ
/// is its analytic signal times exp(-2 pi i f_demodulation t).
std::vector<std::complex<float>> echoes(const UltrasoundOptions& options, const std::vector<Scatterer>& phantom,
                                        double angle_deg);

/// Writes the scan, and the array `scatterers` [n, 3] (x, z, amplitude) when o.truth is set. UsageError on bad options.
void simulate_ultrasound(const SimulateOptions& options, std::ostream& out);

}  // namespace echotrain::client
