// The command line of `echotrain` runs one of its commands.
#pragma once

#include <iosfwd>
#include <string>

#include "gadgets/numerics/core/resources.h"

namespace echotrain::config {
class Command;
}

namespace echotrain::client {

/// Runs one command. Returns the exit code: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted by Ctrl-C;
/// `err` says why and what to do. Commands that compute use the machine as `resources` allow.
int run(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
        std::ostream& out, std::ostream& err);

/// Runs a program that is made of commands, and turns what they throw into exit codes and sentences on `err`.
int run_program(config::Command& program, const char* name, int argc, const char* const* argv, std::ostream& out,
                std::ostream& err);

}  // namespace echotrain::client
