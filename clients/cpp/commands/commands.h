// Each command of `echotrain` has one function, in a source of the command's name.
#pragma once

#include <iosfwd>
#include <string_view>

#include "config/command_line.h"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::client {

/// The tools that commands get from the program. The streams outlive them.
struct CommandContext {
  std::ostream& out;
  std::ostream& err;
  numerics::ResourceOptions resources;
};

void add_compare(config::Command& program, const CommandContext& tools);
void add_convert(config::Command& program, const CommandContext& tools);
void add_convert_config(config::Command& program, const CommandContext& tools);
void add_export(config::Command& program, const CommandContext& tools);
void add_fetch(config::Command& program, const CommandContext& tools);
void add_health(config::Command& program, const CommandContext& tools);
void add_info(config::Command& program, const CommandContext& tools);
void add_noise(config::Command& program, const CommandContext& tools);
void add_recon(config::Command& program, const CommandContext& tools);
void add_replay(config::Command& program, const CommandContext& tools);
void add_scans(config::Command& program, const CommandContext& tools);
void add_send(config::Command& program, const CommandContext& tools);
void add_simulate(config::Command& program, const CommandContext& tools);
void add_token(config::Command& program, const CommandContext& tools);
void add_verify(config::Command& program, const CommandContext& tools);
void add_watch(config::Command& program, const CommandContext& tools);

/// Adds all commands that this build has.
void add_commands(config::Command& program, const CommandContext& tools);

/// Throws UsageError for a command that this build leaves out.
void refuse_left_out(std::string_view command);

}  // namespace echotrain::client
