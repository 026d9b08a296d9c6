// The command noise.
#include "clients/cpp/scans/noise.h"

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_noise(config::Command& program, const CommandContext& tools) {
  config::Command& command = program.add_command(
      "noise", "noise of each coil, and coils whose noise is correlated: of a file, or as a server keeps it");
  command.examples(
      "Examples:\n"
      "  echotrain noise scan.h5\n"
      "  echotrain noise --server recon.example:9002 --id 66056_107201_107210_424");
  command.act([tools, given = command.add(noise_options())] {
    noise(given.read(), tools.out);
    return 0;
  });
}

}  // namespace echotrain::client
