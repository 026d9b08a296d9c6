#include "gadgets/field/field_map_gadget.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/inverse/operators/map_products.h"
#include "gadgets/numerics/mri/field/field_map.h"
#include "gadgets/shared/incoming/meta_notes.h"
#include "protocol/data/echo_times.h"

namespace echotrain {

Parameters<FieldMap::Options> FieldMap::parameters() {
  return Parameters<Options>()
      .integer("early", &Options::early, 0, 255, "the contrast of the early echo")
      .integer("late", &Options::late, 0, 255, "the contrast of the late echo")
      .number("delta_ms", &Options::delta_ms, 0, 1000,
              "from the early echo to the late one; 0: by the echo times (TE) of the measurement's header")
      .unit("ms")
      .number(
          "threshold", &Options::threshold, 0, 1,
          "voxels with less signal than this part of the 99th percentile are not trusted; the map goes on from others")
      .number("smooth", &Options::smooth, 0, 100,
              "standard deviation of the Gaussian, weighted by the signal, that smooths the map; 0: none")
      .unit("voxels");
}

FieldMap::FieldMap(Options options) : options_(options) {
  if (options.early == options.late) throw std::invalid_argument("early and late are the same contrast");
}

void FieldMap::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  echo_times_ms_ = protocol::echo_times_ms(header.xml);
}

double FieldMap::delta_s() const {
  if (options_.delta_ms > 0) return 1e-3 * options_.delta_ms;
  const auto early = static_cast<std::size_t>(options_.early), late = static_cast<std::size_t>(options_.late);
  if (std::max(early, late) >= echo_times_ms_.size())
    throw ClientError(
        fmt::format("field_map: the header names {} echo times (TE), but contrasts {} and {} are asked for; "
                    "say the time between the echoes by delta_ms",
                    echo_times_ms_.size(), early, late));
  const double delta = echo_times_ms_[late] - echo_times_ms_[early];
  if (!(delta > 0))
    throw ClientError(
        fmt::format("field_map: contrast {} has the echo time {} ms, contrast {} has {} ms; the late echo must "
                    "come after the early one",
                    late, echo_times_ms_[late], early, echo_times_ms_[early]));
  return 1e-3 * delta;
}

void FieldMap::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  FrameKey key = images.frame->key;
  const std::int64_t contrast = std::exchange(key.contrast, std::uint16_t{0});
  if (contrast != options_.early && contrast != options_.late)
    return scan_->info(fmt::format("field_map: images of contrast {} are not used", contrast));
  const auto found = waiting_.find(key);
  if (found == waiting_.end() || found->second.frame->key.contrast == contrast) {
    // The partner from an earlier repetition will not come.
    const auto place = [](FrameKey of) {
      of.repetition = 0;
      return of;
    };
    lost_ += std::erase_if(waiting_, [&](const auto& each) {
      return each.first != key && place(each.first) == place(key) && each.second.frame->key.contrast == contrast;
    });
    waiting_.insert_or_assign(key, std::move(images));
    return;
  }
  const CoilImages other = std::move(found->second);
  waiting_.erase(found);
  const CoilImages &early = contrast == options_.late ? other : images,
                   &late = contrast == options_.late ? images : other;
  const numerics::Shape& n = early.data.shape();
  if (!(n == late.data.shape()))
    throw ClientError(fmt::format("field_map: the echoes' images are {} and {} [coil, z, y, x]; they must be alike",
                                  n.text(), late.data.shape().text()));
  const double delta = delta_s();
  numerics::Context& compute = scan_->compute;
  Array<cfloat> product = compute.allocate<cfloat>({1, n[1], n[2], n[3]});
  numerics::gather_from_coils(compute, early.data.view(), late.data.view(), product.view());
  const HostArray<cfloat> host = compute.download<cfloat>(product.view());
  HostArray<float> hz = compute.allocate_host<float>({n[1], n[2], n[3]});
  constexpr std::uint64_t kWorkBytes = 160;  // working bytes per voxel, while the map is made
  numerics::MemoryShare(compute.account())
      .grow_to(static_cast<std::uint64_t>(hz.size()) * kWorkBytes);  // makes room for it
  numerics::FieldMapFacts facts;
  try {
    facts = numerics::field_map(compute.threads(), host.view().reshaped({n[1], n[2], n[3]}), delta,
                                {.threshold = options_.threshold, .smooth = options_.smooth}, hz.view());
  } catch (const std::invalid_argument& error) {
    throw ClientError(error.what());
  }
  if (facts.trusted == 0) scan_->warn("field_map: the echoes' images hold no signal; the map is 0");
  HostArray<cfloat> map = compute.allocate_host<cfloat>({1, n[1], n[2], n[3]});
  for (std::int64_t v = 0; v < hz.size(); ++v) map.data()[v] = hz.data()[v];
  Frame frame = *early.frame;
  frame.notes["field_map_regions"] = std::to_string(facts.regions);
  frame.notes["field_map_wrap"] = fmt::format("{:.2f}", 1 / delta);
  forget_window(frame);
  emit({std::make_shared<const Frame>(std::move(frame)), compute.place(map)});
}

void FieldMap::finish(End /*how*/, const Emit<CoilImages>& /*emit*/) {
  if (const std::size_t alone = lost_ + waiting_.size(); alone > 0)
    scan_->warn(fmt::format("field_map: {} images of contrast {} or {} have no partner of the other; they give no map",
                            alone, options_.early, options_.late));
  waiting_.clear();
}

}  // namespace echotrain
