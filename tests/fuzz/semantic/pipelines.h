// The pipeline that an input chooses is legal: a shipped one, one with other parameters, or any chain of gadgets that
// fits.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/branch_spec.h"
#include "config/pipeline_spec.h"
#include "gadgets/api/registry.h"
#include "tests/fuzz/scan_session.h"
#include "tests/fuzz/semantic/choices.h"

namespace echotrain::fuzz {

/// The pipeline that the client asks for: by its name, or by its text.
struct ChosenPipeline {
  std::string name, text;
};

inline const config::PipelineLibrary& shipped_files() {
  static const config::PipelineLibrary library({std::filesystem::path(ECHOTRAIN_SOURCE_DIR) / "config/pipelines"});
  return library;
}

/// " {name: value, ...}" with one parameter in `share`, or nothing. Text given in the shipped pipeline stays.
inline std::string odd_parameters(Source& source, const GadgetEntry& gadget, const config::Node& given,
                                  std::uint32_t share) {
  std::vector<std::string> out;
  for (const ParameterInfo& parameter : gadget.parameters) {
    const config::Node value = given.get(parameter.name);
    if (source.number<std::uint8_t>() % share == 1)
      out.push_back(parameter.name + ": " + odd_value(source, parameter));
    else if (value.kind() == config::Node::Kind::scalar)
      out.push_back(parameter.name + ": " + value.as_string());
  }
  return out.empty() ? "" : fmt::format(": {{{}}}", fmt::join(out, ", "));
}

/// The rest of a pipeline: which readouts make an image, and the trajectory's unit.
inline std::string odd_rules(Source& source) {
  std::string out;
  const auto readouts = [&] { return odd_size(source, 127); };
  switch (source.below(6)) {
    case 1:
      out = fmt::format("frame: {{until: {}}}\n", config::until_flags()[source.below(10)]);
      break;
    case 2:
      out = fmt::format("frame: {{readouts: {}}}\n", readouts());
      break;
    case 3: {
      const std::uint32_t n = readouts();
      out = fmt::format("frame: {{readouts: {}, stride: {}}}\n", n, 1 + source.below(n));
      break;
    }
    default:
      break;
  }
  return out + "trajectory_unit: " +
         word_of(source, {"cycles_per_pixel", "cycles_per_pixel", "cycles_per_pixel", "cycles_per_fov",
                          "radians_per_pixel", "cycles_per_m"}) +
         "\n";
}

inline std::string with_head(Source& source, const std::vector<std::string>& gadgets,
                             config::Input input = config::Input::readouts) {
  std::string out = "echotrain: 1\nname: odd\ndescription: odd\n";
  out += input == config::Input::images ? "input: images\n" : odd_rules(source);
  out += "pipeline:\n";
  for (const std::string& gadget : gadgets) out += "  - " + gadget + "\n";
  return out;
}

/// A shipped pipeline with other parameters; a gadget may come twice or be left out where the types allow it. What its
/// branches give is left out.
inline std::string odd_shipped(Source& source, const config::PipelineSpec& spec) {
  const Registry& registry = Registry::builtin();
  const std::uint32_t share = one_of(source, {4u, 2u, 16u});
  std::vector<std::string> gadgets;
  for (const config::GadgetSpec& gadget : spec.gadgets) {
    if (gadget.name == config::kBranch) continue;
    const GadgetEntry& entry = *registry.find(gadget.name);
    const bool optional = entry.forms[0].takes == entry.forms[0].gives;
    const std::uint32_t times = optional ? one_of(source, {1u, 1u, 1u, 1u, 0u, 2u}) : 1u;
    for (std::uint32_t i = 0; i < times; ++i)
      gadgets.push_back(gadget.name + odd_parameters(source, entry, gadget.parameters, share));
  }
  return with_head(source, gadgets, spec.input);
}

/// Any chain from readouts to images.
inline std::string odd_chain(Source& source) {
  const Registry& registry = Registry::builtin();
  const std::uint32_t share = one_of(source, {8u, 4u, 2u, 16u});
  std::vector<std::string> gadgets;
  ItemType type = ItemType::readouts;
  while (type != ItemType::image) {
    const bool onward = gadgets.size() > 10 || source.below(3) != 1;  // to another type
    std::vector<std::pair<const GadgetEntry*, const GadgetForm*>> fitting;
    for (const std::string& name : registry.names())
      for (const GadgetForm& form : registry.find(name)->forms)
        if (form.takes == type && (!onward || form.gives != type)) fitting.emplace_back(registry.find(name), &form);
    const auto [entry, form] = fitting.at(source.below(static_cast<std::uint32_t>(fitting.size())));
    gadgets.push_back(entry->name + odd_parameters(source, *entry, {}, share));
    type = form->gives;
  }
  return with_head(source, gadgets);
}

inline ChosenPipeline choose_pipeline(Source& source) {
  const auto& all = shipped_files().all();
  const std::uint32_t how = source.number<std::uint8_t>() % 4;
  const config::PipelineSpec& spec = all[source.number<std::uint8_t>() % all.size()];
  if (how == 0) return {spec.name, ""};
  return {"", how == 3 ? odd_chain(source) : odd_shipped(source, spec)};
}

}  // namespace echotrain::fuzz
