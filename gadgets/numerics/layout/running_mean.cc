#include "gadgets/numerics/layout/running_mean.h"

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/layout/running_mean_ops.h"

namespace echotrain::numerics {

void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean) {
  if (!(next.shape() == mean.shape()))
    throw std::invalid_argument("running mean: " + next.shape().text() + " is not " + mean.shape().text());
  if (!(share >= 0 && share <= 1)) throw std::invalid_argument("running mean: a share is 0 to 1");
  if (next.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, add_to_mean(context, next, share, mean));
}

}  // namespace echotrain::numerics
