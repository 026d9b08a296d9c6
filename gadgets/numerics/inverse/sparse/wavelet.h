// Orthogonal wavelets of images.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct WaveletOptions {
  /// The least number of coefficients, those of its border included, with which an axis is halved again: an axis of n
  /// has (n + 3) / 2 of them after one level, as in transforms without periodic ends. 4 or more.
  std::int64_t smallest = 16;
  /// z, y, x, each 0 .. n - 1: the wavelets see voxel r of the image at r - shift (mod n).
  std::array<std::int64_t, 3> shift{};
};

/// Replaces images by their wavelet coefficients, or coefficients by images: Daubechies' wavelets of four taps, along
/// every axis longer than 1, with periodic ends. With x(-2) beyond the first sample, low(0) is that of x(-2) .. x(1).
/// On each level, an axis of odd extent keeps its last sample as the last of its low coefficients. The transform is
/// orthogonal for all extents: synthesis is both the inverse and the adjoint of analysis. Low coefficients come first
/// on each axis. images: [item, z, y, x]. Allocates memory for as many images. Asynchronous on CUDA. Throws
/// std::invalid_argument on shapes and options that do not fit. Source: Daubechies, CPAM 41, 1988; levels of several
/// axes: Mallat, IEEE PAMI 11, 1989.
void wavelet_analysis(Context& context, DeviceView<cfloat> images, const WaveletOptions& options = {});
void wavelet_synthesis(Context& context, DeviceView<cfloat> images, const WaveletOptions& options = {});

/// The least shape, from `images` on, whose axes are even on each level that halves them.
Shape wavelet_extents(const Shape& images, std::int64_t smallest);

/// to = from where both have voxels, 0 elsewhere: it pads images with zeros at the ends of their axes, and crops that
/// again. from, to: [item, z, y, x]. Asynchronous on CUDA. Throws std::invalid_argument on shapes that do not fit.
void copy_corner(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to);

}  // namespace echotrain::numerics
