#include "protocol/data/epi_description.h"

#include <charconv>
#include <cmath>

#include "protocol/data/header_element.h"
#include "protocol/data/text.h"

namespace echotrain::protocol {
namespace {

constexpr std::size_t kLongestName = 64;

/// The finite number that a text is.
std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) ? std::optional(value)
                                                                                          : std::nullopt;
}

}  // namespace

std::optional<double> TrajectoryDescription::value(std::string_view name) const {
  const auto found = values.find(std::string(name));
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::shared_ptr<const TrajectoryDescription> trajectory_description(const pugi::xml_node& encoding) {
  const pugi::xml_node node = child_named(encoding, "trajectoryDescription");
  if (!node) return nullptr;
  auto out = std::make_shared<TrajectoryDescription>();
  out->identifier = printable(text_of(node, "identifier"), kLongestName);
  for (const pugi::xml_node child : node.children()) {
    if (out->values.size() == TrajectoryDescription::kMostValues) break;
    if (plain_name(child) != "userParameterLong" && plain_name(child) != "userParameterDouble") continue;
    // GE's converter for real-time EPI writes <value><value>2</value></value>.
    const bool nested = text_of(child, "value").empty();
    if (const auto value = number_in(text_of(nested ? child_named(child, "value") : child, "value")))
      out->values[printable(text_of(child, "name"), kLongestName)] = *value;
  }
  return out;
}

std::shared_ptr<const Multiband> multiband(const pugi::xml_node& encoding) {
  const pugi::xml_node node = child_named(child_named(encoding, "parallelImaging"), "multiband");
  const auto factor = number_in(text_of(node, "multiband_factor"));
  if (!factor || *factor < 1 || *factor > Multiband::kMostSlices || *factor != std::floor(*factor)) return nullptr;
  auto out = std::make_shared<Multiband>();
  out->factor = static_cast<std::uint32_t>(*factor);
  out->delta_kz = number_in(text_of(node, "deltaKz")).value_or(0);
  for (const pugi::xml_node spacing : node.children())
    for (const pugi::xml_node child : spacing.children()) {
      if (plain_name(spacing) != "spacing" || plain_name(child) != "dZ") continue;
      const auto mm = number_in(text_of(child));
      if (mm && out->spacing_mm.size() < Multiband::kMostSlices) out->spacing_mm.push_back(*mm);
    }
  return out;
}

}  // namespace echotrain::protocol
