// Frames of slices that were excited at once with known phases (SMS), as NLINV of several slices needs them.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/inverse/nlinv/nlinv.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/scatter/scatter.h"
#include "gadgets/numerics/transforms/toeplitz/frame_toeplitz.h"

namespace echotrain::numerics {

/// Samples of number n see sum_m phases[n, m] F_n z_m of the slices' coil images z_m. For each number n, F_n^H W d_n
/// and the kernel of F_n^H W F_n are scattered, without a plan; F^H W F of all slices is then phases^H, the
/// convolutions of the numbers, and phases. Nothing waits for the device; the same input gives the same bits in every
/// run. Confined to one context.
class PhasedFrame {
 public:
  /// phases: [number, slice], as many numbers as slices. image: [y, x]. accuracy: relative RMS error of both. Throws
  /// std::invalid_argument where that cannot be reached.
  PhasedFrame(Context& context, HostView<const cfloat> phases, std::int64_t coils, const Shape& image, double accuracy);

  std::int64_t slices() const { return static_cast<std::int64_t>(of_number_.size()); }
  std::int64_t coils() const { return coils_; }
  /// Begins a frame; numbers without samples count as none.
  void clear();
  /// Sets the samples of a number, once: coordinates [sample, 2], cycles/pixel, samples with NaN drop out; data
  /// [sample, coil]; weights [sample]; all where the context computes.
  void set(std::int64_t number, DeviceView<const double> coordinates, DeviceView<const cfloat> data,
           DeviceView<const float> weights);
  /// Ends a frame; call it once, after its last samples. weight: sum of all weights. The result refers to this object,
  /// and is valid until clear().
  NlinvFrame finish(double weight);

 private:
  void apply(DeviceView<const cfloat> x, DeviceView<cfloat> y);

  Context& context_;
  std::int64_t coils_;
  Array<cfloat> phases_, conjugates_;  // [number, slice], [slice, number]
  ScatterNufft data_, lags_;
  std::deque<FrameToeplitz> of_number_;  // a deque, whose elements do not move
  Array<cfloat> right_, seen_;           // [number, coil, y, x]; right_ finally [slice, coil, y, x]
  Array<double> power_;
  std::uint64_t number_;  // the number of this object
};

}  // namespace echotrain::numerics
