// A mean over frames that forgets old ones.
#pragma once

#include <cmath>
#include <cstdint>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// mean += share (next - mean), element by element: with share 1 / n for the n-th of them the plain mean, with a
/// constant share one in which a frame's weight falls by (1 - share) with each frame after it. Elements of `next` that
/// are not finite are left out. Shapes must be equal, share in [0, 1]; std::invalid_argument otherwise.
void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean);

/// Whether frames are like those before them, by their power: one readout of 1e30 would be all that a mean, or an
/// iteration that begins with the frame before, ever sees again in fp32. Zeros at first; it lives where the context
/// computes, so that nothing waits for CUDA.
struct FrameLikeness {
  static constexpr std::int32_t kSmallerPatience = 8;

  double usual;           ///< power of the frames that were taken, their mean
  float share;            ///< of this frame in means: as was wanted, 0 (it is left out) or 1 (the mean begins anew)
  std::int32_t odd;       ///< whether this frame is unlike those before it
  std::int32_t forget;    ///< whether what the frame before left is of no use to this one
  std::int32_t in_a_row;  ///< frames that are larger (negative: smaller) than those before
  std::int32_t taken;     ///< frames since the mean began
  std::int32_t unlike;    ///< frames unlike those before them, in all

  /// Takes the next frame's power, which may be `most` times as large as usual, or as small. One that is larger is left
  /// out, once: two in a row are the signal that has begun. The second frame of all may be a scan's first with a
  /// signal; smaller ones are left out for longer (signals that pass through nothing). A frame without any power says
  /// nothing.
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
      if (usual > 0 && taken < 2) ++unlike;  // which of the two was, nobody knows
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

/// frame[0].take(power[0], most, share). power: [1], of the next frame; frame: [1]; most: above 1. Waits for nothing,
/// as the next one.
void take_frame(Context& context, DeviceView<const double> power, double most, float share,
                DeviceView<FrameLikeness> frame);
/// add_to_mean() with the share that `frame` says. At 1, what `mean` was has no effect.
void add_to_mean(Context& context, DeviceView<const cfloat> next, DeviceView<const FrameLikeness> frame,
                 DeviceView<cfloat> mean);

}  // namespace echotrain::numerics
