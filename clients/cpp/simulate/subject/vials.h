// Vials are discs of known relaxation, diffusion and fields, in rows.
#pragma once

#include <vector>

#include "clients/cpp/simulate/subject/phantom.h"

namespace echotrain::client {

struct Tissue {
  double t1_ms, t2_ms, t2star_ms;
  double adc_mm2_per_s;
  double b0_hz;  ///< off resonance
  double b1;     ///< flip angle over the nominal one
};

/// Returns tissues from the shortest times to the longest: T1 of 100 to 3000 ms, T2 of 10 to 300 ms and T2* of 5 to 100
/// ms in equal ratios; ADC of 0.0003 to 0.003 mm2/s, B0 of -60 to 60 Hz and B1 of 0.7 to 1.3 in equal steps.
std::vector<Tissue> tissues(int vials);

/// The place of a vial in pixels from the origin, and its radius.
struct Vial {
  Vec3 center;
  double radius;
};
/// Returns the vials, in rows from the top left; none touches another or its wrapped image.
std::vector<Vial> places_of_vials(double matrix, int vials);
/// The standard deviation of the Gaussian that blurs their edges [pixels]: k-space then ends within the image's (the
/// transform is 5e-4 of a sharp edge's at its border), so that no vial rings into another.
inline constexpr double kVialBlur = 1.25;

/// Returns an object of vials, each with its signal inside and nothing between them.
Phantom phantom_of_vials(double matrix, const std::vector<cdouble>& signals);
/// Returns an image [y, x] that has a vial's value where its signal is 97 % and more of what it is inside, else 0.
std::vector<float> map_of_vials(int matrix, const std::vector<double>& values);

}  // namespace echotrain::client
