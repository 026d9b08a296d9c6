#include "gadgets/numerics/inverse/proximal/vectors.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/proximal/vectors_ops.h"

namespace echotrain::numerics {
namespace {

std::int64_t parts_of(const Shape& shape) {
  if (shape.rank() < 1) throw std::invalid_argument("shrink: expected [part, ...], got " + shape.text());
  return shape[0];
}

void divide(Context& context, double threshold, bool keep, DeviceView<cfloat> c) {
  if (!(threshold >= 0)) throw std::invalid_argument(fmt::format("shrink: the threshold cannot be {}", threshold));
  const std::int64_t parts = parts_of(c.shape());
  if (c.size() == 0) return;
  const auto least = static_cast<float>(threshold);
  ECHOTRAIN_DISPATCH(context, shrink(context, least, keep, parts, c.size() / parts, c.data()));
}

}  // namespace

void weighted_sum(Context& context, const VectorTerm& a, const VectorTerm& b, const VectorTerm& c,
                  DeviceView<cfloat> to) {
  VectorSum sum{{nullptr, nullptr, nullptr}, {0, 0, 0}, to.size()};
  std::size_t i = 0;
  for (const VectorTerm* term : {&a, &b, &c}) {
    if (term->of.data() == nullptr) continue;
    if (term->of.size() != to.size())
      throw std::invalid_argument(
          fmt::format("weighted sum: {} is not of the size of {}", term->of.shape().text(), to.shape().text()));
    sum.of[i] = term->of.data();
    sum.factor[i++] = static_cast<float>(term->factor);
  }
  if (to.size() > 0) ECHOTRAIN_DISPATCH(context, weighted_sum(context, sum, to.data()));
}

void shrink(Context& context, double threshold, DeviceView<cfloat> c) { divide(context, threshold, true, c); }

void clip(Context& context, double threshold, DeviceView<cfloat> c) { divide(context, threshold, false, c); }

double sum_of_magnitudes(Context& context, DeviceView<const cfloat> c) {
  const std::int64_t parts = parts_of(c.shape());
  if (c.size() == 0) return 0;
  Array<float> sizes = context.allocate<float>({c.size() / parts});
  ECHOTRAIN_DISPATCH(context, magnitudes(context, parts, sizes.size(), c.data(), sizes.data()));
  return sum(context, sizes.cview());
}

}  // namespace echotrain::numerics
