#include "gadgets/least_squares/realtime/spike_rejection.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/reduce/reductions.h"

namespace echotrain {

SpikeRejection::SpikeRejection(Scan& scan, double most)
    : scan_(scan),
      most_(most),
      power_(scan.compute.zeros<double>({1})),
      frame_(scan.compute.zeros<numerics::FrameLikeness>({1})) {}

void SpikeRejection::take(numerics::DeviceView<const numerics::cfloat> right, double share) {
  numerics::power(scan_.compute, right, power_.view());
  numerics::take_frame(scan_.compute, power_.cview(), most_ * most_, static_cast<float>(share), frame_.view());
  ++frames_;
}

void SpikeRejection::add_to_mean(numerics::DeviceView<const numerics::cfloat> next,
                                 numerics::DeviceView<numerics::cfloat> mean) {
  numerics::add_to_mean(scan_.compute, next, frame_.cview(), mean);
}

void SpikeRejection::forget(numerics::FixedCg& solver) {
  const std::int32_t* const forgets = &frame_.data()->forget;  // not read here: it may be device memory
  solver.forget(scan_.compute, numerics::DeviceView<const std::int32_t>(forgets, {1}));
}

void SpikeRejection::tell() {
  constexpr int kEvery = 16;  // on CUDA: a copy and a callback
  numerics::Context& compute = scan_.compute;
  if (!compute.cuda() || frames_ % kEvery == 0) {
    const auto host = compute.place_on_host(frame_);
    compute.on_complete([host, unlike = unlike_] { *unlike = host.data()->unlike; });
  }
  if (*unlike_ > 0) warn();
}

void SpikeRejection::tell_at_end() {
  if (scan_.compute.download<numerics::FrameLikeness>(frame_.cview()).data()->unlike > 0) warn();
}

void SpikeRejection::warn() {
  scan_.warn(fmt::format(
      "the data of a frame are more than {:.3g} times as large, or as small, as those of the frames before, "
      "or not finite (a spike?): coil maps leave such frames out, and the next one begins without its image",
      most_));
}

}  // namespace echotrain
