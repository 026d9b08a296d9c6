#include "server/scan/openrecon_label.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gadgets/engine/host/exposed_parameters.h"
#include "server/scan/queries.h"

namespace echotrain::server {

using config::ConfigError;
using config::Node;
using Json = nlohmann::ordered_json;
using Kind = config::OptionInfo::Kind;

namespace {

constexpr std::size_t kMostParameters = 14, kLongestUnit = 3;  // of the schema
constexpr int kPort = 9002;
constexpr int kMibOfReadouts = 8192, kMibOfImages = 4096, kCores = 2;

Json english(const std::string& text) {
  Json out;
  out["en"] = text;
  return out;
}

double number(const std::string& text) { return Node::scalar({}, text, false).as_double(); }

/// Returns a value in tenths. Schemas say "multiple of 0.1", and what checks them divides in double precision.
double tenths(const std::string& text, const ExposedParameter& exposed, const char* what) {
  const double value = number(text), quotient = value / 0.1;
  if (quotient != std::trunc(quotient))
    throw ConfigError(exposed.spec.mark,
                      fmt::format("'{}': its {} {} is no multiple of 0.1 (as {} / 0.1 in double precision), which "
                                  "OpenRecon asks for; write another one, or 'values:' in place of a range",
                                  exposed.spec.id, what, text, text));
  return value;
}

std::int64_t whole(const std::string& text, const ExposedParameter& exposed, const char* what) {
  const std::int64_t value = Node::scalar({}, text, false).as_int();
  if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max())
    throw ConfigError(exposed.spec.mark,
                      fmt::format("'{}': its {} {} does not fit into the 32 bits that OpenRecon has; "
                                  "write a range",
                                  exposed.spec.id, what, text));
  return value;
}

Json choice_values(const ExposedParameter& exposed) {
  Json values = Json::array();
  if (exposed.spec.values.empty()) {
    for (const std::string& each : exposed.info.choices) values.push_back({{"id", each}, {"name", english(each)}});
  } else {
    for (const config::ExposedValue& each : exposed.spec.values)
      values.push_back({{"id", each.text}, {"name", english(each.name)}});
  }
  return values;
}

Json parameter(const ExposedParameter& exposed) {
  const config::OptionInfo& info = exposed.info;
  Json out{{"id", exposed.spec.id}, {"label", english(exposed.spec.label)}};
  std::string about = exposed.spec.information.empty() ? info.help : exposed.spec.information;
  const bool has_unit = !info.unit.empty() && info.unit.size() <= kLongestUnit;
  if (!info.unit.empty() && !has_unit) about += " [" + info.unit + "]";
  out["information"] = english(about);
  switch (info.kind) {
    case Kind::yes_or_no:
      out["type"] = "boolean";
      out["default"] = info.fallback == "true";
      break;
    case Kind::integer:
      out["type"] = "int";
      out["minimum"] = whole(info.low, exposed, "lowest value");
      out["maximum"] = whole(info.high, exposed, "highest value");
      out["default"] = whole(info.fallback, exposed, "default");
      break;
    case Kind::number:
      out["type"] = "double";
      out["minimum"] = tenths(info.low, exposed, "lowest value");
      out["maximum"] = tenths(info.high, exposed, "highest value");
      out["default"] = tenths(info.fallback, exposed, "default");
      break;
    case Kind::choice:
      out["type"] = "choice";
      out["values"] = choice_values(exposed);
      out["default"] = info.fallback;
      break;
    default:
      out["type"] = "string";
      out["default"] = info.fallback;
  }
  if (has_unit && (info.kind == Kind::integer || info.kind == Kind::number)) out["unit"] = english(info.unit);
  return out;
}

Json parameters(const std::vector<const config::PipelineSpec*>& pipelines, const Registry& registry) {
  Json values = Json::array();
  for (const config::PipelineSpec* each : pipelines)
    values.push_back({{"id", each->name}, {"name", english(each->description)}});
  Json all = Json::array();
  all.push_back({{"id", "config"},
                 {"label", english("Pipeline")},
                 {"information", english("What is made of the data")},
                 {"type", "choice"},
                 {"values", values},
                 {"default", pipelines.front()->name}});
  for (const config::PipelineSpec* pipeline : pipelines)
    for (const ExposedParameter& exposed : exposed_of(*pipeline, registry)) {
      const Json made = parameter(exposed);
      const auto same =
          std::find_if(all.begin(), all.end(), [&](const Json& each) { return each["id"] == exposed.spec.id; });
      if (same == all.end())
        all.push_back(made);
      else if (*same != made)
        throw ConfigError(exposed.spec.mark, fmt::format("'{}' is another parameter in pipelines before this one; "
                                                         "OpenRecon has one for all of a label",
                                                         exposed.spec.id));
      if (all.size() > kMostParameters)
        throw ConfigError(
            exposed.spec.mark,
            fmt::format("OpenRecon takes at most {} parameters, the pipeline's choice among them", kMostParameters));
    }
  return all;
}

bool has_gadget(const config::PipelineSpec& pipeline, std::string_view name) {
  return !config::parameters_of(pipeline, name, "").empty();
}

bool gives_complex(const config::PipelineSpec& pipeline) {
  const config::GadgetSpec& last = pipeline.gadgets.back();
  const Node component = last.parameters.get("component");
  return last.name == "image" && component.kind() == Node::Kind::scalar && component.as_string() == "complex";
}

Json reconstruction(const std::vector<const config::PipelineSpec*>& pipelines) {
  const config::PipelineSpec& first = *pipelines.front();
  const bool images = first.input == config::Input::images;
  for (const config::PipelineSpec* each : pipelines) {
    if ((each->input == config::Input::images) != images)
      throw ConfigError(each->mark,
                        fmt::format("'{}' takes {}, but '{}' takes {}: a label is for either of them", each->name,
                                    images ? "readouts" : "images", first.name, images ? "images" : "readouts"));
    if (gives_complex(*each) != gives_complex(first))
      throw ConfigError(each->mark, fmt::format("'{}' and '{}' do not both give complex images: a label is for either",
                                                each->name, first.name));
  }
  // Adjustment scans bring noise and reference lines that later scans name.
  const bool adjusts = !images && std::any_of(pipelines.begin(), pipelines.end(), [](const auto* each) {
    return has_gadget(*each, "noise_adjust") || has_gadget(*each, "external_calibration");
  });
  return {{"transfer_protocol", {{"protocol", "ISMRMRD"}, {"version", "1.4.1"}}},
          {"port", kPort},
          {"emitter", images ? "image" : "raw"},
          {"injector", gives_complex(first) ? "compleximage" : "image"},
          {"can_process_adjustment_data", adjusts},
          {"can_use_gpu", false},
          {"min_count_required_gpus", 0},
          {"min_required_gpu_memory", 0},
          {"min_required_memory", images ? kMibOfImages : kMibOfReadouts},
          {"min_count_required_cpu_cores", kCores},
          {"content_qualification_type", "RESEARCH"}};
}

/// Returns "Echotrain" and, of a label for one pipeline, its name: "EchotrainImagesDenoise".
std::string label_name(const std::vector<const config::PipelineSpec*>& pipelines) {
  std::string name = "Echotrain";
  if (pipelines.size() > 1) return name;
  bool begins = true;
  for (const char c : pipelines.front()->name) {
    if (c != '_') name += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    begins = c == '_';
  }
  return name;
}

Json general(const std::vector<const config::PipelineSpec*>& pipelines) {
  const std::string name = label_name(pipelines), version(server::version());
  std::string id = name;
  std::transform(id.begin(), id.end(), id.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  const std::string about =
      pipelines.size() == 1 ? pipelines.front()->description : "Streaming reconstruction, by one of several pipelines";
  return {{"name", english(name)},
          {"version", version},
          {"vendor", "echotrain"},
          {"information", english(about + ". For research only.")},
          {"id", id},
          {"regulatory_information",
           {{"device_trade_name", name},
            {"production_identifier", version},
            {"manufacturer_address", ""},
            {"made_in", ""},
            {"manufacture_date", ""},
            {"material_number", id + "_" + version},
            {"gtin", ""},
            {"udi", ""},
            {"safety_advices", "Not a medical device: for research only."},
            {"special_operating_instructions", ""},
            {"additional_relevant_information", ""}}}};
}

}  // namespace

std::string openrecon_label(const std::vector<const config::PipelineSpec*>& pipelines, const Registry& registry) {
  const Json label{{"general", general(pipelines)},
                   {"reconstruction", reconstruction(pipelines)},
                   {"parameters", parameters(pipelines, registry)}};
  return label.dump(2) + "\n";
}

}  // namespace echotrain::server
