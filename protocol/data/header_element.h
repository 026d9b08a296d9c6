// Functions that find an element of a header's XML by its name.
#pragma once

#include <cstddef>
#include <pugixml.hpp>
#include <string_view>

namespace echotrain::protocol {

/// Returns an element's name without its namespace's prefix.
inline std::string_view plain_name(const pugi::xml_node& node) {
  const std::string_view full = node.name();
  return full.substr(full.find(':') + 1);
}

/// Returns the child of this plain name; where there are several, the one of this number.
inline pugi::xml_node child_named(const pugi::xml_node& parent, std::string_view name, std::size_t number = 0) {
  for (const pugi::xml_node child : parent.children())
    if (plain_name(child) == name && number-- == 0) return child;
  return {};
}

/// Returns an element's text without white space around it.
inline std::string_view text_of(const pugi::xml_node& node) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::string_view text = node.child_value();
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

inline std::string_view text_of(const pugi::xml_node& parent, std::string_view name, std::size_t number = 0) {
  return text_of(child_named(parent, name, number));
}

}  // namespace echotrain::protocol
