// The command line of `echotrain-ranks`.
#pragma once

#include <iosfwd>
#include <string>

#include "gadgets/numerics/core/resources.h"

namespace echotrain {
class Followers;
}

namespace echotrain::client {

/// The command `recon` as a program of its own, `echotrain-ranks`: rank 0 of several. The other ranks are `followers`
/// (null: none). Returns as run().
int run_ranks(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
              Followers* followers, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
