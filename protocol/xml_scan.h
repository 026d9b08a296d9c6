// A look at XML text before a parser sees it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace echotrain::protocol {

/// Why `xml` must not be parsed: elements nested deeper than `max_depth`, a document type or entity declaration, or
/// markup that does not end. Nothing when there is no such reason; the text can still be malformed otherwise.
std::optional<std::string> xml_danger(std::string_view xml, std::uint32_t max_depth);

}  // namespace echotrain::protocol
