// The command convert.
#include "clients/cpp/scans/convert.h"

#include "clients/cpp/base/overwriting.h"
#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_convert(config::Command& program, const CommandContext& tools) {
  config::Command& command = program.add_command(
      "convert",
      "make an ISMRMRD HDF5 file, a stream of messages or an MRD 2 stream of another of these or of raw data");
  command.examples(
      "Examples:\n"
      "  echotrain convert 20260131T120000Z-s17-8c1f03d2.mrd scan.h5\n"
      "  echotrain convert scan.h5 scan.mrd -c radial_2d\n"
      "  echotrain convert scan.mrd2 scan.h5\n"
      "  echotrain convert meas.dat scan.h5\n"
      "  echotrain convert raw.h5 scan.h5 --seq radial.seq\n"
      "  echotrain convert images.h5 images.mrd2 --to mrd2\n"
      "  echotrain convert scan.h5 - | echotrain recon - -c radial_2d | echotrain convert - images.h5");
  command.act([tools, given = command.add(convert_options())] {
    const auto o = given.read();
    refuse_overwriting(o.input, o.output);
    return convert(o, tools.out, tools.err);
  });
}

}  // namespace echotrain::client
