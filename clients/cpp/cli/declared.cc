#include "clients/cpp/cli/declared.h"

#include <utility>

namespace echotrain::client {

CLI::Option* add_declared(CLI::App& app, const config::OptionInfo& info, std::function<void(const config::Node&)> set) {
  using Kind = config::OptionInfo::Kind;
  const auto give = [set = std::move(set), flag = info.flag()](const std::string& text) {
    try {
      set(config::Node::scalar({flag, 0, 0}, text, false));
    } catch (const config::ConfigError& error) {
      throw CLI::ValidationError(error.what());
    }
  };
  if (info.kind == Kind::yes_or_no)
    return app.add_flag_callback(
        info.flag(), [give] { give("true"); }, info.help);
  CLI::Option* option = app.add_option_function<std::string>(info.flag(), give, info.help);
  option->default_str(info.fallback);
  if (info.kind == Kind::integer)
    option->type_name("INT")->check(CLI::Range(std::stoll(info.low), std::stoll(info.high)));
  if (info.kind == Kind::number)
    option->type_name("FLOAT")->check(CLI::Range(std::stod(info.low), std::stod(info.high)));
  if (info.kind == Kind::path) option->type_name(info.noun);
  return option;
}

}  // namespace echotrain::client
