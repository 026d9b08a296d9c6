// The meta attributes of an image are an ismrmrdMeta document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace echotrain::protocol {

/// Longer names are left out by meta_values() [bytes]: each of many values would repeat one.
inline constexpr std::size_t kLongestMetaName = 128;
/// Returns names and values in order, one entry per value. Empty for text that is not ismrmrdMeta XML.
std::vector<std::pair<std::string, std::string>> meta_values(const std::string& attributes);
/// Gives the same, one after another, without keeping them.
void for_each_meta(const std::string& attributes,
                   const std::function<void(std::string_view name, std::string_view value)>& take);
/// Returns the memory that for_each_meta() takes at most [bytes]: a parser's tree is many times the text.
std::uint64_t bytes_to_read_meta(std::string_view attributes);
/// Returns the first value of `name`, or empty.
std::string meta_value(const std::string& attributes, std::string_view name);
/// Returns the document of these names and their values, which may hold any characters; what follows a NUL is left out.
/// The bytes are those that libismrmrd writes, but for a first line that declares the encoding, at a seventh of its
/// time.
std::string meta_text(const std::map<std::string, std::vector<std::string>>& values);
/// Adds an attribute at the end. An empty text becomes a document; other text that is no ismrmrdMeta document stays as
/// it is. `name` and `value` hold no characters that XML reserves.
void add_meta(std::string& attributes, std::string_view name, std::string_view value);

}  // namespace echotrain::protocol
