// The command `echotrain verify` checks raw captures against the checksums that the server has written.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "config/option.h"

namespace echotrain::client {

struct VerifyOptions {
  std::vector<std::string> files;
  bool json = false;
};

config::OptionTable<VerifyOptions> verify_options();

/// Checks each file by the checksums beside it; prints the result on `out`, one line for each file, and advice on
/// `err`. Returns 0 when all are right, 1 when one is damaged or was not finished, otherwise 2: one cannot be checked.
int verify(const VerifyOptions& options, std::ostream& out, std::ostream& err);

/// Warns on `err`, for commands that read a stream file, when its checksums say that it has changed.
void warn_of_damage(const std::filesystem::path& file, std::ostream& err);

}  // namespace echotrain::client
