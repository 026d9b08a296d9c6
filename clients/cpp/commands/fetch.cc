// The command fetch.
#include "clients/cpp/base/overwriting.h"
#include "clients/cpp/commands/commands.h"
#include "clients/cpp/send/scans.h"

namespace echotrain::client {

void add_fetch(config::Command& program, const CommandContext& tools) {
  config::Command& command = program.add_command("fetch", "get the images of a detached scan, those to come included");
  command.examples(
      "Examples:\n"
      "  echotrain send scan.h5 -c nlinv_realtime -a recon.example --detach --no-wait\n"
      "  echotrain fetch 3f2a9c0d51e84b7790aa61c2f0d3b45e -a recon.example -o images.h5");
  command.act([tools, given = command.add(fetch_options())] {
    const auto o = given.read();
    refuse_other_format(o.output);
    return fetch(o, tools.out, tools.err);
  });
}

}  // namespace echotrain::client
