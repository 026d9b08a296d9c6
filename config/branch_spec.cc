#include "config/branch_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace echotrain::config {

namespace {

using Words = std::vector<std::string>;

constexpr std::int64_t kLargestCounter = 65535;

/// Returns one value, or each of a list.
std::vector<Node> one_or_more(const Node& node) {
  if (node.kind() != Node::Kind::sequence) return {node};
  if (node.as_sequence().empty()) throw ConfigError(node.mark(), "the list is empty; name at least one value");
  return node.as_sequence();
}

Words words_of(const Node& node, const Words& known) {
  Words words;
  for (const Node& each : one_or_more(node)) words.push_back(known.empty() ? each.as_string() : each.as_choice(known));
  return words;
}

/// Reads N, or {from: N, to: M} with either end left out.
When::Range range_of(const Node& node) {
  if (node.kind() != Node::Kind::map) {
    const std::int64_t value = node.as_int(0, kLargestCounter);
    return {value, value};
  }
  node.only(Words{"from", "to"});
  const auto end = [&](const char* key, std::int64_t lowest, std::int64_t otherwise) {
    const Node value = node.get(key);
    return value.mark().line > 0 ? value.as_int(lowest, kLargestCounter) : otherwise;
  };
  When::Range range;
  range.first = end("from", 0, 0);
  range.last = end("to", range.first, kLargestCounter);
  return range;
}

std::string text_of(const When::Range& range) {
  if (range.first == range.last) return fmt::format("{}", range.first);
  if (range.last == kLargestCounter) return fmt::format("{} and above", range.first);
  return fmt::format("{} to {}", range.first, range.last);
}

/// Reads the value of one key; gives it as text.
std::string read_condition(const Node::Entry& entry, When& when) {
  static const std::map<std::string, std::pair<Words When::*, Words>, std::less<>> choices = {
      {"kind", {&When::kinds, {"imaging", "noise", "calibration", "navigator", "phase_correction", "other"}}},
      {"flag",
       {&When::flags, {"reverse", "user_1", "user_2", "user_3", "user_4", "user_5", "user_6", "user_7", "user_8"}}},
      {"content", {&When::contents, {"image", "g_factor", "snr"}}},
      {"image_type", {&When::image_types, {"magnitude", "phase", "real", "imag", "complex"}}}};
  const Node& value = entry.value;
  if (entry.key == "item") {
    const std::string item = value.as_choice(Words{"readouts", "images"});
    when.item = item == "images" ? Input::images : Input::readouts;
    return "item is " + item;
  }
  if (const auto choice = choices.find(entry.key); choice != choices.end()) {
    const auto& [member, known] = choice->second;
    when.*member = words_of(value, known);
    return fmt::format("{} is {}", entry.key, fmt::join(when.*member, " or "));
  }
  if (entry.key == "meta") {
    Words texts;
    for (const Node::Entry& each : value.as_map()) {
      when.meta[each.key] = words_of(each.value, {});
      texts.push_back(fmt::format("{} is {}", in_quotes(each.key), fmt::join(when.meta[each.key], " or ")));
    }
    if (texts.empty()) throw ConfigError(value.mark(), "name a meta attribute and its value: {NAME: VALUE}");
    return fmt::format("{}", fmt::join(texts, ", "));
  }
  const auto at = std::find(kCounters.begin(), kCounters.end(), entry.key) - kCounters.begin();
  auto& ranges = when.counters.at(static_cast<std::size_t>(at));
  Words texts;
  for (const Node& each : one_or_more(value)) {
    ranges.push_back(range_of(each));
    texts.push_back(text_of(ranges.back()));
  }
  return fmt::format("{} is {}", entry.key, fmt::join(texts, " or "));
}

When read_when(const Node& node) {
  When when;
  Words known{"item", "kind", "flag", "content", "image_type", "meta"};
  for (const std::string_view counter : kCounters) known.emplace_back(counter);
  if (node.as_map().empty()) throw ConfigError(node.mark(), "'when' is empty; leave it out to take all items");
  node.only(known);
  Words texts;
  for (const Node::Entry& entry : node.as_map()) {
    texts.push_back(read_condition(entry, when));
    when.keys.emplace_back(entry.key, entry.mark);
  }
  when.text = fmt::format("{}", fmt::join(texts, ", "));
  return when;
}

}  // namespace

BranchSpec read_branch(const GadgetSpec& gadget) {
  const Node& node = gadget.parameters;
  node.only(Words{"when", "pass_on", "series_offset", "role", "pipeline"});
  const auto given = [&](const char* key) { return node.get(key).mark().line > 0; };
  if (!given("pipeline"))
    throw ConfigError(gadget.mark, "a branch needs gadgets of its own: 'branch: {when: {...}, pipeline: [...]}'");
  BranchSpec branch;
  branch.mark = gadget.mark;
  if (given("when")) branch.when = read_when(node.get("when"));
  if (given("pass_on")) branch.pass_on = node.get("pass_on").as_bool();
  if (given("series_offset"))
    branch.series_offset = static_cast<std::uint16_t>(node.get("series_offset").as_int(0, 60000));
  if (given("role")) {
    const Node role = node.get("role");
    branch.role = role.as_string();
    const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
    if (branch.role.empty() || branch.role.size() > 64 || !std::all_of(branch.role.begin(), branch.role.end(), fits))
      throw ConfigError(role.mark(),
                        fmt::format("{} is no role: use a to z, 0 to 9 and _, at most 64", in_quotes(branch.role)));
    if (branch.series_offset)
      throw ConfigError(node.get("series_offset").mark(),
                        "images of a branch with a 'role' are not sent, so 'series_offset' has no use");
  }
  branch.gadgets = read_chain(node.get("pipeline"), "pipeline", branch.size);
  return branch;
}

std::vector<GadgetSpec> gadgets_in(const std::vector<GadgetSpec>& chain) {
  std::vector<GadgetSpec> all;
  for (const GadgetSpec& gadget : chain) {
    if (gadget.name != kBranch) {
      all.push_back(gadget);
      continue;
    }
    const std::vector<GadgetSpec> inner = gadgets_in(read_branch(gadget).gadgets);
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

}  // namespace echotrain::config
