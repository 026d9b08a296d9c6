// The XML check looks at XML text before a parser sees it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "protocol/data/limits.h"

namespace echotrain::protocol {

/// Returns why `xml` must not be parsed: elements nested deeper than limits.xml_depth, more than limits.xml_items tags
/// and attributes, a document type or entity declaration, or markup that does not end. Nothing when there is no such
/// reason; the text can still be malformed otherwise.
std::optional<std::string> xml_problem(std::string_view xml, const Limits& limits);

}  // namespace echotrain::protocol
