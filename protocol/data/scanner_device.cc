#include "protocol/data/scanner_device.h"

#include "protocol/data/header_element.h"

namespace echotrain::protocol {

std::string device_of(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return "";
  const pugi::xml_node system = child_named(child_named(document, "ismrmrdHeader"), "acquisitionSystemInformation");
  const std::string serial(text_of(system, "deviceSerialNumber")), id(text_of(system, "deviceID"));
  if (!serial.empty()) return "serial " + serial;
  return id.empty() ? "" : "id " + id + " of " + std::string(text_of(system, "institutionName"));
}

}  // namespace echotrain::protocol
