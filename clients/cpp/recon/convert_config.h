// The command `echotrain convert-config` makes a pipeline file of a Gadgetron configuration.
#pragma once

#include <filesystem>
#include <iosfwd>

#include "config/option.h"

namespace echotrain::client {

struct ConvertConfigOptions {
  std::filesystem::path input;
  std::filesystem::path output = "-";  ///< "-": stdout
};

config::OptionTable<ConvertConfigOptions> convert_config_options();

/// Writes the pipeline to the output, and what was not taken over to `err`. Returns 1 where no pipeline can be made, or
/// where it does not pass the checks of echotrain-server --check (then it is written all the same), otherwise 0.
int convert_config(const ConvertConfigOptions& options, std::ostream& out, std::ostream& err);

}  // namespace echotrain::client
