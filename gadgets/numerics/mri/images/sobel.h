// Edges of an image: Sobel's gradient, and weights for priors that must not smooth across edges.
// Axis 0 is x, 1 is y, 2 is z, as of trajectories. Images of one plane (z = 1) are 2D: two axes.
#pragma once

#include <array>
#include <cstdint>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The number of axes: 2 for [1, y, x], else 3.
inline std::int64_t image_axes(const Shape& image) { return image[0] == 1 ? 2 : 3; }

/// Computes Sobel's gradient, in 2D and 3D: along an axis (f(r + 1) - f(r - 1)) / 2, along each other axis smoothed by
/// [1 2 1] / 4, so that a ramp of 1 per voxel has gradient 1. Borders are replicated. Non-finite values propagate to
/// the gradients that include them.
/// image: [z, y, x], real, or complex, whose magnitude is taken. magnitude: [z, y, x], sqrt(sum of squares).
/// components: [axis, z, y, x], or empty when they are not wanted. Throws std::invalid_argument on shapes that do not
/// fit. Source: Sobel & Feldman, "A 3x3 isotropic gradient operator for image processing", 1968.
void sobel(Context& context, DeviceView<const float> image, DeviceView<float> magnitude,
           DeviceView<float> components = {});
void sobel(Context& context, DeviceView<const cfloat> image, DeviceView<float> magnitude,
           DeviceView<float> components = {});

/// The part of the gradient g that an image shows.
enum class GradientPart { magnitude, direction, both };

/// The number of channels of a gradient's image: 1; of volumes 3 for the direction and 4 for both.
inline std::int64_t gradient_channels(std::int64_t axes, GradientPart part) {
  if (axes == 2 || part == GradientPart::magnitude) return 1;
  return part == GradientPart::direction ? 3 : 4;
}

/// Makes images of a gradient from its components, which sobel() computes, each times its axis' factor. components:
/// [axis, z, y, x]; to: [channel, z, y, x], of gradient_channels().
///   magnitude: |g|
///   direction: (gx + i gy) / |g|, whose phase is the angle from x towards y; of volumes three real channels, gx / |g|,
///              gy / |g| and gz / |g|. 0 where |g| is 0.
///   both:      gx + i gy; of volumes |g| and the three channels of the direction
/// |g| neither over- nor underflows in the computation. Throws std::invalid_argument on shapes that do not fit.
void gradient_image(Context& context, DeviceView<const float> components, const std::array<float, 3>& factors,
                    GradientPart part, DeviceView<cfloat> to);

struct EdgeOptions {
  double strength = 4;    ///< a difference of this many times the quantile halves an edge's weight
  double quantile = 0.5;  ///< quantile of the differences' sizes over all edges, 0..1; 0.5: the median, 0.67 noise
                          ///< deviations
};

/// Computes weights of the edges between neighbouring voxels, small where a reference image changes: for priors that
/// average within structures and not across them.
///   w = 1 / (1 + (d / sigma)^2),  sigma = strength * quantile of |d|, at least 1e-3 of the largest |d|,
/// where d is the difference across the edge, smoothed by [1 2 1] / 4 along each other axis (Sobel's operator for a
/// place between two voxels; borders replicated). weights[a, z, y, x], [axis, z, y, x]: the edge from voxel (z, y, x)
/// to the next along axis a; 0 where that would lie outside the image, else in (0, 1]. Does not depend on the
/// reference's scale. A flat reference gives weights of 1; differences that are not finite count as none. reference:
/// [z, y, x]. The same bits in every run; asynchronous on CUDA. Throws std::invalid_argument on shapes or options that
/// do not fit. Source: Haldar, Hernando, Song, Liang, "Anatomically constrained reconstruction from noisy data", MRM
/// 59, 2008.
void edge_weights(Context& context, DeviceView<const float> reference, const EdgeOptions& options,
                  DeviceView<float> weights);

}  // namespace echotrain::numerics
