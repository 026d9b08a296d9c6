#include "gadgets/images/scale.h"

#include <fmt/format.h>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {

Parameters<Scale::Options> Scale::parameters() {
  return Parameters<Options>()
      .number("percentile", &Options::percentile, 0, 100,
              "percentile of the magnitudes of a series' first image; it becomes `to`")
      .number("to", &Options::to, 1e-12, 1e12, "magnitude that the percentile becomes");
}

void Scale::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

double Scale::level(const CoilImages& images) const {
  numerics::Context& compute = scan_->compute;
  Array<float> magnitudes = compute.allocate<float>(images.data.shape());
  numerics::component(compute, images.data.view(), numerics::Component::magnitude, 1, magnitudes.view());
  const double found = numerics::quantile(compute, magnitudes.cview(), options_.percentile / 100);
  return found > 0 ? found : 0;  // NaN: no value is finite
}

void Scale::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const Frame& from = *images.frame;
  if (has_own_unit(from) || are_phases(from, *scan_, kName)) return emit(std::move(images));
  const std::pair series(from.key.encoding, from.key.series);
  auto known = factors_.find(series);
  if (known == factors_.end()) {
    const double found = level(images);
    if (found <= 0) {  // the image is zero, which no factor changes
      emit(std::move(images));
      return;
    }
    known = factors_.emplace(series, options_.to / found).first;
  }
  CoilImages out;
  out.data = scan_->compute.allocate<cfloat>(images.data.shape());
  numerics::scale(scan_->compute, images.data.view(), static_cast<float>(known->second), out.data.view());
  const auto frame = std::make_shared<Frame>(from);
  frame->notes["scale_factor"] = fmt::format("{:.9g}", known->second);
  set_window(*frame, options_.to / 2, options_.to);
  out.frame = frame;
  out.noise = images.noise * known->second;
  emit(std::move(out));
}

}  // namespace echotrain
