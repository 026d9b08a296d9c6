// The origin of a session is the client in whose name this server opens it by itself, for a detached scan.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "config/server_options.h"
#include "protocol/data/result.h"
#include "server/net/identity.h"

namespace echotrain::server {

struct SessionOrigin {
  std::string peer;                                ///< "address:port" of the client: places are counted for it
  Identity identity;                               ///< of the client
  std::optional<config::ClientPipelines> granted;  ///< by its token
  std::string occasion;                            ///< stays the same when the scan is run again
  bool to_dicom = true;
  bool captured = true;                     ///< where the server captures anything
  bool in_time = true;                      ///< data come as the client sends them; else as fast as they are read
  std::shared_ptr<std::atomic<bool>> live;  ///< its client is there; live scans go first
};

/// Begins a session on a connected socket, which it owns from then on, also when it fails. Gives the session's number.
/// Any thread may call it.
using AddDetachedSession = std::function<protocol::Result<std::uint64_t>(int socket, const SessionOrigin& origin)>;

}  // namespace echotrain::server
