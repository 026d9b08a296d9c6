// Conjugate gradients with a fixed number of steps for successive frames, each starting from the previous frame's
// image.
//
// Source: Hestenes & Stiefel 1952, in the form of Chronopoulos & Gear, "s-step iterative methods for symmetric linear
// systems", J. Comp. Appl. Math. 25, 1989, whose steps need only one sum over all voxels. Image priors that draw a
// frame to the previous one: Uecker et al., "Real-time MRI at a resolution of 20 ms", NMR Biomed. 23, 2010.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

struct FixedCgOptions {
  static constexpr int kMostIterations = 1000;
  int iterations = 10;
  double previous = 0;  ///< weight of |x - x_previous|^2, relative to the scale that solve() is given
  double size = 0;      ///< weight of |x|^2, relative to the same scale
};

/// Minimises x^H A x - 2 Re x^H b + previous L |x - x_previous|^2 + size L |x|^2 from x_previous on, by `iterations`
/// steps, whatever the residual is; `previous` counts as 0 where there is no previous frame, or its image is zero or
/// not finite. It owns its vectors, asks for no memory and waits for nothing, so that on CUDA its steps are recorded as
/// a graph once and launched for each frame; a stop of the scan then waits until all steps have run. Confined to one
/// context.
class FixedCg {
 public:
  /// y = A x, images of one shape; the same work in the same memory in every call.
  using Apply = std::function<void(DeviceView<const cfloat> x, DeviceView<cfloat> y)>;
  /// Throws std::invalid_argument unless numbers are in range.
  FixedCg(Context& context, const Shape& image, const FixedCgOptions& options);
  ~FixedCg();

  /// [image...]: the right-hand side b, to be filled before solve().
  DeviceView<cfloat> right();
  /// [image...]: the solution, which is the start and x_previous of the next frame. Zero at first.
  DeviceView<cfloat> image();
  /// Makes the next frame begin as the first one did, if forgets[0] is not 0. forgets: [1], where the context computes.
  void forget(Context& context, DeviceView<const std::int32_t> forgets);
  /// Solves for a frame. `may_record`: true if `apply` may be recorded as a CUDA graph. Sums are in float64 and in a
  /// fixed order. x becomes 0 where the data or A are not finite.
  void solve(Context& context, const Apply& apply, DeviceView<const float> scale, bool may_record);

  struct Impl;  // defined in fixed_cg_ops.h

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::numerics
