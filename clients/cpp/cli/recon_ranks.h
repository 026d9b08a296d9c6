// The command line of `echotrain-ranks` runs `recon` on several ranks.
#pragma once

#include <iosfwd>
#include <string>

#include "gadgets/numerics/core/resources.h"

namespace echotrain {
class Followers;
}

namespace echotrain::client {

/// Runs the command `recon` as a program of its own, `echotrain-ranks`, in which this process is rank 0. The other
/// ranks are `followers` (null: none). Returns as run().
int run_ranks(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
              Followers* followers, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
