#include "config/option.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace echotrain::config {

std::string OptionInfo::type() const {
  switch (kind) {
    case Kind::integer:
      return "integer";
    case Kind::number:
      return "number";
    case Kind::yes_or_no:
      return "true or false";
    case Kind::choice:
      return "one of";
    default:
      return "text";
  }
}

std::string OptionInfo::range() const {
  if (kind == Kind::choice) return fmt::format("{}", fmt::join(choices, ", "));
  return low.empty() ? "" : low + " .. " + high;
}

std::string OptionInfo::allowed() const {
  switch (kind) {
    case Kind::integer:
    case Kind::number:
      return low + " to " + high;
    case Kind::path:
    case Kind::pair:
      return noun;
    case Kind::list:
      return noun + "s";
    default:
      return kind == Kind::choice ? range() : type();
  }
}

std::string OptionInfo::flag() const {
  std::string flag = "--" + name;
  std::replace_if(
      flag.begin(), flag.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  return flag;
}

namespace detail {

std::string text_of(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

std::vector<std::string> list_of(const Node& node, const std::string& noun) {
  std::vector<std::string> values;
  for (const Node& item : node.kind() == Node::Kind::sequence ? node.as_sequence() : std::vector<Node>{node}) {
    values.push_back(item.as_string());
    if (values.back().empty()) throw ConfigError(item.mark(), fmt::format("the {}'s name is empty", noun));
  }
  return values;
}

ConfigError named(const OptionInfo& info, const ConfigError& error) {
  const std::string allowed = info.allowed();
  const std::string detail = error.message().find(allowed) == std::string::npos ? "; allowed is " + allowed : "";
  return {error.mark(), fmt::format("{}: {}{}", info.name, error.message(), detail)};
}

}  // namespace detail

}  // namespace echotrain::config
