// Elements of a header's XML, for what few readers of headers need.
#pragma once

#include <cstddef>
#include <pugixml.hpp>
#include <string_view>

namespace echotrain::protocol {

/// An element's name without its namespace's prefix.
inline std::string_view plain_name(const pugi::xml_node& node) {
  const std::string_view full = node.name();
  return full.substr(full.find(':') + 1);
}

/// The child of this plain name, of several the one of a number.
inline pugi::xml_node child_named(const pugi::xml_node& parent, std::string_view name, std::size_t number = 0) {
  for (const pugi::xml_node child : parent.children())
    if (plain_name(child) == name && number-- == 0) return child;
  return {};
}

/// An element's text without white space around it.
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
