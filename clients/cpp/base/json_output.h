// The JSON output is one document on stdout, in place of lines for people. docs/programs.md says where its schemas are.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

namespace echotrain::client {

using Json = nlohmann::ordered_json;

inline constexpr const char* kJsonHelp = "print a JSON document instead of lines";

/// Begins the document of a command: "format" names its schema. Fields are only ever added.
inline Json json_document(const std::string& command) { return Json{{"format", "echotrain." + command}}; }

/// Writes the document. Text that is not UTF-8, as names of files may be, gets replacement characters.
inline void write_json(const Json& document, std::ostream& out) {
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace echotrain::client
