// A table of options (config/option.h) as flags of a command.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "config/option.h"

namespace echotrain::client {

/// One option as a flag with its range, default and help. `set` gets its text; a ConfigError becomes an error of the
/// command line.
CLI::Option* add_declared(CLI::App& app, const config::OptionInfo& option,
                          std::function<void(const config::Node&)> set);

/// Adds all options of `table`, in the group `group` of --help. `values` gets what is given and must outlive `app`.
template <class O>
void add_declared(CLI::App& app, const config::OptionTable<O>& table, O& values, const std::string& group = "Options") {
  for (const config::Option<O>& option : table.all())
    add_declared(app, option, [&values, set = option.set](const config::Node& node) {
      set(values, node);
    })->group(group);
}

}  // namespace echotrain::client
