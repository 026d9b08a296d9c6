// Linear operators of the equations to solve: Hermitian, without negative eigenvalues, on images.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>

#include "gadgets/numerics/core/team/communicator.h"
#include "gadgets/numerics/inverse/operators/normal_operator.h"

namespace echotrain::numerics {

/// y = A x on images of one shape.
class LinearOperator {
 public:
  virtual ~LinearOperator() = default;
  virtual const Shape& image() const = 0;  ///< [n...]
  /// x, y: [batch, image...], each item on its own; not the same memory.
  virtual void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const = 0;
  /// The support of apply_around(): operations before, and the number of parts of an item's sums after (0: no sums).
  struct Around {
    bool before = false;
    std::int64_t parts = 0;
  };
  virtual Around around() const { return {}; }
  /// Does apply() with the operations around it that around() allows.
  virtual void apply_around(Context& /*context*/, DeviceView<cfloat> /*x*/, DeviceView<cfloat> /*y*/,
                            const AroundApply& /*around*/) const {
    throw std::logic_error("this operator does nothing around its application");
  }
  /// A's diagonal, or an estimate of it that is >= 0. [image...]
  virtual void diagonal(Context& context, DeviceView<float> diagonal) const = 0;
  /// A is near diag(share) C diag(share), where C is circulant. eigenvalues of C: [image...], FFT order, unscaled;
  /// share: [image...], in (0, 1], 1 where A is strongest. Returns false when there is no such matrix; then writes
  /// neither.
  virtual bool circulant(Context& context, DeviceView<float> eigenvalues, DeviceView<float> share) const = 0;
  /// Throws ResourceError unless `values` are the same for all members that apply it, each in its own iteration.
  virtual void require_same(Context& /*context*/, DeviceView<const float> /*values*/) const {}
  /// True if apply() can be part of a CUDA graph that loops.
  virtual bool can_be_recorded() const { return true; }
};

/// F^H W F of one coil.
class PlainNormal final : public LinearOperator {
 public:
  explicit PlainNormal(std::shared_ptr<const NormalOperator> normal) : normal_(std::move(normal)) {}
  const Shape& image() const override { return normal_->image(); }
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override;
  Around around() const override;
  void apply_around(Context& context, DeviceView<cfloat> x, DeviceView<cfloat> y,
                    const AroundApply& around) const override;
  void diagonal(Context& context, DeviceView<float> diagonal) const override;
  bool circulant(Context& context, DeviceView<float> eigenvalues, DeviceView<float> share) const override;

 private:
  std::shared_ptr<const NormalOperator> normal_;
};

/// sum_c S_c^H F^H W F S_c, with the same coil maps S [coil, image...] for every item. With several members, each has
/// maps of some of the coils, and all call the same functions, with the same x; every member gets the sum over all.
///
/// With several sets of maps, an item consists of as many images, which add up in the data and lie one after the other
/// along the first axis: y_j = sum_c conj(S_jc) F^H W F sum_i S_ic x_i (Uecker et al., MRM 71, 2014).
class SenseNormal final : public LinearOperator {
 public:
  /// maps: [set * coil, image...]. Waits for the device. Throws std::invalid_argument when the maps do not fit the
  /// operator, are not finite or all zero.
  SenseNormal(Context& context, std::shared_ptr<const NormalOperator> normal, Array<cfloat> maps,
              Communicator& others = alone(), std::int64_t sets = 1);
  /// [n...] of the operator, with the first extent times the number of sets.
  const Shape& image() const override { return image_; }
  void apply(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const override;
  Around around() const override;
  void apply_around(Context& context, DeviceView<cfloat> x, DeviceView<cfloat> y,
                    const AroundApply& around) const override;
  void diagonal(Context& context, DeviceView<float> diagonal) const override;
  /// share: the root of the maps' sum of squares over its largest value, but at least a tenth. Returns false for
  /// several sets.
  bool circulant(Context& context, DeviceView<float> eigenvalues, DeviceView<float> share) const override;
  void require_same(Context& context, DeviceView<const float> values) const override {
    others_.require_same(context, values);
  }
  bool can_be_recorded() const override { return others_.size() == 1; }

 private:
  void apply_sets(Context& context, DeviceView<const cfloat> x, DeviceView<cfloat> y) const;

  std::shared_ptr<const NormalOperator> normal_;
  Array<cfloat> maps_;
  Communicator& others_;
  std::int64_t sets_;
  Shape image_;
  Array<float> diagonal_, share_;
  float largest_power_ = 0;
};

}  // namespace echotrain::numerics
