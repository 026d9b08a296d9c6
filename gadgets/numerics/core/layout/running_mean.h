// A running mean over frames that forgets old frames, and a check for outliers among them.
#pragma once

#include <cmath>
#include <cstdint>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// mean += share (next - mean), element by element: share 1 / n for the n-th gives the plain mean; a constant share
/// gives one in which a frame's weight falls by (1 - share) with each frame after it. Elements of `next` that are not
/// finite are left out. Shapes must be equal, share in [0, 1]; std::invalid_argument otherwise.
void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean);

/// Detects outliers among frames by their power: one readout of 1e30 would otherwise swallow all later ones in an fp32
/// mean, or in an iteration that begins with the previous frame. All members are zero at first; it lives where the
/// context computes, so that nothing waits for CUDA.
struct FrameLikeness {
  static constexpr std::int32_t kSmallerPatience = 8;

  double usual;           ///< mean power of the frames that were taken
  float share;            ///< share of this frame in means: as asked for, 0 (it is left out) or 1 (the mean begins
                          ///< anew)
  std::int32_t odd;       ///< nonzero: this frame is unlike earlier ones
  std::int32_t forget;    ///< nonzero: the state that the previous frame left is of no use to this one
  std::int32_t in_a_row;  ///< consecutive frames that are larger (negative: smaller) than earlier ones
  std::int32_t taken;     ///< frames since the mean began
  std::int32_t unlike;    ///< all frames so far that were unlike earlier ones

  /// Takes the next frame's power, which may be `most` times as large as usual, or as small. A larger frame is left
  /// out, once: two in a row mean that a signal has begun. The second frame of all may be a scan's first with a signal.
  /// Smaller frames are left out for longer (signals that pass through zero). A frame without any power has no effect.
  ECHOTRAIN_HOST_DEVICE void take(double power, double most, float wanted) {
    forget = odd;
    odd = 0;
    share = 0;
    const bool finite = power - power == 0;
    if (power == 0) return;
    const int side = !finite || power > most * usual ? 1 : most * power < usual ? -1 : 0;
    if (usual > 0 && side == 0) {
      ++taken;
      in_a_row = 0;
      share = wanted;
      usual += static_cast<double>(wanted) * (power - usual);
      return;
    }
    if (side > 0) in_a_row = in_a_row > 0 ? in_a_row + 1 : 1;
    if (side < 0) in_a_row = in_a_row < 0 ? in_a_row - 1 : -1;
    if (finite && (taken < 2 || in_a_row > 1 || in_a_row <= -kSmallerPatience)) {
      if (usual > 0) forget = 1;
      if (usual > 0 && taken < 2) ++unlike;  // either may have been the outlier
      usual = power;
      share = 1;
      in_a_row = 0;
      taken = 1;
    } else {
      odd = 1;
      ++unlike;
    }
  }
};

/// frame[0].take(power[0], most, share). power: [1], of the next frame; frame: [1]; most: above 1. Waits for nothing;
/// nor does the function below.
void take_frame(Context& context, DeviceView<const double> power, double most, float share,
                DeviceView<FrameLikeness> frame);
/// add_to_mean() with the share in `frame`. A share of 1 overwrites `mean`.
void add_to_mean(Context& context, DeviceView<const cfloat> next, DeviceView<const FrameLikeness> frame,
                 DeviceView<cfloat> mean);

}  // namespace echotrain::numerics
