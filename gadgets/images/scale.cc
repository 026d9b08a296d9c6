#include "gadgets/images/scale.h"

#include <fmt/format.h>

#include "gadgets/numerics/layout/layout.h"
#include "gadgets/numerics/reduce/reductions.h"

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
  if (images.frame->key.series != 0) {  // g-factors and SNR have units of their own
    emit(std::move(images));
    return;
  }
  const std::uint16_t series = images.frame->key.encoding;
  auto known = factors_.find(series);
  if (known == factors_.end()) {
    const double from = level(images);
    if (from <= 0) {  // the image is zero, which no factor changes
      emit(std::move(images));
      return;
    }
    known = factors_.emplace(series, options_.to / from).first;
  }
  CoilImages out;
  out.data = scan_->compute.allocate<cfloat>(images.data.shape());
  numerics::scale(scan_->compute, images.data.view(), static_cast<float>(known->second), out.data.view());
  const auto frame = std::make_shared<Frame>(*images.frame);
  frame->notes["scale_factor"] = fmt::format("{:.9g}", known->second);
  frame->notes["WindowCenter"] = fmt::format("{:g}", options_.to / 2);
  frame->notes["WindowWidth"] = fmt::format("{:g}", options_.to);
  out.frame = frame;
  emit(std::move(out));
}

}  // namespace echotrain
