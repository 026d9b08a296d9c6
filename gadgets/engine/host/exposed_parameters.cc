#include "gadgets/engine/host/exposed_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace echotrain {

using config::ConfigError;
using config::Node;
using config::OptionInfo;
using Kind = config::OptionInfo::Kind;

namespace {

constexpr std::size_t kLongestText = 1024;

Node scalar(const std::string& text) { return Node::scalar({}, text, false); }

/// Checks a value against what `info` allows; the error has the value's place.
void check_value(const OptionInfo& info, const Node& value) {
  switch (info.kind) {
    case Kind::integer:
      value.as_int(scalar(info.low).as_int(), scalar(info.high).as_int());
      break;
    case Kind::number:
      value.as_double(scalar(info.low).as_double(), scalar(info.high).as_double());
      break;
    case Kind::yes_or_no:
      value.as_bool();
      break;
    case Kind::choice:
      value.as_choice(info.choices);
      break;
    default:
      if (value.as_string().size() > kLongestText)
        throw ConfigError(value.mark(), fmt::format("the text is longer than {} bytes", kLongestText));
  }
}

const OptionInfo& declared(const config::ExposedSpec& spec, const Registry& registry) {
  const GadgetEntry* gadget = registry.find(spec.gadget);
  if (gadget == nullptr) throw ConfigError(spec.sets_mark, fmt::format("no gadget is called '{}'", spec.gadget));
  std::vector<std::string> names;
  for (const OptionInfo& each : gadget->parameters) {
    if (each.name == spec.parameter) return each;
    names.push_back(each.name);
  }
  const std::string near = config::nearest(spec.parameter, names);
  throw ConfigError(spec.sets_mark,
                    fmt::format("gadget '{}' has no parameter {}{}", spec.gadget, config::in_quotes(spec.parameter),
                                near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

void narrow_to_range(OptionInfo& info, const Node& range) {
  if (info.kind != Kind::integer && info.kind != Kind::number)
    throw ConfigError(range.mark(), fmt::format("{} is no number, and has no range", info.name));
  const Node &low = range.as_sequence()[0], &high = range.as_sequence()[1];
  check_value(info, low);
  check_value(info, high);
  if (low.as_double() > high.as_double()) throw ConfigError(range.mark(), "the range's first number is the larger one");
  info.low = low.as_string();
  info.high = high.as_string();
}

void narrow_to_values(OptionInfo& info, const std::vector<config::ExposedValue>& values) {
  if (info.kind == Kind::yes_or_no)
    throw ConfigError(values.front().mark, fmt::format("{} is true or false, and has no other values", info.name));
  std::vector<std::string> choices;
  for (const config::ExposedValue& value : values) {
    check_value(info, Node::scalar(value.mark, value.text, false));
    choices.push_back(value.text);
  }
  info.kind = Kind::choice;
  info.choices = std::move(choices);
}

/// Takes the default from the chains, where they have one.
void find_fallback(OptionInfo& info, const config::PipelineSpec& pipeline, const config::ExposedSpec& spec) {
  const std::string of_gadget = info.fallback;
  bool first = true;
  for (const Node& value : config::parameters_of(pipeline, spec.gadget, spec.parameter)) {
    const std::string text = value.kind() == Node::Kind::null ? of_gadget : value.as_string();
    if (!std::exchange(first, false) && text != info.fallback)
      throw ConfigError(spec.sets_mark,
                        fmt::format("{} is {} in one place of the pipeline and {} in another; give all "
                                    "the same value, or write 'default:' here only",
                                    info.name, config::in_quotes(info.fallback), config::in_quotes(text)));
    info.fallback = text;
    if (text.empty() && info.kind != Kind::text)
      throw ConfigError(spec.mark, fmt::format("{} has no default; write one: 'default: ...'", info.name));
    check_value(info, Node::scalar(value.kind() == Node::Kind::null ? spec.mark : value.mark(), text, false));
  }
}

ExposedParameter resolve(const config::PipelineSpec& pipeline, const config::ExposedSpec& spec,
                         const Registry& registry) {
  ExposedParameter out{spec, declared(spec, registry)};
  OptionInfo& info = out.info;
  info.name = spec.gadget + "." + spec.parameter;
  if (info.kind == Kind::path || info.kind == Kind::list || info.kind == Kind::pair)
    throw ConfigError(spec.sets_mark, fmt::format("{} is no text, number, choice, or true or false, and cannot be "
                                                  "exposed",
                                                  info.name));
  if (spec.range.mark().line > 0) narrow_to_range(info, spec.range);
  if (!spec.values.empty()) narrow_to_values(info, spec.values);
  find_fallback(info, pipeline, spec);
  return out;
}

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace

config::Node ExposedParameter::read(const std::string& text) const {
  std::string given = text;
  if (info.kind == Kind::yes_or_no)  // Python's hosts send True and False
    std::transform(given.begin(), given.end(), given.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  // Hosts that send numbers write 2 for 2.0.
  if (!spec.values.empty() && std::find(info.choices.begin(), info.choices.end(), given) == info.choices.end())
    for (const std::string& choice : info.choices)
      if (const auto number = number_in(given); number && number == number_in(choice)) given = choice;
  Node node = scalar(given);
  check_value(info, node);
  return node;
}

std::vector<ExposedParameter> exposed_of(const config::PipelineSpec& spec, const Registry& registry) {
  std::vector<ExposedParameter> all;
  for (const config::ExposedSpec& each : spec.exposed) all.push_back(resolve(spec, each, registry));
  return all;
}

}  // namespace echotrain
