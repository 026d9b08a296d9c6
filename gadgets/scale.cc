#include "gadgets/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "gadgets/numerics/layout.h"

namespace echotrain {

Parameters<Scale::Options> Scale::parameters() {
  return Parameters<Options>()
      .number("percentile", &Options::percentile, 0, 100,
              "of the magnitudes of a series' first image, which becomes `to`")
      .number("to", &Options::to, 1e-12, 1e12, "what it becomes");
}

void Scale::start(const protocol::Header& /*header*/, Session& session) { session_ = &session; }

double Scale::level(const CoilImages& images) const {
  numerics::Context& compute = session_->compute;
  Array<float> magnitudes = compute.allocate<float>(images.data.shape());
  numerics::component(compute, images.data.view(), numerics::Component::magnitude, 1, magnitudes.view());
  Array<float> host = compute.download<float>(magnitudes.view());
  std::vector<float> values(host.data(), host.data() + host.size());
  std::erase_if(values, [](float value) { return !std::isfinite(value); });
  if (values.empty()) return 0;
  const double place = options_.percentile / 100 * static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::lround(place));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void Scale::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const std::uint16_t series = images.frame->key.encoding;
  auto known = factors_.find(series);
  if (known == factors_.end()) {
    const double from = level(images);
    if (from <= 0) {  // of nothing but zeros, which any factor leaves
      emit(std::move(images));
      return;
    }
    known = factors_.emplace(series, options_.to / from).first;
  }
  CoilImages out;
  out.data = session_->compute.allocate<cfloat>(images.data.shape());
  numerics::scale(session_->compute, images.data.view(), static_cast<float>(known->second), out.data.view());
  const auto frame = std::make_shared<Frame>(*images.frame);
  frame->notes["scale_factor"] = fmt::format("{:.9g}", known->second);
  frame->notes["WindowCenter"] = fmt::format("{:g}", options_.to / 2);
  frame->notes["WindowWidth"] = fmt::format("{:g}", options_.to);
  out.frame = frame;
  emit(std::move(out));
}

}  // namespace echotrain
