// The command verify.
#include "clients/cpp/scans/verify.h"

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_verify(config::Command& program, const CommandContext& tools) {
  config::Command& command = program.add_command(
      "verify",
      "check raw captures by their checksums; exit 0 if all are right, 1 if one is damaged or was not finished, 2 if "
      "one cannot be checked");
  command.examples(
      "Examples:\n"
      "  echotrain verify 20260131T120000Z-s17-8c1f03d2.mrd\n"
      "  echotrain verify /srv/captures/*.mrd");
  command.act([tools, given = command.add(verify_options())] { return verify(given.read(), tools.out, tools.err); });
}

}  // namespace echotrain::client
