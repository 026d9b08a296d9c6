#include "clients/cpp/commands/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/commands/commands_built.h"

namespace echotrain::client {

void add_commands(config::Command& program, const CommandContext& tools) {
#define ECHOTRAIN_ADD(command) add_##command(program, tools);
  ECHOTRAIN_COMMANDS_BUILT(ECHOTRAIN_ADD)
#undef ECHOTRAIN_ADD
}

void refuse_left_out(std::string_view command) {
  std::string source(command);
  std::replace(source.begin(), source.end(), '-', '_');
#define ECHOTRAIN_REFUSE(name)    \
  if (source == #name)            \
    throw UsageError(fmt::format( \
        "this build has no command {}; ./run build makes one that has all (the demo's has few)", command));
  ECHOTRAIN_COMMANDS_LEFT_OUT(ECHOTRAIN_REFUSE)
#undef ECHOTRAIN_REFUSE
}

}  // namespace echotrain::client
