// A NormalOperator is F^H W F of one coil: the matrix of a least-squares problem, on any sampling.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// The vector operations of a conjugate gradients step around y = A x, for each item of a batch, where the operator
/// does them in passes of its own.
struct AroundApply {
  // Before apply: x = z + beta x, where z is r times its factors. Nothing without `r`.
  const cfloat* r = nullptr;      ///< [batch, image...]
  const float* factor = nullptr;  ///< [image...]; nullptr: 1
  const float* beta = nullptr;    ///< beta of the first item
  std::int64_t beta_stride = 0;   ///< distance to that of the next item
  // After apply: y += shift x, and the sums. Nothing without `product`.
  float shift = 0;
  double* product = nullptr;        ///< [batch]: <x, y>
  double* partial = nullptr;        ///< [batch, around_parts()]: working space
  std::int32_t* arrived = nullptr;  ///< [batch], zero between operations
};

/// A Hermitian operator without negative eigenvalues (up to rounding) on images of one shape. Immutable, so that frames
/// and sessions of the same backend can share it. Functions throw std::invalid_argument when shapes do not fit or the
/// context is of another backend.
class NormalOperator {
 public:
  NormalOperator() = default;
  NormalOperator(const NormalOperator&) = delete;
  NormalOperator& operator=(const NormalOperator&) = delete;
  virtual ~NormalOperator() = default;

  virtual const Shape& image() const = 0;  ///< [n...], two or three axes
  virtual Backend backend() const = 0;
  virtual std::uint64_t bytes() const = 0;  ///< memory it holds
  virtual double largest() const = 0;       ///< no eigenvalue is above it
  virtual double diagonal() const = 0;      ///< the diagonal element, the same for every voxel
  /// Eigenvalues of a circulant matrix next to the operator, in FFT order, unscaled: C x = IFFT(circulant() FFT(x)) /
  /// voxels. [image...]
  virtual DeviceView<const float> circulant() const = 0;

  /// y = F^H W F x. x, y: [batch, image...], or [image...]; not the same memory.
  virtual void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const = 0;
  /// y = sum_c conj(maps_c) F^H W F (maps_c x). maps: [coil, image...]; x, y: [image...], not the same memory. Coils
  /// are added in their order, whatever the number of threads.
  virtual void apply_sense(Context& context, DeviceView<const cfloat> maps, DeviceView<const cfloat> x,
                           DeviceView<cfloat> y) const = 0;

  /// The number of partial sums of an item that apply_around() needs; 0 if the operator has no such function.
  virtual std::int64_t around_parts() const { return 0; }
  /// Does the operations of `around`, around apply() (maps of no size), or around apply_sense(), which has none before
  /// it. The caller has checked the shapes. x is written where there is an operation before.
  virtual void apply_around(Context& /*context*/, DeviceView<const cfloat> /*maps*/, DeviceView<cfloat> /*x*/,
                            DeviceView<cfloat> /*y*/, const AroundApply& /*around*/) const {
    throw std::logic_error("this operator does nothing around its application");
  }

  /// Copies the operator to where another context of this backend computes. Waits for `context`; this one's work must
  /// be done.
  virtual std::shared_ptr<const NormalOperator> copy(Context& context) const = 0;
};

}  // namespace echotrain::numerics
