// The command convert-config.
#include "clients/cpp/recon/convert_config.h"

#include "clients/cpp/base/overwriting.h"
#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_convert_config(config::Command& program, const CommandContext& tools) {
  config::Command& command = program.add_command(
      "convert-config",
      "make a pipeline file of a Gadgetron configuration (XML), and say what could not be taken over; exit 1 if no "
      "pipeline can be made of it");
  command.examples(
      "Examples:\n"
      "  echotrain convert-config Generic_Cartesian_Grappa.xml\n"
      "  echotrain convert-config Generic_Cartesian_Grappa.xml pipes/grappa.yaml\n"
      "  echotrain-server --check pipes/grappa.yaml && echotrain-server --pipelines pipes");
  command.act([tools, given = command.add(convert_config_options())] {
    const auto o = given.read();
    refuse_overwriting(o.input, o.output);
    return convert_config(o, tools.out, tools.err);
  });
}

}  // namespace echotrain::client
