// A detached scan is one that a server goes on with when its client is gone: the questions about it, and their answers
// (docs/protocol.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "clients/cpp/connection/server_connection.h"

namespace echotrain::client {

inline constexpr const char* kDetach = "echotrain::detach/new";
inline constexpr const char* kResume = "echotrain::detach/resume";  ///< /ID/IMAGES
inline constexpr const char* kFetch = "echotrain::fetch";           ///< /ID/FROM
inline constexpr const char* kCancel = "echotrain::cancel";         ///< /ID
inline constexpr const char* kScan = "echotrain::scan";             ///< /ID
inline constexpr const char* kScans = "echotrain::scans";

/// Returns a question with the token, where there is one.
std::string question(const std::string& what, const std::string& token);

/// Returns why a scan cannot be had, from an answer that is not the one that was hoped for.
std::string not_there(const std::string& id, const std::string& answer);

struct DetachedScan {
  std::string id, state, pipeline, begun, keep_until, failure;
  std::uint64_t received = 0;  ///< messages after the header
  std::uint64_t images = 0;
};

/// Reads an answer: one scan, or an array of them. Throws ConnectionError when it is neither.
std::vector<DetachedScan> read_scans(const std::string& json);

}  // namespace echotrain::client
