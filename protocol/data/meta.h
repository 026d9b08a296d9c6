// The ismrmrdMeta attributes of images.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echotrain::protocol {

/// Names and values in order, one entry per value. Empty for text that is not ismrmrdMeta XML.
std::vector<std::pair<std::string, std::string>> meta_values(const std::string& attributes);
/// The first value of `name`, or empty.
std::string meta_value(const std::string& attributes, std::string_view name);
/// Adds an attribute at the end. An empty text becomes a document; other text that is no ismrmrdMeta document stays as
/// it is. `name` and `value` hold no characters that XML reserves.
void add_meta(std::string& attributes, std::string_view name, std::string_view value);

}  // namespace echotrain::protocol
