// The header text is the XML text of ISMRMRD, made from the header record of MRD 2 and read into it.
#pragma once

#include <string>
#include <vector>

#include "protocol/data/limits.h"
#include "protocol/data/result.h"
#include "protocol/mrd2/value.h"

namespace echotrain::protocol::mrd2 {

/// Returns the XML of a header record. Both formats have the same elements; their names differ in case and underscores.
std::string header_text(const Value& header);

/// Returns the header record (of the model) that says what an XML text says. `left_out` takes the paths of elements
/// that have no place in MRD 2, or whose text is not of their type; and of those that MRD 2 needs, that are missing,
/// and that are written as 0, the first of an enumeration, or HFS for the patient's position. Returns an Error
/// ("bad-header") where the text is no ISMRMRD header.
Result<Value> read_header_text(const std::string& xml, const Limits& limits, std::vector<std::string>& left_out);

}  // namespace echotrain::protocol::mrd2
