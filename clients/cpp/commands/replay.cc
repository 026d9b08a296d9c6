// The command replay.
#include "clients/cpp/send/replay.h"

#include "clients/cpp/base/overwriting.h"
#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_replay(config::Command& program, const CommandContext& tools) {
  config::Command& command = program.add_command("replay", "send a raw capture to a server again");
  command.examples(
      "Examples:\n"
      "  echotrain replay 20260131T120000Z-s17-8c1f03d2.mrd -o images.h5\n"
      "  echotrain replay 20260131T120000Z-s17-8c1f03d2.mrd -c my_pipeline.yaml -o images.h5 --rate 200");
  command.act([tools, given = command.add(replay_options())] {
    const auto o = given.read();
    refuse_overwriting(o.input, o.output);
    refuse_other_format(o.output);
    return replay(o, tools.out, tools.err);
  });
}

}  // namespace echotrain::client
