#include "gadgets/numerics/mri/field/unwarp.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/field/sinc_taps.h"
#include "gadgets/numerics/mri/field/unwarp_ops.h"

namespace echotrain::numerics {

void unwarp(Context& context, DeviceView<const cfloat> distorted, DeviceView<const float> shift, bool modulate,
            DeviceView<cfloat> corrected) {
  const Shape &n = distorted.shape(), &s = shift.shape();
  if (n.rank() != 4 || !(n == corrected.shape()) || !(s == Shape{n[1], n[2], n[3]}))
    throw std::invalid_argument(
        fmt::format("unwarp: images {} and {} and shifts {} do not fit", n.text(), corrected.shape().text(), s.text()));
  if (n.size() == 0) return;
  const UnwarpJob job{.batch = n[0],
                      .planes = n[1],
                      .rows = n[2],
                      .columns = n[3],
                      .modulate = modulate,
                      .weights = sinc_table(context)};
  ECHOTRAIN_DISPATCH(context, unwarp(context, job, distorted.data(), shift.data(), corrected.data()));
}

}  // namespace echotrain::numerics
