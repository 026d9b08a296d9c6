#include <fmt/format.h>

#include "config/server_options.h"

namespace echotrain::config {

namespace {

constexpr const char* kBeginning =
    "# Options of echotrain-server. Every option is shown with its purpose, its range and its default; remove\n"
    "# the # before an option (and before the name of its group) to set it. Start the server with --options FILE. "
    "Each\n"
    "# option is also a flag, --max-sessions for max_sessions and --tls-port for port in tls, which overrides the\n"
    "# file; both override an option's environment variable, where one is named.\n"
    "# Relative names of files and folders start at the folder of this file.\n";

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
