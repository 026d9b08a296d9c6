// The queries by which clients begin, resume and look at detached scans (docs/protocol.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace echotrain::server {

struct DetachedQuery {
  enum class Kind { begin, resume, fetch, look, list, cancel };
  Kind kind = Kind::begin;
  std::string id;            ///< of the scan
  std::uint64_t images = 0;  ///< that the client has
  std::string token;
};

/// Returns nothing for other queries. An ID or number that is none makes a query for a scan that is not there.
std::optional<DetachedQuery> read_detached_query(std::string_view text);

}  // namespace echotrain::server
