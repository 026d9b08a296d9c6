// The command info.
#include "clients/cpp/scans/info.h"

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_info(config::Command& program, const CommandContext& tools) {
  config::Command& command = program.add_command("info", "say what a file holds");
  command.examples("Example:\n  echotrain info scan.h5\n  echotrain info meas.dat");
  command.act([tools, given = command.add(info_options())] {
    info(given.read(), tools.out);
    return 0;
  });
}

}  // namespace echotrain::client
