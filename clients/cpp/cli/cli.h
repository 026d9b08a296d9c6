// The command line of `echotrain`.
#pragma once

#include <iosfwd>
#include <string>

#include "gadgets/numerics/core/resources.h"

namespace echotrain {
class Followers;
}

namespace echotrain::client {

/// Runs one command. Returns the exit code: 0 done, 1 failed, 2 the command line is wrong; `err` says why and what to
/// do. Commands that compute use the machine as `resources` allow.
int run(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
        std::ostream& out, std::ostream& err);

/// The command `recon` as a program of its own, `echotrain-ranks`: rank 0 of several. The other ranks are `followers`
/// (null: none). Returns as run().
int run_ranks(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
              Followers* followers, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
