// The command health.
#include "clients/cpp/send/health.h"

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_health(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("health", "ask a server's admin port whether it takes scans; exit 0 if it does");
  command.examples(
      "Examples:\n"
      "  echotrain health\n"
      "  echotrain health --wait 30\n"
      "  echotrain health -a recon.example --path /sessions");
  command.act([tools, given = command.add(health_options())] { return health(given.read(), tools.out); });
}

}  // namespace echotrain::client
