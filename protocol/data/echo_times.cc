#include "protocol/data/echo_times.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "protocol/data/header_element.h"

namespace echotrain::protocol {

std::vector<double> echo_times_ms(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8)) return {};
  std::vector<double> times;
  for (const pugi::xml_node child :
       child_named(child_named(document, "ismrmrdHeader"), "sequenceParameters").children()) {
    if (plain_name(child) != "TE") continue;
    const std::string_view text = text_of(child);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0) return {};
    times.push_back(value);
  }
  return times;
}

}  // namespace echotrain::protocol
