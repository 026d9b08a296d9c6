// A usage error is thrown by a command that cannot go on; cli.cc turns it into a message and an exit code.
#pragma once

#include <stdexcept>

namespace echotrain::client {

/// The command line asks for something that makes no sense. Exit code 2; other exceptions give 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace echotrain::client
