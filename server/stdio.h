// The server can run one session over standard input and output, for programs that exchange the stream through pipes
// (docs/protocol.md, "Exchange").
#pragma once

#include "server/session/environment.h"

namespace echotrain::server {

/// Reads one measurement from descriptor `in`, writes the answer to `out`, and returns when CLOSE has been written and
/// nothing is left to do. True when the scan was complete. Both may be pipes, files or terminals; they stay open. It is
/// called once in a process.
bool serve_descriptors(const Environment& environment, int in, int out);

}  // namespace echotrain::server
