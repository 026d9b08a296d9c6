// The command send.
#include "clients/cpp/send/send.h"

#include "clients/cpp/base/overwriting.h"
#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_send(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("send", "stream a file to a server and write the images that come back");
  command.examples(
      "Examples:\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5\n"
      "  echotrain send scan.h5 -c radial_2d -a recon.example -p 9003 --tls --ca ca.pem -o images.h5\n"
      "  echotrain send scan.h5 -c my_pipeline.yaml -a scanner -p 9002 -o images.h5 --rate 200 --progress\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5 --truth scan.h5 --png pictures --summary summary.txt\n"
      "  echotrain send scan.h5 -c radial_realtime -o images.h5 --rate 333 --latency\n"
      "  echotrain send scan.h5 -c nlinv_realtime -a recon.example -o images.h5 --detach");
  command.act([tools, given = command.add(send_options())] {
    const auto o = given.read();
    refuse_overwriting(o.input, o.output);
    refuse_other_format(o.output);
    return send(o, tools.out, tools.err);
  });
}

}  // namespace echotrain::client
