// The command line of `echotrain`.
#pragma once

#include <iosfwd>
#include <string>

namespace echotrain {
class Followers;
}

namespace echotrain::client {

/// Runs one command. Returns the exit code: 0 done, 1 failed, 2 the command line is wrong; `err` says why and what to
/// do.
int run(int argc, const char* const* argv, const std::string& version, std::ostream& out, std::ostream& err);

/// The command `recon` as a program of its own, `echotrain-ranks`: rank 0 of several, the others being `followers`;
/// null: alone. Returns as run().
int run_ranks(int argc, const char* const* argv, const std::string& version, Followers* followers, std::ostream& out,
              std::ostream& err);

}  // namespace echotrain::client
