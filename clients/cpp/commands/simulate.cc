// The command simulate.
#include "clients/cpp/simulate/simulate.h"

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_simulate(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("simulate", "make a scan of a phantom: analytic k-space, or echoes of plane waves");
  command.examples(
      "Examples:\n"
      "  echotrain simulate -o scan.h5 --trajectory golden_radial --readouts 55 --frames 16 --noise 1\n"
      "  echotrain simulate -o scan.h5 --trajectory cartesian --matrix 192 --oversampling 2 --noise 1 --noise-scan\n"
      "  echotrain simulate -o scan.h5 --trajectory spiral --phantom blob --coils 1 --readouts 16\n"
      "  echotrain simulate -o scan.h5 --trajectory cartesian --motion cardiac --matrix 256 --readouts 192 --phases 13 "
      "--heart-rate 500 --tr-ms 7.9\n"
      "  echotrain simulate -o scan.h5 --trajectory kooshball --phantom ellipsoids_3d --contrasts 3 --coils 1 "
      "--readouts 1078 --samples 264\n"
      "  echotrain simulate -o scan.h5 --modality ultrasound --phantom speckle --matrix 512 --angles 11");
  command.act([tools, given = command.add(simulate_options())] {
    SimulateOptions o = read_simulate_options(given);
    Progress progress(o.wanted(tools.err), 0, tools.err);
    o.shown = &progress;
    simulate(o, tools.out);
    return 0;
  });
}

}  // namespace echotrain::client
