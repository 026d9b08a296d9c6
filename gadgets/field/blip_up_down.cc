#include "gadgets/field/blip_up_down.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/field/blip_pair.h"
#include "gadgets/numerics/mri/field/unwarp.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {

Parameters<BlipUpDown::Options> BlipUpDown::parameters() {
  return Parameters<Options>()
      .number("smoothness", &Options::smoothness, 1e-6, 100,
              "weight of the shift's squared gradient beside the squared difference of both images, whose 99th "
              "percentile (of what is above 0) is 1: more for noisy images")
      .integer("wait", &Options::wait, 1, 1024,
               "how many images of a slice wait, at most, for one whose blips run the other way")
      .flag("modulate", &Options::modulate, "true: brightness is that of the object; false: only places are corrected");
}

void BlipUpDown::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  if (gradients_) gradients_->start(header, scan);
}

void BlipUpDown::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  if (are_phases(*images.frame, *scan_, kName)) return emit(std::move(images));
  const auto blips = images.frame->notes.find("epi_blips");
  if (blips == images.frame->notes.end() || (blips->second != "up" && blips->second != "down")) {
    scan_->warn(
        "blip_up_down: images come without the meta attribute epi_blips (up or down), and keep their distortion; "
        "epi_phase_correction writes it where lines of a frame follow each other in steps of one sign");
    return emit(untouched(std::move(images)));
  }
  const Polarity polarity = blips->second == "up" ? up : down;
  State& state = states_[{images.frame->key.encoding, images.frame->key.slice}];
  if (state.shifts[up]) return emit(corrected(state, std::move(images), polarity));
  const bool pairs = !has_own_unit(*images.frame);
  if (pairs && !state.first[polarity]) state.first[polarity] = images.data;
  state.waiting.emplace_back(std::move(images), polarity);
  if (state.first[up] && state.first[down]) {
    find(state);
  } else if (!state.gave_up && static_cast<std::int64_t>(state.waiting.size()) > options_.wait) {
    state.gave_up = true;
    scan_->warn(
        fmt::format("blip_up_down: more than {} images of a slice have come, all with blips that run {}; they "
                    "keep their distortion until one of the other polarity comes",
                    options_.wait, blips->second));
  }
  if (!state.shifts[up] && !state.gave_up) return;
  for (auto& [each, its] : std::exchange(state.waiting, {}))
    emit(state.shifts[up] ? corrected(state, std::move(each), its) : untouched(std::move(each)));
}

/// The root sum of squares over coils, on the host.
HostArray<float> BlipUpDown::magnitude(const Array<cfloat>& images) const {
  const numerics::Shape& n = images.shape();
  const HostArray<cfloat> host = scan_->compute.download<cfloat>(images.view());
  HostArray<float> out = scan_->compute.allocate_host<float>({n[1], n[2], n[3]});
  const std::int64_t size = out.size();
  scan_->compute.threads().parallel_for(size, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v) {
      double sum = 0;
      for (std::int64_t c = 0; c < n[0]; ++c) sum += std::norm(numerics::cdouble(host.data()[c * size + v]));
      out.data()[v] = static_cast<float>(std::sqrt(sum));
    }
  });
  return out;
}

void BlipUpDown::find(State& state) const {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape &a = state.first[up].shape(), &b = state.first[down].shape();
  if (a[1] != b[1] || a[2] != b[2] || a[3] != b[3])
    throw ClientError(
        fmt::format("blip_up_down: images with blips up are {}, those with blips down {} [coil, z, y, x]; "
                    "they must be alike",
                    a.text(), b.text()));
  const HostArray<float> one = magnitude(state.first[up]), other = magnitude(state.first[down]);
  HostArray<float> shift = compute.allocate_host<float>(one.shape()), back = compute.allocate_host<float>(one.shape());
  constexpr std::uint64_t kWorkBytes = 192;  // working bytes per voxel, while the shift is found
  numerics::MemoryShare(compute.account())
      .grow_to(static_cast<std::uint64_t>(shift.size()) * kWorkBytes);  // makes room for it
  numerics::BlipPairFacts facts;
  try {
    facts = numerics::blip_shift(compute.threads(), one.view(), other.view(), {.smoothness = options_.smoothness},
                                 shift.view());
  } catch (const std::invalid_argument& error) {
    throw ClientError(error.what());
  }
  for (std::int64_t v = 0; v < shift.size(); ++v) {
    back.data()[v] = -shift.data()[v];
    state.largest = std::max(state.largest, std::abs(static_cast<double>(shift.data()[v])));
  }
  state.before = facts.before;
  state.after = facts.after;
  if (facts.before == 0 && facts.after == 0) scan_->info("blip_up_down: a pair of images does not differ");
  if (facts.after > facts.before)
    scan_->warn("blip_up_down: a pair of images differs more after its correction than before; look at `smoothness`");
  state.shifts = {compute.place(shift), compute.place(back)};
  state.first = {};
}

CoilImages BlipUpDown::corrected(const State& state, CoilImages&& images, Polarity polarity) {
  const numerics::Shape &n = images.data.shape(), &s = state.shifts[up].shape();
  if (n[1] != s[0] || n[2] != s[1] || n[3] != s[2])
    throw ClientError(
        fmt::format("blip_up_down: an image is {} [coil, z, y, x], but those that told the distortion of its slice "
                    "were {} [z, y, x]",
                    n.text(), s.text()));
  const auto frame =
      with_notes(*images.frame, {{"blip_up_down", fmt::format("{:.2f}", state.largest)},
                                 {"blip_difference", fmt::format("{:.4f} {:.4f}", state.before, state.after)}});
  if (gradients_) {
    images.frame = frame;
    return gradients_->unwarped(std::move(images), &state.shifts[polarity], options_.modulate);
  }
  Array<cfloat> out = scan_->compute.allocate<cfloat>(n);
  numerics::unwarp(scan_->compute, images.data.view(), state.shifts[polarity].view(),
                   options_.modulate && !has_own_unit(*images.frame), out.view());
  return {frame, std::move(out)};
}

CoilImages BlipUpDown::untouched(CoilImages&& images) {
  images.frame = with_notes(*images.frame, {{"blip_up_down", "none"}});
  if (gradients_) return gradients_->unwarped(std::move(images), nullptr, false);
  return std::move(images);
}

void BlipUpDown::finish(End how, const Emit<CoilImages>& emit) {
  std::size_t alone = 0;
  for (auto& [place, state] : states_) {
    alone += state.waiting.size();
    if (how == End::complete)
      for (auto& [each, its] : std::exchange(state.waiting, {})) emit(untouched(std::move(each)));
  }
  if (how == End::complete && alone > 0)
    scan_->warn(
        fmt::format("blip_up_down: {} images have no partner whose blips run the other way, and keep their "
                    "distortion",
                    alone));
  states_.clear();
}

}  // namespace echotrain
