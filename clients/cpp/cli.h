// The command line of `echotrain`.
#pragma once

#include <iosfwd>
#include <string>

namespace echotrain::client {

/// Runs one command. Returns the exit code: 0 done, 1 failed, 2 the command line is wrong; `err` says why and what to
/// do.
int run(int argc, const char* const* argv, const std::string& version, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
