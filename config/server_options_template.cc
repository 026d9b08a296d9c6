#include <fmt/format.h>

#include "config/server_options.h"

namespace echotrain::config {

namespace {

constexpr const char* kBeginning =
    "# Options of echotrain-server. Every option is shown with what it is for, what it may be and its default; remove\n"
    "# the # before an option (and before the name of its group) to set it. Start the server with --options FILE. "
    "Each\n"
    "# option is also a flag, --max-sessions for max_sessions and --tls-port for port in tls, which beats the file; a\n"
    "# variable of the environment, where one is named, is beaten by both.\n"
    "# Relative files and folders are taken from the folder that this file is in.\n";

}  // namespace

std::string server_options_template() {
  std::string text = kBeginning;
  std::string group;
  for (const OptionInfo& info : server_option_table().all()) {
    const std::size_t dot = info.name.find('.');
    const std::string its_group = dot == std::string::npos ? "" : info.name.substr(0, dot);
    const std::string key = dot == std::string::npos ? info.name : info.name.substr(dot + 1);
    if (its_group != group && !its_group.empty()) text += fmt::format("\n#{}:\n", its_group);
    group = its_group;
    const char* indent = group.empty() ? "" : "  ";
    const std::string value = info.kind == OptionInfo::Kind::list ? "[]"
                              : info.fallback.empty()             ? "\"\""
                                                                  : info.fallback;
    const std::string variable = info.variable.empty() ? "" : "; variable " + info.variable;
    text += fmt::format("\n# {} ({}){}\n#{}{}: {}\n", info.help, info.allowed(), variable, indent, key, value);
  }
  return text;
}

}  // namespace echotrain::config
