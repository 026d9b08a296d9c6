#include "clients/cpp/cli/recon_ranks.h"

#include "clients/cpp/cli/cli.h"
#include "clients/cpp/recon/run_recon.h"
#include "config/command_line.h"

namespace echotrain::client {

int run_ranks(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
              Followers* followers, std::ostream& out, std::ostream& err) {
  config::Command program(
      "echotrain-ranks",
      "Reconstructs a file, or a stream on stdin, like `echotrain recon`, by the processes that MPI has started, on "
      "one machine or many. fhd with method: exact and pcg share out their work. Only the first process (rank 0) reads "
      "and writes files.");
  program.version("echotrain-ranks " + version);
  program.examples(
      "Examples:\n"
      "  mpirun -n 4 echotrain-ranks scan.h5 -c fhd_pcg_3d -o images.h5\n"
      "  mpirun --host node1,node2 --map-by ppr:1:node --bind-to none echotrain-ranks scan.h5 -c my_pipeline.yaml -o "
      "images.h5\n"
      "  mpirun -n 2 echotrain-ranks scan.h5 -c fhd_pcg_3d -o images.h5 --backend cuda        (a GPU for each)\n"
      "  echotrain convert scan.h5 - | mpirun -n 2 echotrain-ranks - -c fhd_pcg_3d > images.mrd");
  program.act([&, given = program.add(recon_options())] {
    ReconOptions o = given.read();
    o.followers = followers;
    o.resources = resources;
    return run_recon(o, out, err);
  });
  return run_program(program, "echotrain-ranks", argc, argv, out, err);
}

}  // namespace echotrain::client
