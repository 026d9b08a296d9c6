#include "gadgets/engine/gadgetron/gadgetron_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace echotrain {
namespace {

using Gadget = GadgetronConfig::Gadget;

std::string value_of(const Gadget& gadget, const std::string& property, const std::string& fallback = "") {
  for (const auto& [name, value] : gadget.properties)
    if (name == property) return value;
  return fallback;
}

GadgetronSettings component_of(const Gadget& gadget) {
  const auto mask = positive_number(value_of(gadget, "extract_mask"));
  const auto wants = [&](const char* part, int bit, const char* fallback) {
    return mask ? (static_cast<int>(*mask) & bit) != 0
                : value_of(gadget, std::string("extract_") + part, fallback) == "true";
  };
  const bool magnitude = wants("magnitude", 1, "true"), phase = wants("phase", 8, "false");
  std::string component = magnitude && phase ? "magnitude_and_phase" : phase ? "phase" : "magnitude";
  if (!magnitude && !phase) component = wants("imag", 4, "false") ? "imag" : "real";
  return {{{"image", "component", component}}, "", {"extract_mask", "extract_magnitude", "extract_phase"}};
}

GadgetronSettings spokes_of(const Gadget& gadget) {
  const std::string mode = value_of(gadget, "mode", "0");
  GadgetronSettings out{{{"radial_trajectory", "order", "linear"}}, "", {"mode", "profiles_per_frame"}};
  if (mode == "2") out.settings[0].value = "golden_angle";
  if (mode == "3")  // 68.75 degrees
    out.settings = {{"radial_trajectory", "order", "tiny_golden_angle"}, {"radial_trajectory", "tiny_number", "2"}};
  if (const auto count = positive_number(value_of(gadget, "profiles_per_frame")); count && (mode == "2" || mode == "3"))
    out.frame = fmt::format("{{readouts: {}}}", static_cast<std::int64_t>(*count));
  return out;
}

/// Their Gaussian is exp(-(sigma x)^2 / 2) for x from -1 to 1, ours exp(-(x / sigma)^2 / 2); their tapered Hanning has
/// `width` of the whole axis at each end (their toolboxes/mri_core/mri_core_kspace_filter.cpp).
GadgetronSettings filter_of(const Gadget& gadget) {
  GadgetronSettings out;
  std::string axes, first;
  for (const auto& [axis, ours] : {std::pair{"RO", 'x'}, std::pair{"E1", 'y'}, std::pair{"E2", 'z'}}) {
    const std::string key = std::string("filter") + axis;
    const std::string shape = value_of(gadget, key, "Gaussian");
    const std::string sigma = value_of(gadget, key + "_sigma", "1"), width = value_of(gadget, key + "_width", "0.15");
    const bool none = shape == "None", tapered = shape == "TaperedHanning", gaussian = shape == "Gaussian";
    if (!none && !tapered && !gaussian && shape != "Hanning") continue;
    const std::string whole = shape + (gaussian ? sigma : tapered ? width : "");
    if (first.empty() && !none) {
      first = whole;
      out.settings.push_back({"filter", "shape", gaussian ? "gaussian" : tapered ? "tukey" : "hann"});
      if (gaussian)
        out.settings.push_back(
            {"filter", "sigma", fmt::format("{:.3g}", std::clamp(1 / positive_number(sigma).value_or(1), 0.05, 2.0))});
      if (tapered)
        out.settings.push_back(
            {"filter", "alpha", fmt::format("{:.3g}", std::min(2 * positive_number(width).value_or(0.15), 1.0))});
    }
    if (!none && whole != first) continue;  // one filter has one shape
    out.taken.insert(out.taken.end(), {key, key + "_sigma", key + "_width"});
    if (!none) axes += ours;
  }
  if (!axes.empty() && axes != "xyz") out.settings.push_back({"filter", "axes", axes});
  return out;
}

}  // namespace

std::optional<double> positive_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1e9) return std::nullopt;
  return value;
}

GadgetronSettings settings_of(const Gadget& gadget) {
  const std::string& name = gadget.class_name;
  if (name == "GenericReconKSpaceFilteringGadget") return filter_of(gadget);
  if (name == "ExtractGadget") return component_of(gadget);
  if (name == "ComplexToFloatGadget") return {{{"image", "component", "magnitude"}}, "", {}};
  if (name == "CmrCartesianKSpaceBinningCineGadget") return {{}, "{until: last_in_repetition}", {}};
  if (name.starts_with("gpuRadial")) return spokes_of(gadget);
  if (name.starts_with("FloatTo")) {
    const std::string bits = name.find("Short") != std::string::npos ? "16" : "32";
    return {{{"image", "type", (name.starts_with("FloatToU") ? "uint" : "int") + bits}}, "", {}};
  }
  return {};
}

}  // namespace echotrain
