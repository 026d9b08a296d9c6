#include "protocol/data/sequence_values.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

#include "protocol/data/header_element.h"

namespace echotrain::protocol {
namespace {

std::optional<double> sequence_number(std::string_view text) {
  if (text == "INF") return std::numeric_limits<double>::infinity();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// Adds a number from 0 on; else removes all, and returns false.
bool take(std::string_view text, std::vector<double>& to) {
  const std::optional<double> value = sequence_number(text);
  if (value && *value >= 0) {
    to.push_back(*value);
    return true;
  }
  to.clear();
  return false;
}

/// The element `name` of a header; it lives as long as the document.
pugi::xml_node part_of(std::string_view xml, std::string_view name, pugi::xml_document& document) {
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return {};
  return child_named(child_named(document, "ismrmrdHeader"), name);
}

}  // namespace

std::vector<double> sequence_values(std::string_view xml, std::string_view name) {
  pugi::xml_document document;
  std::vector<double> out;
  for (const pugi::xml_node child : part_of(xml, "sequenceParameters", document).children())
    if (plain_name(child) == name && !take(text_of(child), out)) break;
  return out;
}

std::vector<double> user_values(std::string_view xml, std::string_view name) {
  pugi::xml_document document;
  std::vector<double> out;
  for (const pugi::xml_node child : part_of(xml, "userParameters", document).children())
    if ((plain_name(child) == "userParameterDouble" || plain_name(child) == "userParameterLong") &&
        text_of(child, "name") == name && !take(text_of(child, "value"), out))
      break;
  return out;
}

DiffusionValues diffusion_values(std::string_view xml) {
  pugi::xml_document document;
  DiffusionValues out;
  const pugi::xml_node sequence = part_of(xml, "sequenceParameters", document);
  out.counter = text_of(sequence, "diffusionDimension");
  for (const pugi::xml_node child : sequence.children()) {
    if (plain_name(child) != "diffusion") continue;
    if (!take(text_of(child, "bvalue"), out.b_s_per_mm2)) return {};
    const pugi::xml_node direction = child_named(child, "gradientDirection");
    std::array<double, 3> along{};
    const char* const axes[] = {"rl", "ap", "fh"};
    for (std::size_t a = 0; a < 3; ++a) along[a] = sequence_number(text_of(direction, axes[a])).value_or(0);
    out.directions.push_back(along);
  }
  return out;
}

}  // namespace echotrain::protocol
