// The command `echotrain recon -` reads a stream and writes a stream, without a server (docs/protocol.md, "Exchange").
#pragma once

#include <cstdio>
#include <iosfwd>

#include "clients/cpp/recon/recon.h"

namespace echotrain::client {

/// Reads [configuration,] header, data and CLOSE from the descriptor `in`; writes header, images as they are finished,
/// and, whatever happens, CLOSE to `out`. `options.config` takes precedence over the stream's own configuration; one of
/// the two is needed. Lines for people go to `err`. Returns 0, or 1 when the stream ended before its CLOSE: incomplete
/// frames are then left out. On a failure, throws after writing the images finished before it.
int recon_stream(const ReconOptions& options, int in, std::FILE* out, std::ostream& err);

}  // namespace echotrain::client
