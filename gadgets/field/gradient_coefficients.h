// Gradient coefficients are a site's text of what its gradient coils do beyond linearity.
#pragma once

#include <string_view>

#include "gadgets/numerics/mri/field/gradient_field.h"

namespace echotrain {

/// Reads one of three texts; `#` begins a comment in each:
///   .grad     Siemens' table: "0.25 m = R0", lines "101 A( 3, 1) 0.01 x"; A goes with cos m phi, B with sin m phi
///   .coef     lines "alpha_x 3 1 0.01;", "beta_y 3 1 0.01;"
///   generic   "echotrain_gradients 1", "radius_mm 250", "normalization siemens", and lines "x 3 1 0.01 0": coil, n, m,
///             cosine, sine
/// Harmonics (r / radius)^n P_n^m(cos theta) of Siemens have the factor sqrt((2 n + 1) (n - m)! / (2 (n + m)!)) where m
/// is above 0, those of `schmidt` sqrt(2 (n - m)! / (n + m)!) there, those of `legendre` none; P_n^m without (-1)^m.
/// Lines of a .grad that are none of its table are words. radius_mm: of texts that have none; 0: not known.
///
/// Throws ClientError with the line's number and what belongs there, but not with the line, which is the site's.
numerics::GradientHarmonics read_gradient_coefficients(std::string_view text, double radius_mm);

}  // namespace echotrain
