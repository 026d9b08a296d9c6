#include "clients/cpp/cli/cli.h"

#include <ostream>

#include "clients/cpp/base/interruption.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

int run_program(config::Command& program, const char* name, int argc, const char* const* argv, std::ostream& out,
                std::ostream& err) {
  try {
    return program.run(argc, argv, out, err);
  } catch (const UsageError& error) {
    err << name << ": " << error.what() << '\n';
    return 2;
  } catch (const Interrupted& error) {
    err << name << ": " << error.what() << '\n';
    return error.status();
  } catch (const std::exception& error) {
    err << name << ": " << error.what() << '\n';
    return 1;
  }
}

int run(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
        std::ostream& out, std::ostream& err) {
  config::Command program("echotrain",
                          "Echotrain's command line: make, send, reconstruct and look at MRI scans (ISMRMRD HDF5 "
                          "files).");
  program.version("echotrain " + version);
  program.examples(
      "Examples:\n"
      "  echotrain simulate -o scan.h5 --trajectory golden_radial --frames 4\n"
      "  echotrain recon scan.h5 -c radial_2d -o images.h5 --truth scan.h5\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5        (needs a running echotrain-server)\n"
      "Each command has a --help of its own.");
  try {
    if (argc > 1) refuse_left_out(argv[1]);
  } catch (const UsageError& error) {
    err << "echotrain: " << error.what() << '\n';
    return 2;
  }
  add_commands(program, {out, err, resources});
  return run_program(program, "echotrain", argc, argv, out, err);
}

}  // namespace echotrain::client
