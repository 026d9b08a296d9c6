// The normal operator F^H W F of trajectories that do not repeat, made anew for each frame in the same memory.
#pragma once

#include <cstdint>
#include <memory>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// A ToeplitzOperator for one frame at a time. It computes less (no circulant, no check that the operator is Hermitian)
/// and waits for nothing. Confined to one context.
class FrameToeplitz {
 public:
  /// Serves images [y, x] (or [z, y, x]) and apply_sense() with that many coils. Throws std::invalid_argument for an
  /// impossible shape.
  FrameToeplitz(Context& context, const Shape& image, std::int64_t coils);
  ~FrameToeplitz();

  const Shape& image() const;
  const Shape& grid() const;  ///< extents of the transforms, at least 2n

  /// The memory for q(r - r') of the next frame, which the caller fills: [grid...] in FFT order, 0 except at the lags
  /// -n + 1 .. n - 1.
  DeviceView<cfloat> lags();
  /// Makes the operator from lags(), which is working space afterwards. Its part that is not Hermitian is dropped.
  void take(Context& context);
  /// [1], where the context computes: the spectrum's largest value, which no eigenvalue exceeds.
  DeviceView<const float> largest() const;

  /// y = sum_c conj(maps_c) F^H W F (maps_c x), as NormalOperator::apply_sense(). It always works in the same memory,
  /// so that it can be recorded as a CUDA graph.
  void apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                   DeviceView<cfloat> y) const;
  /// y = F^H W F x for as many images as there are coils, x and y [coil, image...], not the same memory. It can be
  /// recorded, too.
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const;
  /// True if apply_sense() and apply() may be recorded. They may not where they need cuFFT, whose plans other work may
  /// replace.
  bool can_be_recorded() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::numerics
