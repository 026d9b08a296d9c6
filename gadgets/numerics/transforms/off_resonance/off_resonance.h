// Off-resonance correction: the transform of samples taken in an inhomogeneous field, d(s) = sum_r x(r) exp(-2 pi i
// k_s.r) exp(2 pi i f(r) t_s), and its adjoint, by time segmentation (time_segments.h) on top of a NUFFT plan.
//
// f > 0 where the phase of images grows with the echo time, so that f = angle(late conj(early)) / (2 pi (t_late -
// t_early)).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/off_resonance/time_segments.h"

namespace echotrain::numerics {

/// A field map and the times of samples, and the segmentation computed from them: segments l at times T_l, and weights
/// w_l(t) with exp(2 pi i f t) = sum_l w_l(t) exp(2 pi i f T_l). Immutable; used by any number of coils, plans and
/// frames. Functions are asynchronous on CUDA, and add in a fixed order; they throw std::invalid_argument on shapes
/// that do not fit or a context of another backend.
class OffResonance {
 public:
  /// field_hz: [image...]; times_s: times of the first samples, usually of one readout; all others repeat them, so that
  /// sample s has the time times_s[s mod their number]. accuracy: relative RMS error, beside the plan's. Waits for the
  /// device. Throws std::invalid_argument as time_segments() does.
  static std::shared_ptr<const OffResonance> make(Context& context, HostView<const float> field_hz,
                                                  std::vector<double> times_s, double accuracy);

  const Shape& image() const { return field_.shape(); }
  std::int64_t segments() const { return segments_.count(); }
  double error() const { return segments_.error; }                 ///< expected, relative RMS
  const std::vector<double>& times_s() const { return times_s_; }  ///< the times given to make()
  const FieldHistogram& histogram() const { return histogram_; }   ///< histogram of the field
  Array<float> copy_field(Context& context) const;                 ///< the field map in Hz, [image...]
  std::uint64_t bytes() const;

  /// image[c, r] = sum_s weights[s] samples[s, c] exp(2 pi i k_s.r) exp(-2 pi i f(r) t_s), the adjoint: the conjugate
  /// phase reconstruction (Macovski, MRM 2, 1985). Shapes as in NufftPlan::adjoint(). Works on as many segments at a
  /// time as need `most_bytes` of memory, at least one; 0: an amount that suits the device. Results agree up to
  /// rounding.
  void adjoint(Context& context, const NufftPlan& plan, DeviceView<const cfloat> samples,
               DeviceView<const float> weights, DeviceView<cfloat> image, std::int64_t most_bytes = 0) const;
  /// samples[s, c] = sum_r image[c, r] exp(-2 pi i k_s.r) exp(2 pi i f(r) t_s).
  void forward(Context& context, const NufftPlan& plan, DeviceView<const cfloat> image, DeviceView<cfloat> samples,
               std::int64_t most_bytes = 0) const;

  /// Does a part of adjoint(), for samples that are gridded as they come: split[s, l, c] = conj(w_l(t)) samples[s, c],
  /// where t is the time of sample first + s. samples: [n, coil]; split: [n, segment * coil].
  void split(Context& context, std::int64_t first, DeviceView<const cfloat> samples, DeviceView<cfloat> split) const;
  /// image[c, r] = sum_l exp(-2 pi i f(r) T_l) images[l, c, r]. images: [segment * coil, image...], of split samples;
  /// image: [coil, image...].
  void gather(Context& context, DeviceView<const cfloat> images, DeviceView<cfloat> image) const;

 private:
  OffResonance() = default;
  std::int64_t segments_at_a_time(std::int64_t coils, const NufftPlan& plan, std::int64_t most_bytes) const;
  void check(const Context& context, const NufftPlan& plan, const Shape& samples, const Shape& image) const;

  Backend backend_ = Backend::cpu;
  std::vector<double> times_s_;
  FieldHistogram histogram_;
  TimeSegments segments_;
  Array<float> field_;     // [image...]
  Array<cfloat> weights_;  // [time, segment]
  Array<double> at_s_;     // [segment]
};

}  // namespace echotrain::numerics
