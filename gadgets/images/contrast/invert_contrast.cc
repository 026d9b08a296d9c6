#include "gadgets/images/contrast/invert_contrast.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/mri/images/pixels.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

/// True if an image is inverted by its magnitude; a client's real and imaginary parts have signs.
bool is_magnitude(const Frame& frame) {
  if (!frame.source) return true;
  const protocol::ImageHeader& head = frame.source->head;
  return numerics::is_complex(static_cast<numerics::PixelType>(head.data_type)) ||
         head.image_type == ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE;
}

std::optional<double> window_value(const Frame& frame, const std::string& name) {
  const auto note = frame.notes.find(name);
  if (note == frame.notes.end()) return std::nullopt;
  double value = 0;
  const std::string& text = note->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

Parameters<InvertContrast::Options> InvertContrast::parameters() {
  return Parameters<Options>().number("maximum", &Options::maximum, 0, 1e12,
                                      "what the values are taken from; 0: the largest one of a series' first image");
}

void InvertContrast::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

float InvertContrast::largest(const CoilImages& images, bool of_magnitudes) const {
  numerics::Context& compute = scan_->compute;
  float found = 0;
  if (of_magnitudes) {
    found = numerics::extremes(compute, images.data.cview()).most;
  } else {
    Array<float> values = compute.allocate<float>(images.data.shape());
    numerics::component(compute, images.data.cview(), numerics::Component::real, 1, values.view());
    found = numerics::extremes(compute, values.cview()).most;
  }
  return std::isfinite(found) ? found : 0.0f;  // no value is finite
}

void InvertContrast::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const Frame& from = *images.frame;
  if (has_own_unit(from) || are_phases(from, *scan_, kName)) return emit(std::move(images));
  const bool of_magnitudes = is_magnitude(from);
  const std::pair series(from.key.encoding, from.key.series);
  auto maximum = maxima_.find(series);
  if (maximum == maxima_.end()) {
    const float value = options_.maximum > 0 ? static_cast<float>(options_.maximum) : largest(images, of_magnitudes);
    maximum = maxima_.emplace(series, value).first;
  }
  const float most = maximum->second;
  CoilImages out;
  out.data = scan_->compute.allocate<cfloat>(images.data.shape());
  const float least = of_magnitudes ? 0.0f : -std::numeric_limits<float>::infinity();
  numerics::invert(scan_->compute, images.data.cview(), {most, least, of_magnitudes}, out.data.view());
  const auto frame = std::make_shared<Frame>(from);
  const auto center = window_value(from, "WindowCenter"), width = window_value(from, "WindowWidth");
  if (center && width)
    set_window(*frame, most - *center, *width);
  else
    set_window(*frame, most / 2, most);
  add_step(*frame, "INVERT");
  out.frame = frame;
  emit(std::move(out));
}

}  // namespace echotrain
