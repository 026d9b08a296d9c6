#include "gadgets/numerics/core/layout/running_mean.h"
#include "gadgets/numerics/core/map.cuh"

namespace echotrain::numerics {

/// Adds frames to their mean, with the share in `frame` where that is given. Its share of 1 overwrites the mean, which
/// may be so large that the frame would be lost in it.
struct AddToMean {
  static constexpr int kLanes[] = {1024};
  static constexpr bool kClones = true;
  const cfloat* next;
  float share;
  const FrameLikeness* frame;
  cfloat* mean;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(Lanes<kMost> x) const {
    const float s = frame == nullptr ? share : frame->share;
    if (!(s > 0)) return;
    const bool anew = frame != nullptr && s == 1;
    for (int l = 0; l < x.count; ++l) {
      cfloat* const to = mean + x.first + l;
      const Complex old = anew ? Complex{0, 0} : load(to), step = load(next + x.first + l) - old;
      store({moved(old.re, step.re, s), moved(old.im, step.im, s)}, to);
    }
  }
  ECHOTRAIN_EACH static float moved(float old, float step, float s) {
    return old + (step - step == 0 ? s * step : 0.0f);
  }
};
ECHOTRAIN_MAP(AddToMean, 1)

struct TakeFrame {
  const double* power;
  double most;
  float share;
  FrameLikeness* frame;

  ECHOTRAIN_EACH void operator()(std::int64_t /*only*/) const { frame->take(*power, most, share); }
};
ECHOTRAIN_MAP(TakeFrame, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <stdexcept>

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kMeanGrain = 1 << 15;

}  // namespace

void add_to_mean(Context& context, DeviceView<const cfloat> next, float share, DeviceView<cfloat> mean) {
  if (!(next.shape() == mean.shape()))
    throw std::invalid_argument("running mean: " + next.shape().text() + " is not " + mean.shape().text());
  if (!(share >= 0 && share <= 1)) throw std::invalid_argument("running mean: a share is 0 to 1");
  map(context, {next.size()}, AddToMean{next.data(), share, nullptr, mean.data()}, kMeanGrain);
}

void take_frame(Context& context, DeviceView<const double> power, double most, float share,
                DeviceView<FrameLikeness> frame) {
  if (!(share >= 0 && share <= 1)) throw std::invalid_argument("running mean: a share is 0 to 1");
  if (!(most > 1)) throw std::invalid_argument("running mean: frames may be unlike by more than 1");
  if (power.size() != 1 || frame.size() != 1)
    throw std::invalid_argument("running mean: a frame has one power and one likeness");
  map(context, {1}, TakeFrame{power.data(), most, share, frame.data()});
}

void add_to_mean(Context& context, DeviceView<const cfloat> next, DeviceView<const FrameLikeness> frame,
                 DeviceView<cfloat> mean) {
  if (!(next.shape() == mean.shape()))
    throw std::invalid_argument("running mean: " + next.shape().text() + " is not " + mean.shape().text());
  if (frame.size() != 1) throw std::invalid_argument("running mean: a frame has one likeness");
  map(context, {next.size()}, AddToMean{next.data(), 0, frame.data(), mean.data()}, kMeanGrain);
}

}  // namespace echotrain::numerics
#endif
