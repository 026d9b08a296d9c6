// `echotrain recon` and `echotrain-ranks`: which of the two ways a reconstruction goes.
#pragma once

#include <iosfwd>

#include "clients/cpp/recon/recon_options.h"

namespace echotrain::client {

/// Reconstructs a file, or with the input "-" stdin to stdout. Returns the exit code. UsageError when the options do
/// not fit together.
int run_recon(const ReconOptions& o, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
