#include "protocol/data/epi_description.h"

#include <charconv>
#include <cmath>

#include "protocol/data/header_element.h"
#include "protocol/data/layout.h"
#include "protocol/data/text.h"

namespace echotrain::protocol {
namespace {

constexpr std::uint64_t kReversed = acquisition_flag(22);
constexpr std::size_t kLongestName = 64;

/// The finite number that a text is.
std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(value) ? std::optional(value)
                                                                                          : std::nullopt;
}

}  // namespace

ReadoutKind readout_kind(const AcquisitionHeader& head, Trajectory trajectory) {
  const ReadoutKind kind = readout_kind(head);
  if (kind != ReadoutKind::other || trajectory != Trajectory::epi || (head.flags & kReversed) == 0) return kind;
  AcquisitionHeader forward = head;
  forward.flags &= ~kReversed;
  return readout_kind(forward);
}

std::optional<double> TrajectoryDescription::value(std::string_view name) const {
  const auto found = values.find(std::string(name));
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::optional<TrajectoryDescription> trajectory_description(std::string_view xml, std::size_t encoding) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return std::nullopt;
  const pugi::xml_node node =
      child_named(child_named(child_named(document, "ismrmrdHeader"), "encoding", encoding), "trajectoryDescription");
  if (!node) return std::nullopt;
  TrajectoryDescription out;
  out.identifier = printable(text_of(node, "identifier"), kLongestName);
  for (const pugi::xml_node child : node.children()) {
    if (plain_name(child) != "userParameterLong" && plain_name(child) != "userParameterDouble") continue;
    // GE's converter for real-time EPI writes <value><value>2</value></value>.
    const bool nested = text_of(child, "value").empty();
    if (const auto value = number_in(text_of(nested ? child_named(child, "value") : child, "value")))
      out.values[printable(text_of(child, "name"), kLongestName)] = *value;
  }
  return out;
}

std::optional<Multiband> multiband(std::string_view xml, std::size_t encoding) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return std::nullopt;
  const pugi::xml_node node = child_named(
      child_named(child_named(child_named(document, "ismrmrdHeader"), "encoding", encoding), "parallelImaging"),
      "multiband");
  const auto factor = number_in(text_of(node, "multiband_factor"));
  if (!factor || *factor < 1 || *factor > 1000 || *factor != std::floor(*factor)) return std::nullopt;
  Multiband out;
  out.factor = static_cast<std::uint32_t>(*factor);
  out.delta_kz = number_in(text_of(node, "deltaKz")).value_or(0);
  for (const pugi::xml_node spacing : node.children())
    for (std::size_t i = 0; plain_name(spacing) == "spacing" && child_named(spacing, "dZ", i); ++i)
      if (const auto mm = number_in(text_of(spacing, "dZ", i))) out.spacing_mm.push_back(*mm);
  return out;
}

}  // namespace echotrain::protocol
