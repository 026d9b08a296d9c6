// The command recon.
#include <cstdlib>
#include <string>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/commands/commands.h"
#include "clients/cpp/recon/run_recon.h"

namespace echotrain::client {

namespace {

// Under mpirun every process would write the same output.
void refuse_to_be_one_of_several() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (size != nullptr && std::string(size) != "1")
    throw UsageError(std::string("mpirun has started ") + size +
                     " of these, and each would do all of the work; start echotrain-ranks, whose ranks share it out "
                     "(docs/deploy.md)");
}

}  // namespace

void add_recon(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("recon", "reconstruct a file, or a stream on stdin, in this process, without a server");
  command.examples(
      "Examples:\n"
      "  echotrain recon scan.h5 -c spiral_2d -o images.h5\n"
      "  echotrain recon scan.h5 -c my_pipeline.yaml -o images.h5 --backend cuda --save-after gridding grid.h5\n"
      "  echotrain recon scan.h5 -c radial_2d -o images.h5 --truth scan.h5 --png pictures\n"
      "  echotrain convert scan.h5 - | echotrain recon - -c radial_2d > images.mrd");
  command.act([tools, given = command.add(recon_options())] {
    ReconOptions o = given.read();
    o.resources = tools.resources;
    refuse_to_be_one_of_several();
    return run_recon(o, tools.out, tools.err);
  });
}

}  // namespace echotrain::client
