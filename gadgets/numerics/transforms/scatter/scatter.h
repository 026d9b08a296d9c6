// Non-uniform FFT without plans, for trajectories that do not repeat: samples are scattered to the grid.
//
// Kernel and grid: gadgets/numerics/transforms/nufft/nufft.h. Fixed-point sums, whose result does not depend on their
// order, are the way of reproducible summation by a common exponent (Demmel & Nguyen, "Parallel reproducible
// summation", IEEE TC 64(7), 2015), with 64-bit integers as the accumulators.
#pragma once

#include <cstdint>
#include <memory>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::numerics {

/// The memory and the tables for one image size and a largest number of channels, reused for every frame. Confined to
/// one context. adjoint() and lags() enqueue work without waiting; on CUDA they ask for no memory.
///
/// The same input gives the same bits in every run and for any number of threads. Samples are rounded to 2^-61 n times
/// the largest of n (CUDA), which is far below fp32's rounding of the sums.
class ScatterNufft {
 public:
  /// image: [y, x]. `options`: kernel width and oversampling; `use` is ignored. Throws std::invalid_argument on bad
  /// options.
  ScatterNufft(Context& context, const Shape& image, const NufftOptions& options, std::int64_t channels);
  ~ScatterNufft();

  const Shape& image_shape() const;
  const Shape& grid_shape() const;  ///< oversampled extents
  std::int64_t channels() const;

  /// image[c, r] = sum_s weights[s] samples[s, c] exp(+2 pi i k_s . r), centre at floor(n/2). coordinates: [sample, 2]
  /// in cycles/pixel, x first, where the context computes; values outside [-0.5, 0.5) wrap, and a sample takes no part
  /// if one is not finite. samples: [sample, coil]; weights: [sample] or empty. image: [coil, y, x], coil <=
  /// channels(). If a sample is not finite, all images (CUDA) or some values (CPU) are NaN.
  void adjoint(Context& context, DeviceView<const double> coordinates, DeviceView<const cfloat> samples,
               DeviceView<const float> weights, DeviceView<cfloat> image);

  /// The point spread function of images of half the extents: to[l] = sum_s weights[s] exp(+2 pi i k_s . l) for the
  /// lags -n + 1 .. n - 1 of each axis, where this was made for an image [2 ny, 2 nx]. to: at least these extents, in
  /// FFT order; 0 at other lags.
  void lags(Context& context, DeviceView<const double> coordinates, DeviceView<const float> weights,
            DeviceView<cfloat> to);

  struct Impl;  // defined in scatter_ops.h

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::numerics
