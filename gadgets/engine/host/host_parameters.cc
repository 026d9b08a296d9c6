#include "gadgets/engine/host/host_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "gadgets/engine/host/exposed_parameters.h"
#include "protocol/data/meta.h"
#include "protocol/data/text.h"

namespace echotrain {
namespace {

using config::ConfigError;
using nlohmann::json;

constexpr int kDeepest = 64;  // depth of brackets, also of those that no step reads
constexpr std::size_t kMostNamed = 8;
constexpr const char* kTakesJson = "host_parameters";  // parameter of gadgets that take the host's JSON

/// The depth of the brackets of a JSON text. nlohmann reads any depth, but writes by recursion.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text && c == '\\')
      ++i;
    else if (c == '"')
      in_text = !in_text;
    else if (!in_text && (c == '{' || c == '['))
      deepest = std::max(deepest, ++depth);
    else if (!in_text && (c == '}' || c == ']'))
      --depth;
  }
  return deepest;
}

/// A number in JSON, without the fraction that some hosts write after whole numbers.
std::string number_text(const json& value) {
  std::string text = value.dump();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

HostValue host_value(const std::string& id, const json& value) {
  if (value.is_string()) return {id, value.get<std::string>()};
  if (value.is_boolean()) return {id, value.get<bool>() ? "true" : "false"};
  if (value.is_number()) return {id, number_text(value)};
  return {id, value.is_null() ? "null" : value.is_array() ? "a list" : "a map", false};
}

std::string text_of(const json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

/// Writes JSON in ASCII, so that no locale of a step's process changes it.
std::string in_ascii(const json& object) { return object.dump(-1, ' ', /*ensure_ascii=*/true); }

bool takes_json(const config::PipelineSpec& spec) {
  for (const char* gadget : {"python", "mrd_server"})
    for (const config::Node& value : config::parameters_of(spec, gadget, kTakesJson))
      if (value.kind() != config::Node::Kind::null && value.as_bool()) return true;
  return false;
}

std::string not_exposed(const config::PipelineSpec& spec, std::vector<std::string> unknown,
                        const std::vector<ExposedParameter>& exposed) {
  if (unknown.size() > kMostNamed) {
    const std::size_t more = unknown.size() - kMostNamed;
    unknown.resize(kMostNamed);
    unknown.push_back(fmt::format("and {} more", more));
  }
  std::vector<std::string> ids;
  for (const ExposedParameter& each : exposed) ids.push_back(each.spec.id);
  return fmt::format("pipeline '{}' exposes no parameter {}, which changes nothing; it exposes {}", spec.name,
                     fmt::join(unknown, ", "), ids.empty() ? "none" : fmt::format("{}", fmt::join(ids, ", ")));
}

void set_value(config::PipelineSpec& spec, const ExposedParameter& known, const HostValue& value) {
  try {
    if (!value.simple) throw ConfigError({}, fmt::format("one value is expected, not {}", value.text));
    config::set_parameter(spec, known.spec.gadget, known.spec.parameter, known.read(value.text));
  } catch (const ConfigError& error) {
    const std::string why = protocol::printable(error.message(), 512), allowed = known.info.allowed();
    throw ConfigError({}, fmt::format("parameter '{}' ({}, sets {}): {}{}", value.id, known.spec.label, known.info.name,
                                      why, why.find(allowed) == std::string::npos ? "; allowed is " + allowed : ""));
  }
}

std::string too_many(std::size_t count) {
  return fmt::format("the host's JSON has {} parameters; at most {} are read", count, kMostHostParameters);
}

}  // namespace

HostParameters read_host_parameters(std::string_view text) {
  HostParameters out;
  if (text.size() > kMostHostBytes) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    out.given = first != std::string_view::npos && text[first] == '{' && text.find("\"parameters\"") != text.npos;
    out.problem = fmt::format("the host's JSON has {} bytes; at most {} are read", text.size(), kMostHostBytes);
    return out;
  }
  json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return out;
  const auto parameters = object.find("parameters");
  if (parameters == object.end() || !parameters->is_object()) return out;
  out.given = true;
  if (depth_of(text) > kDeepest) {
    out.problem = fmt::format("the host's JSON is nested more than {} deep", kDeepest);
    return out;
  }
  if (parameters->size() > kMostHostParameters) {
    out.problem = too_many(parameters->size());
    return out;
  }
  out.token = text_of(object, "token");
  out.pipeline = text_of(*parameters, "customconfig");
  if (out.pipeline.empty()) out.pipeline = text_of(*parameters, "config");
  for (const auto& [id, value] : parameters->items())
    if (id != "config" && id != "customconfig") out.values.push_back(host_value(id, value));
  object.erase("token");
  out.json = in_ascii(object);
  return out;
}

