#include "config/exposed_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <utility>

#include "config/pipeline_spec.h"

namespace echotrain::config {

namespace {

constexpr std::size_t kMostExposed = 64, kLongestId = 64, kLongestText = 256;

bool is_alphanumeric(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80 && std::isalnum(c) != 0; });
}

std::string read_id(const Node::Entry& entry) {
  if (entry.key.empty() || entry.key.size() > kLongestId || !is_alphanumeric(entry.key))
    throw ConfigError(entry.mark, fmt::format("{} cannot be a host's name for a parameter: use 1 to {} letters and "
                                              "digits",
                                              in_quotes(entry.key), kLongestId));
  if (entry.key == "config" || entry.key == "customconfig")
    throw ConfigError(entry.mark, fmt::format("'{}' is what hosts name a pipeline by; take another name", entry.key));
  return entry.key;
}

std::string read_text(const Node& node, bool needed) {
  if (node.mark().line == 0 && !needed) return "";
  std::string text = node.as_string();
  if (text.empty() || text.size() > kLongestText)
    throw ConfigError(node.mark(), fmt::format("a text of 1 to {} characters is expected", kLongestText));
  return text;
}

std::vector<ExposedValue> read_values(const Node& node) {
  std::vector<ExposedValue> values;
  if (node.mark().line == 0) return values;
  const auto add = [&](const Mark& mark, const std::string& text, const std::string& name) {
    if (text.empty() || name.empty()) throw ConfigError(mark, "a value, or its name, is empty");
    if (std::any_of(values.begin(), values.end(), [&](const ExposedValue& each) { return each.text == text; }))
      throw ConfigError(mark, fmt::format("the value {} is given twice", in_quotes(text)));
    values.push_back({text, name, mark});
  };
  if (node.kind() == Node::Kind::map) {
    for (const Node::Entry& entry : node.as_map()) add(entry.mark, entry.key, entry.value.as_string());
  } else {
    for (const Node& item : node.as_sequence()) add(item.mark(), item.as_string(), item.as_string());
  }
  if (values.empty()) throw ConfigError(node.mark(), "'values' is empty; write [A, B] or {A: name of A, B: name of B}");
  return values;
}

ExposedSpec read_one(const Node::Entry& entry) {
  ExposedSpec one;
  one.id = read_id(entry);
  one.mark = entry.mark;
  const Node& node = entry.value;
  node.only(std::vector<std::string>{"sets", "label", "information", "range", "values", "default"});
  const Node sets = node.get("sets");
  if (sets.mark().line == 0)
    throw ConfigError(entry.mark, fmt::format("'{}' sets nothing; write 'sets: GADGET.PARAMETER'", one.id));
  const std::string target = sets.as_string();
  const std::size_t dot = target.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == target.size())
    throw ConfigError(sets.mark(),
                      fmt::format("{} is not GADGET.PARAMETER, as in 'sets: denoise.strength'", in_quotes(target)));
  one.gadget = target.substr(0, dot);
  one.parameter = target.substr(dot + 1);
  one.sets_mark = sets.mark();
  one.label = node.get("label").mark().line == 0 ? one.id : read_text(node.get("label"), true);
  one.information = read_text(node.get("information"), false);
  one.range = node.get("range");
  one.values = read_values(node.get("values"));
  one.fallback = node.get("default");
  if (one.range.mark().line > 0) {
    if (!one.values.empty()) throw ConfigError(one.range.mark(), "give either a range or values");
    if (one.range.as_sequence().size() != 2)
      throw ConfigError(one.range.mark(), "a range has two numbers: 'range: [LOWEST, HIGHEST]'");
  }
  return one;
}

/// Gives the parameters that are to stand in place of these.
using Change = std::function<Node(const Node&)>;

/// Returns the parameters of gadget `name` after `change`, where it is called `gadget`, and after the same with all
/// gadgets of a chain `pipeline` among them: a branch has one.
Node changed(const std::string& name, const Node& parameters, std::string_view gadget, const Change& change) {
  const Node out = name == gadget ? change(parameters) : parameters;
  const Node chain = out.kind() == Node::Kind::map ? out.get("pipeline") : Node();
  if (chain.kind() != Node::Kind::sequence) return out;
  std::vector<Node> items;
  for (const Node& item : chain.as_sequence()) {
    const bool is_map = item.kind() == Node::Kind::map && item.as_map().size() == 1;
    if (!is_map && item.kind() != Node::Kind::scalar) {
      items.push_back(item);  // refused when the chain is read
      continue;
    }
    const std::string inner = is_map ? item.as_map()[0].key : item.as_string();
    const Node after = changed(inner, is_map ? item.as_map()[0].value : Node(), gadget, change);
    items.push_back(is_map || after.kind() == Node::Kind::map ? Node::map(item.mark(), {{inner, item.mark(), after}})
                                                              : item);
  }
  std::vector<Node::Entry> entries = out.as_map();
  for (Node::Entry& entry : entries)
    if (entry.key == "pipeline") entry.value = Node::sequence(chain.mark(), std::move(items));
  return Node::map(out.mark(), std::move(entries));
}

}  // namespace

std::vector<Node> parameters_of(const PipelineSpec& spec, std::string_view gadget, std::string_view parameter) {
  std::vector<Node> values;
  const auto look = [&](const Node& parameters) {
    values.push_back(parameters.get(parameter));
    return parameters;
  };
  for (const auto* chain : {&spec.gadgets, &spec.accelerated})
    for (const GadgetSpec& each : *chain) changed(each.name, each.parameters, gadget, look);
  return values;
}

void set_parameter(PipelineSpec& spec, std::string_view gadget, const std::string& parameter, const Node& value) {
  const auto set = [&](const Node& before) {
    std::vector<Node::Entry> entries;
    if (before.kind() == Node::Kind::map) entries = before.as_map();
    std::erase_if(entries, [&](const Node::Entry& entry) { return entry.key == parameter; });
    entries.push_back({parameter, value.mark(), value});
    return Node::map(value.mark(), std::move(entries));
  };
  for (auto* chain : {&spec.gadgets, &spec.accelerated})
    for (GadgetSpec& each : *chain) each.parameters = changed(each.name, each.parameters, gadget, set);
}

std::vector<ExposedSpec> read_exposed(const Node& node) {
  std::vector<ExposedSpec> all;
  if (node.mark().line == 0) return all;
  for (const Node::Entry& entry : node.as_map()) {
    if (all.size() == kMostExposed)
      throw ConfigError(entry.mark, fmt::format("a pipeline exposes at most {} parameters", kMostExposed));
    all.push_back(read_one(entry));
    for (const ExposedSpec& other : all)
      if (&other != &all.back() && other.gadget == all.back().gadget && other.parameter == all.back().parameter)
        throw ConfigError(all.back().sets_mark,
                          fmt::format("'{}' sets {}.{} already", other.id, other.gadget, other.parameter));
  }
  return all;
}

}  // namespace echotrain::config
