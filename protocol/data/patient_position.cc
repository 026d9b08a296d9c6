#include "protocol/data/patient_position.h"

#include "protocol/data/header_element.h"

namespace echotrain::protocol {
namespace {

using Direction = std::array<double, 3>;

/// The direction that is up, by the letters behind head first (HF) or feet first (FF).
std::optional<Direction> up_of(std::string_view lying) {
  if (lying == "S") return Direction{0, -1, 0};  // supine: anterior
  if (lying == "P") return Direction{0, 1, 0};   // prone: posterior
  if (lying == "DR") return Direction{1, 0, 0};  // on the right side: left
  if (lying == "DL") return Direction{-1, 0, 0};
  return std::nullopt;
}

}  // namespace

std::optional<std::array<std::array<double, 3>, 3>> device_axes(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return std::nullopt;
  const std::string_view position =
      text_of(child_named(child_named(document, "ismrmrdHeader"), "measurementInformation"), "patientPosition");
  if (!position.starts_with("HF") && !position.starts_with("FF")) return std::nullopt;
  const auto up = up_of(position.substr(2));
  if (!up) return std::nullopt;
  const double out = position[0] == 'H' ? -1 : 1;  // along S
  const Direction& y = *up;
  return std::array<Direction, 3>{Direction{y[1] * out, -y[0] * out, 0}, y, Direction{0, 0, out}};  // x = y x z
}

std::string user_parameter(std::string_view xml, std::string_view name) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return "";
  for (const pugi::xml_node child : child_named(child_named(document, "ismrmrdHeader"), "userParameters").children())
    if (text_of(child, "name") == name) return std::string(text_of(child, "value"));
  return "";
}

}  // namespace echotrain::protocol
