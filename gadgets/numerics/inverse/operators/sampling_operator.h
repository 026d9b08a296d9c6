// A SamplingOperator maps an image to a scan's samples (F), and back (F^H W).
#pragma once

#include <memory>

#include "gadgets/numerics/inverse/operators/normal_operator.h"

namespace echotrain::numerics {

/// d = F x of one coil, for a batch whose items are coils, frames, or both; W weighs the samples. Immutable, shared by
/// scans of a backend. Functions throw std::invalid_argument when shapes do not fit or the context is of another
/// backend.
class SamplingOperator {
 public:
  SamplingOperator() = default;
  SamplingOperator(const SamplingOperator&) = delete;
  SamplingOperator& operator=(const SamplingOperator&) = delete;
  virtual ~SamplingOperator() = default;

  virtual const Shape& image() const = 0;  ///< [n...], two or three axes
  /// The shape of the samples of a batch: on a grid [batch, k...], anywhere [sample, batch].
  virtual Shape samples(std::int64_t batch) const = 0;
  /// d = F x. x: [batch, image...]; d: samples(batch), 0 where no sample was measured.
  virtual void forward(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> d) const = 0;
  /// x = F^H W d. d: samples(batch); values at places that were not measured do not matter. x: [batch, image...]
  virtual void adjoint(Context& context, DeviceView<const cfloat> d, DeviceView<cfloat> x) const = 0;
  /// F^H W F: adjoint() after forward().
  virtual std::shared_ptr<const NormalOperator> normal() const = 0;
};

}  // namespace echotrain::numerics