HostParameters later(const HostParameters& before, const HostParameters& after) {
  HostParameters out = after;
  if (out.problem.empty()) out.problem = before.problem;
  out.values = before.values;
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < before.values.size(); ++i) places.emplace(before.values[i].id, i);
  for (const HostValue& value : after.values) {
    const auto [place, is_new] = places.emplace(value.id, out.values.size());
    if (is_new)
      out.values.push_back(value);
    else
      out.values[place->second] = value;
  }
  if (out.values.size() > kMostHostParameters && out.problem.empty()) out.problem = too_many(out.values.size());
  if (before.json.empty() || after.json.empty()) {
    out.json = before.json.empty() ? after.json : before.json;
    return out;
  }
  json object = json::parse(before.json), changes = json::parse(after.json);
  json parameters = object["parameters"];
  parameters.update(changes["parameters"]);
  object.update(changes);
  object["parameters"] = std::move(parameters);
  out.json = in_ascii(object);
  return out;
}

HostChange with_host_values(const config::PipelineSpec& spec, const HostParameters& host, const Registry& registry) {
  if (!host.problem.empty()) throw ConfigError({}, host.problem);
  HostChange out{spec, {}, "", ""};
  const bool to_step = takes_json(spec) && !host.json.empty();
  if (host.values.empty() && !to_step) return out;
  if (to_step && host.json.size() > kMostHostBytes)
    throw ConfigError(
        {}, fmt::format("the host's JSON has {} bytes, and a step takes at most {}", host.json.size(), kMostHostBytes));
  const std::vector<ExposedParameter> exposed = exposed_of(spec, registry);
  std::vector<std::string> set, unknown;
  for (const HostValue& value : host.values) {
    const auto known = std::find_if(exposed.begin(), exposed.end(),
                                    [&](const ExposedParameter& each) { return each.spec.id == value.id; });
    if (known != exposed.end()) {
      set_value(out.spec, *known, value);
    } else if (!to_step) {
      unknown.push_back(protocol::printable(value.id, 64));
      continue;
    }
    set.push_back(fmt::format("{}={}", protocol::printable(value.id, 64), protocol::printable(value.text, 256)));
    out.used.values.push_back(value);
  }
  if (!unknown.empty()) out.warning = not_exposed(spec, std::move(unknown), exposed);
  out.set_by_host = protocol::printable(fmt::format("{}", fmt::join(set, ", ")));
  if (!set.empty()) out.spec.text += fmt::format("\n# set by the host: {}\n", out.set_by_host);
  if (to_step) {
    out.used.json = host.json;
    if (!set.empty()) out.spec.text += fmt::format("# for steps: {}\n", host.json);
  }
  return out;
}

void note_parameters(std::string& attributes, const std::string& set_by_host) {
  if (set_by_host.empty()) return;
  std::string text = set_by_host;
  for (char& c : text)  // characters that XML reserves
    if (c == '<' || c == '>' || c == '&' || c == '"') c = '?';
  protocol::add_meta(attributes, "echotrain_parameters", text);
}

}  // namespace echotrain
