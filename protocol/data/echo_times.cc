#include "protocol/data/echo_times.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>
#include <string>

namespace echotrain::protocol {
namespace {

/// The child of this name, whatever its prefix.
pugi::xml_node child_of(const pugi::xml_node& parent, std::string_view name) {
  for (const pugi::xml_node child : parent.children()) {
    const std::string_view full = child.name();
    if (full.substr(full.find(':') + 1) == name) return child;
  }
  return {};
}

}  // namespace

std::vector<double> echo_times_ms(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return {};
  std::vector<double> times;
  for (const pugi::xml_node child : child_of(child_of(document, "ismrmrdHeader"), "sequenceParameters").children()) {
    std::string_view name = child.name(), text = child.child_value();
    if (name.substr(name.find(':') + 1) != "TE") continue;
    constexpr std::string_view kSpace = " \t\r\n";
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
    text = text.substr(0, text.find_last_not_of(kSpace) + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0) return {};
    times.push_back(value);
  }
  return times;
}

}  // namespace echotrain::protocol
