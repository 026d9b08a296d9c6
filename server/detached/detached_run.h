// A detached run is one session that reconstructs what the journal of a detached scan has.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/detached/detached_scan.h"

namespace echotrain::server {

/// The way in which a session ended.
struct RunOutcome {
  enum class Kind {
    complete,    ///< CLOSE went in and came out
    incomplete,  ///< the input ended before CLOSE
    failed,      ///< by what will fail again
    again,       ///< by what may pass: no place, no memory, the server's end, no room for results
    cancelled,
    stopped  ///< the server stops
  };
  Kind kind = Kind::again;
  bool patient = false;  ///< of `again`: it may be tried as often as need be
  std::string why;
  std::vector<std::byte> last_text;  ///< the message of the error, for the client
};

/// Opens a session of this server over a socket pair, gives it the journal as it grows, and appends its images and
/// texts to the results; those that are there from an earlier run are left out. Returns when the session has ended. For
/// the scan's thread.
RunOutcome run_detached(DetachedScan& scan);

}  // namespace echotrain::server
