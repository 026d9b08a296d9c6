#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/layout/running_mean_ops.h"

namespace echotrain::numerics::cpu {
namespace {

ECHOTRAIN_CLONES void add_floats_to_mean(const float* next, float share, float* mean, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float step = next[i] - mean[i];
    mean[i] += step - step == 0 ? share * step : 0.0f;
  }
}

}  // namespace

void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean) {
  context.threads().parallel_for(next.size(), 1 << 15, [&](std::int64_t begin, std::int64_t end) {
    add_floats_to_mean(reinterpret_cast<const float*>(next.data() + begin), share,
                       reinterpret_cast<float*>(mean.data() + begin), 2 * (end - begin));
  });
}

void take_frame(Context& /*context*/, const double* power, double most, float share, FrameLikeness* frame) {
  frame->take(*power, most, share);
}

void add_like_frame(Context& context, DeviceView<const cfloat> next, const FrameLikeness* frame,
                    DeviceView<cfloat> mean) {
  if (frame->share == 1) context.clear(mean);  // the old mean may be so large that the frame would be lost in it
  if (frame->share > 0) cpu::add_to_mean(context, next, frame->share, mean);
}

}  // namespace echotrain::numerics::cpu
