// The command scans.
#include "clients/cpp/send/scans.h"

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_scans(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("scans", "tell of detached scans, which a server goes on with alone, or cancel one");
  command.examples(
      "Examples:\n"
      "  echotrain scans -a recon.example\n"
      "  echotrain scans 3f2a9c0d51e84b7790aa61c2f0d3b45e --cancel");
  command.act([tools, given = command.add(scans_options())] { return scans(given.read(), tools.out, tools.err); });
}

}  // namespace echotrain::client
