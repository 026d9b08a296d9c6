// A command page is a program's command line as data: completion for shells and a manual page are made of it.
#pragma once

#include <string>
#include <vector>

#include "config/option.h"

namespace echotrain::config {

/// An option as it may be given on the command line.
struct ShownOption : OptionInfo {
  bool setting = false;  ///< may be given again, and true or false may follow a switch (OptionRepeat::settings)
};

/// A program, or one of its subcommands, as it was declared.
struct CommandPage {
  std::string name, purpose;
  std::string version;   ///< "tool 1.2"; of programs only
  std::string examples;  ///< as --help ends
  std::vector<ShownOption> options;
  std::vector<CommandPage> commands;
};

/// Returns a script that completes words of the program in bash: commands, flags, choices, files, folders, and the
/// names of pipelines and gadgets, for which it asks the echotrain-server beside the program (or on the PATH).
std::string bash_completion(const CommandPage& program);

/// Returns the same for zsh, to be named _PROGRAM in a folder of `fpath`.
std::string zsh_completion(const CommandPage& program);

/// Returns the manual page, section 1, in the language of man(7).
std::string manual_page(const CommandPage& program);

/// Returns the option as people type it: "--port", or "input" where it has no flag.
std::string typed(const OptionInfo& info);

}  // namespace echotrain::config
