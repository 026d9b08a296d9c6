#include "gadgets/images/contrast/psir_gadget.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "gadgets/numerics/mri/images/pixels.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

std::uint16_t& counter(FrameKey& key, const std::string& name) {
  if (name == "contrast") return key.contrast;
  if (name == "phase") return key.phase;
  if (name == "repetition") return key.repetition;
  return key.set;
}

constexpr std::int64_t kLeastWait = 8;  // for the first reference

}  // namespace

Parameters<Psir::Options> Psir::parameters() {
  return Parameters<Options>()
      .choice("over", &Options::over, {"set", "contrast", "phase", "repetition"},
              "the counter that tells images from their reference")
      .integer("reference", &Options::reference, 0, 65535, "its value in the reference")
      .integer("wait", &Options::wait, 0, 1024,
               "how many images of a slice wait for the reference of their own repetition; more take the latest one")
      .integer("smooth", &Options::smooth, 0, 16, "the reference is a mean over so many voxels to each side")
      .unit("voxels")
      .number("threshold", &Options::threshold, 0, 1,
              "the least reference that counts, as a part of its 99th percentile: less is divided by this")
      .flag("normalize", &Options::normalize,
            "true: images over the reference, without the coils' intensity; false: the images' own intensity");
}

void Psir::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const Frame& from = *images.frame;
  if (from.source && !numerics::is_complex(static_cast<numerics::PixelType>(from.source->head.data_type)))
    throw ClientError(
        "psir: an image without a phase has come; send complex images, and let no gadget before it (rss, "
        "or a step) take the phase away");
  if (has_own_unit(from)) return;  // g-factors and units of SNR say nothing of a signed image
  FrameKey key = from.key;
  const std::int64_t value = std::exchange(counter(key, options_.over), std::uint16_t{0});
  Slice& slice = slices_[{key.encoding, key.slice}];
  if (value != options_.reference) {
    if (slice.reference.coils && (slice.key == key || options_.wait == 0)) return give(slice, std::move(images), emit);
    slice.waiting.emplace_back(key, std::move(images));
    const std::int64_t most = slice.reference.coils ? options_.wait : std::max(options_.wait, kLeastWait);
    if (static_cast<std::int64_t>(slice.waiting.size()) <= most) return;
    if (!slice.reference.coils)
      throw ClientError(
          fmt::format("psir: {} images of slice {} have come and no reference, whose {} is {}: say by `over` and "
                      "`reference` which images are the references",
                      slice.waiting.size(), key.slice, options_.over, options_.reference));
    CoilImages oldest = std::move(slice.waiting.front().second);
    slice.waiting.erase(slice.waiting.begin());
    return give(slice, std::move(oldest), emit);
  }
  slice.key = key;
  slice.reference = numerics::psir_reference(
      scan_->compute, images.data.cview(),
      {static_cast<int>(options_.smooth), static_cast<float>(options_.threshold), options_.normalize});
  for (auto& [its, each] : std::exchange(slice.waiting, {})) {
    if (its == key || options_.wait == 0)
      give(slice, std::move(each), emit);
    else
      slice.waiting.emplace_back(its, std::move(each));
  }
}

void Psir::give(const Slice& slice, CoilImages&& images, const Emit<CoilImages>& emit) const {
  const numerics::Shape &n = images.data.shape(), &r = slice.reference.coils.shape();
  if (!(n == r))
    throw ClientError(
        fmt::format("psir: an image of slice {} is {} [coil, z, y, x], its reference {}: they must be "
                    "alike",
                    images.frame->key.slice, n.text(), r.text()));
  Array<cfloat> out = scan_->compute.allocate<cfloat>({1, n[1], n[2], n[3]});
  numerics::psir(scan_->compute, images.data.cview(), slice.reference, options_.normalize, out.view());
  const auto frame = std::make_shared<Frame>(*images.frame);
  frame->notes["psir_reference"] = fmt::format("{} {}", options_.over, options_.reference);
  forget_window(*frame);
  add_step(*frame, "PSIR");
  emit({frame, std::move(out)});
}

void Psir::finish(End how, const Emit<CoilImages>& emit) {
  std::size_t alone = 0;
  for (auto& [place, slice] : slices_)
    for (auto& [key, each] : std::exchange(slice.waiting, {})) {
      if (!slice.reference.coils)
        ++alone;
      else if (how == End::complete)
        give(slice, std::move(each), emit);
    }
  if (how == End::complete && alone > 0)
    scan_->warn(fmt::format("psir: {} images are left out, as no reference of their slice has come ({} {})", alone,
                            options_.over, options_.reference));
  slices_.clear();
}

}  // namespace echotrain
