// The pipelines of a server, and the loader's answer to a text, are written as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "protocol/data/limits.h"
#include "protocol/data/result.h"
#include "server/scan/pipeline_catalogue.h"

namespace echotrain::server {

/// The longest text that is checked. The longest shipped pipeline has 6 KiB.
inline constexpr std::size_t kLongestPipelineText = protocol::kServerLimits.config_text_bytes;

/// Returns all pipelines by name, with their descriptions and, of shipped ones, the page's files that show an image.
std::string pipelines_json(const PipelineCatalogue& catalogue);

/// Returns one of them, by name or alias: its text, the graph of its gadgets (chain_json.h), what it exposes to hosts.
/// The error "unknown-config" suggests the nearest name.
protocol::Result<std::string> pipeline_json(const PipelineCatalogue& catalogue, std::string_view name);

/// Returns what the loader says of a text: {"ok": true, ...} with the graph, or {"ok": false, "line": 3, "column": 5,
/// "message": "no gadget is called ..."}; line 0: the text as a whole. Any thread may call it.
std::string checked_json(const PipelineCatalogue& catalogue, std::string_view text);

/// Returns the text of a parameter of a query: "a b" for "name" in "x=1&name=a%20b". Empty where it is not there.
std::string text_in(std::string_view query, std::string_view name);

}  // namespace echotrain::server
