// The commands `echotrain recon` and `echotrain-ranks` reconstruct a file or a stream.
#pragma once

#include <iosfwd>

#include "clients/cpp/recon/recon_options.h"

namespace echotrain::client {

/// Reconstructs a file, or with the input "-" stdin to stdout. Returns the exit code. Throws UsageError when the
/// options do not fit together.
int run_recon(const ReconOptions& o, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
