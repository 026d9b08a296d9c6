// The command compare.
#include "clients/cpp/images/compare.h"

#include "clients/cpp/commands/commands.h"

namespace echotrain::client {

void add_compare(config::Command& program, const CommandContext& tools) {
  config::Command& command =
      program.add_command("compare", "NRMSE, PSNR and best scale of one file's images against another's");
  command.examples(
      "Examples:\n"
      "  echotrain compare ours.h5 theirs.h5\n"
      "  echotrain compare ours.h5 theirs.h5 --index-a -1 --index-b 0 --scale real --max-nrmse 1e-5");
  command.act([tools, given = command.add(compare_options())] { return compare(given.read(), tools.out); });
}

}  // namespace echotrain::client
