// The command watch.
#include "clients/cpp/send/watch.h"

#include <unistd.h>

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_watch(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("watch", "show a server's scans, delays and newest image in the terminal, until Ctrl-C");
  command.examples(
      "Examples:\n"
      "  echotrain watch\n"
      "  echotrain watch recon.example --token-file token --once");
  command.act([tools, given = command.add(watch_options())] {
    return watch(given.read(), tools.out, ::isatty(STDOUT_FILENO) != 0);
  });
}

}  // namespace echotrain::client
