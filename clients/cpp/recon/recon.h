// The command `echotrain recon` runs a pipeline in this process, without a server.
#pragma once

#include <iosfwd>

#include "clients/cpp/recon/recon_options.h"

namespace echotrain::client {

/// Reconstructs the scan and writes its images. The pipeline's lines go to `err`, the summary to `out`. On a failure,
/// keeps the images finished before it and throws.
void recon(const ReconOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
