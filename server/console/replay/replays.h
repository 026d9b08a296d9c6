// A replay runs a capture again, as a scan of this server.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "protocol/data/limits.h"
#include "protocol/data/result.h"

namespace echotrain::server {

/// Begins a session on a connected socket, which it owns from then on, also when it fails. `peer` is "address:port" of
/// the one that wants it: places are counted for that address. `capture` is sent. Gives the session's number. Any
/// thread may call it.
using AddSession =
    std::function<protocol::Result<std::uint64_t>(int socket, const std::string& peer, const std::string& capture)>;

/// The reason why a replay is refused, with a status of HTTP.
struct ReplayRefusal {
  unsigned status = 0;
  std::string text;
};

/// The captures of one folder, of which one runs at a time. Thread-safe.
class Replays {
 public:
  /// `directory` may be empty: nothing is captured. A replay can start only with both a directory and `add_session`.
  Replays(std::string directory, const protocol::Limits& limits, AddSession add_session);
  ~Replays();  ///< ends the one that runs
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  static constexpr std::size_t kMostListed = 200;
  /// Returns {"captures": [{"name", "bytes"}], "more": false, "running": ""}: the newest first. Looks at the folder.
  std::string json() const;

  /// Sends a capture to a session of its own, which runs `pipeline`; the capture's own configuration and its queries
  /// are left out, and no CLOSE is sent where it has none: then the scan counts as incomplete. Looks at the file; gives
  /// the session's number, 0 with a refusal.
  std::uint64_t start(const std::string& capture, const std::string& pipeline, const std::string& peer,
                      ReplayRefusal& refusal);

 private:
  struct Source;
  void run(Source source);
  void send(const Source& source) const;
  std::uint64_t fail(ReplayRefusal& refusal, unsigned status, std::string text) const;

  const std::string directory_;
  const protocol::Limits limits_;
  const AddSession add_session_;
  mutable std::mutex mutex_;
  std::string running_;  // the capture; empty: none
  int socket_ = -1;      // of the one that runs
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace echotrain::server
