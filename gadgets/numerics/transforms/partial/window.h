// Window functions for k-space (Hann, Tukey, Gaussian), and their application.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

enum class WindowKind { hann, tukey, gaussian };

/// Returns the factors of n points, 1 at `center`, for a distance k from it [points], with kw = half_width > 0:
///   hann       0.5 + 0.5 cos(pi k / kw); 0 from kw on
///   tukey      1 up to (1 - parameter) kw, then 0.5 (1 + cos(pi (k - (1 - parameter) kw) / (parameter kw))); then 0
///   gaussian   exp(-k^2 / (2 (parameter kw)^2)), never cut off
/// parameter: tukey 0..1 (0: a box), gaussian > 0; hann has none. Throws std::invalid_argument for other numbers.
/// Source: Harris, "On the use of windows for harmonic analysis with the discrete Fourier transform", Proc. IEEE 66,
/// 1978.
std::vector<float> window(std::int64_t n, std::int64_t center, double half_width, WindowKind kind,
                          double parameter = 0);

/// kspace[c, z, y, x] *= factors[0][z] factors[1][y] factors[2][x]; an empty vector is all ones. Asynchronous on CUDA.
/// Throws std::invalid_argument when lengths do not fit.
void multiply_axes(Context& context, DeviceView<cfloat> kspace, const std::array<std::vector<float>, 3>& factors);

/// kspace[c, z, y, x] *= window() of the radius r about the centre floor(n / 2), r^2 = sum over axes of (k / reach)^2,
/// for a half width in units of the reach: an ellipse in 2D, an ellipsoid in 3D. reach: of z, y, x [points], above 0;
/// an axis with 0 does not count. Asynchronous on CUDA. Throws std::invalid_argument as window() does.
void multiply_radius(Context& context, DeviceView<cfloat> kspace, const std::array<double, 3>& reach, double half_width,
                     WindowKind kind, double parameter = 0);

}  // namespace echotrain::numerics
