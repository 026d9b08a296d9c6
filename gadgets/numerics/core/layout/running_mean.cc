#include "gadgets/numerics/core/layout/running_mean.h"

#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/core/layout/running_mean_ops.h"

namespace echotrain::numerics {

void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean) {
  if (!(next.shape() == mean.shape()))
    throw std::invalid_argument("running mean: " + next.shape().text() + " is not " + mean.shape().text());
  if (!(share >= 0 && share <= 1)) throw std::invalid_argument("running mean: a share is 0 to 1");
  if (next.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, add_to_mean(context, next, share, mean));
}

void take_frame(Context& context, DeviceView<const double> power, double most, float share,
                DeviceView<FrameLikeness> frame) {
  if (!(share >= 0 && share <= 1)) throw std::invalid_argument("running mean: a share is 0 to 1");
  if (!(most > 1)) throw std::invalid_argument("running mean: frames may be unlike by more than 1");
  if (power.size() != 1 || frame.size() != 1)
    throw std::invalid_argument("running mean: a frame has one power and one likeness");
  ECHOTRAIN_DISPATCH(context, take_frame(context, power.data(), most, share, frame.data()));
}

void add_to_mean(Context& context, DeviceView<const cfloat> next, DeviceView<const FrameLikeness> frame,
                 DeviceView<cfloat> mean) {
  if (!(next.shape() == mean.shape()))
    throw std::invalid_argument("running mean: " + next.shape().text() + " is not " + mean.shape().text());
  if (frame.size() != 1) throw std::invalid_argument("running mean: a frame has one likeness");
  if (next.size() == 0) return;
  ECHOTRAIN_DISPATCH(context, add_like_frame(context, next, frame.data(), mean));
}

}  // namespace echotrain::numerics
