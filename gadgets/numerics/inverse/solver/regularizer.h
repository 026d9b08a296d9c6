// A Regularizer is the quadratic prior R = W^H W of a regularised least squares problem.
//
// Sources: Stone et al., JPDC 68, 2008, sec. 2.2 (docs/seeds.md); weights that fall at the edges of a reference image:
// Haldar, Hernando, Song, Liang, "Anatomically constrained reconstruction from noisy data", MRM 59, 2008.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// R = W^H W for images of one shape. Immutable.
class Regularizer {
 public:
  virtual ~Regularizer() = default;
  virtual const Shape& image() const = 0;  ///< [n...], one to three axes
  /// y = y + scale R x. x, y: [batch, image...], not the same memory. The same bits for any number of threads.
  virtual void add(Context& context, float scale, DeviceView<const cfloat> x, DeviceView<cfloat> y) const = 0;
  /// R's diagonal. [image...]
  virtual void diagonal(Context& context, DeviceView<float> diagonal) const = 0;
  /// Eigenvalues of a circulant matrix near R (for a stencil of constant weights T. Chan's optimal one), in FFT order,
  /// unscaled, >= 0. [image...]
  virtual void symbol(Context& context, DeviceView<float> symbol) const = 0;
  /// Copies R to where another context computes. Waits for `context`; this one's work must be done.
  virtual std::shared_ptr<const Regularizer> copy(Context& context) const = 0;
  /// True if R is the identity, which solvers add in their own passes.
  virtual bool identity() const { return false; }
};

/// Tikhonov regularisation: W = 1.
std::shared_ptr<const Regularizer> tikhonov(const Shape& image);

/// W = differences of neighbours along each axis, over their distance; none across the border. `voxel_size`: one per
/// axis, slowest first, in any unit; empty: 1. Throws std::invalid_argument unless all are positive.
std::shared_ptr<const Regularizer> smoothness(const Shape& image, const std::vector<double>& voxel_size = {});

/// W x = w_a(r) (x(r + e_a) - x(r)) over all axes a and voxels r that have a neighbour r + e_a: W^H W = sum_a D_a^H
/// w_a^2 D_a. weights: w (not its square), real, finite, any sign, where the context computes: [axis, image...], axis 0
/// the slowest; values of voxels without a neighbour are ignored. Shared, not copied.
std::shared_ptr<const Regularizer> edge_stencil(Context& context, const Array<float>& weights);

}  // namespace echotrain::numerics
