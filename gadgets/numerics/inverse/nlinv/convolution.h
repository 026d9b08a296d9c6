// The normal operator F^H W F, as a convolution, of successive frames with different samples.
//
// Source: Uecker, Zhang, Frahm, MRM 63, 2010; see also gadgets/numerics/transforms/toeplitz/toeplitz.h.
#pragma once

#include <memory>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// A ToeplitzOperator for one frame at a time and one context, in the same memory: set() neither waits for the device
/// nor looks at the numbers. Throws std::invalid_argument when shapes do not fit.
class FrameConvolution {
 public:
  /// image: [y, x]; batch: the most images at once.
  FrameConvolution(Context& context, const Shape& image, std::int64_t batch);
  ~FrameConvolution();
  FrameConvolution(const FrameConvolution&) = delete;
  FrameConvolution& operator=(const FrameConvolution&) = delete;

  /// q: [2y, 2x], lags -y .. y - 1 and -x .. x - 1 about the centre (y, x), as in the image of the weights alone. T is
  /// `scale` times their convolution.
  void set(DeviceView<const cfloat> q, double scale);
  /// y = T x for images [batch, y, x].
  void apply(DeviceView<const cfloat> x, DeviceView<cfloat> y) const;
  /// True if apply() may be recorded as a CUDA graph. It may not where it needs cuFFT, whose plans other work may
  /// replace.
  bool can_be_recorded() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::numerics
