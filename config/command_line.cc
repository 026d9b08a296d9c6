#include "config/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <ostream>

namespace echotrain::config {
namespace {

constexpr int kUsage = 2;

using Kind = OptionInfo::Kind;

/// A switch that takes no value.
bool stands_alone(const OptionInfo& info, OptionRepeat manner) {
  return info.kind == Kind::yes_or_no && manner == OptionRepeat::once;
}

/// "0.01 to 86400 s REQUIRED".
std::string shape_of(const OptionInfo& info) {
  std::string text = info.allowed();
  if (!info.unit.empty()) text += " " + info.unit;
  return info.required ? text + " REQUIRED" : text;
}

std::string help_of(const OptionInfo& info, OptionRepeat manner) {
  std::string help = info.help;
  if (!info.fallback.empty() && !stands_alone(info, manner)) help += fmt::format(" [{}]", info.fallback);
  if (!info.variable.empty()) help += fmt::format(" ({})", info.variable);
  return help;
}

void declare(CLI::App& app, const OptionInfo& info, OptionRepeat manner, std::vector<std::string>& words) {
  const std::string name = info.letter == 0 ? typed(info) : fmt::format("-{},{}", info.letter, typed(info));
  const CLI::callback_t take = [&words](const std::vector<std::string>& given) {
    words = given;
    return true;
  };
  CLI::Option* option = app.add_option(name, take, help_of(info, manner));
  if (stands_alone(info, manner)) {
    option->expected(0);
  } else {
    option->type_size(info.kind == Kind::pair ? 2 : 1)->expected(info.alone ? 0 : 1, 1)->option_text(shape_of(info));
    option->type_name(info.allowed());
    if (info.alone) option->default_str(*info.alone);
  }
  option->allow_extra_args(info.repeats)->required(info.required);
  const bool last_counts = manner == OptionRepeat::settings || stands_alone(info, manner);
  option->multi_option_policy(info.repeats  ? CLI::MultiOptionPolicy::TakeAll
                              : last_counts ? CLI::MultiOptionPolicy::TakeLast
                                            : CLI::MultiOptionPolicy::Throw);
  if (!info.heading.empty()) option->group(info.heading);
}

OptionInfo switch_option(const std::string& name, const std::string& help) {
  OptionInfo info;
  info.name = name;
  info.help = help;
  info.kind = Kind::yes_or_no;
  info.alone = "true";
  return info;
}

OptionInfo help_option() {
  OptionInfo info = switch_option("help", "Print this help message and exit");
  info.letter = 'h';
  return info;
}

/// The first word that stands where a subcommand should, if none was given; else empty.
std::string unknown_command(const CLI::App& app) {
  const auto parsed = [](const CLI::App* each) { return each->parsed(); };
  if (app.get_subcommands({}).empty() || !app.get_subcommands(parsed).empty()) return "";
  for (const std::string& word : app.remaining(true))
    if (!word.starts_with('-')) return word;
  return "";
}

/// "; did you mean --port?" when an unknown flag is near one that `app` has.
std::string suggestion(const CLI::App& app) {
  std::vector<std::string> names;
  const std::vector<const CLI::App*> commands =
      app.get_subcommands([](const CLI::App* each) { return each->parsed(); });
  for (const CLI::Option* option : (commands.empty() ? &app : commands.front())->get_options())
    names.push_back(option->get_name());
  for (const std::string& word : app.remaining(true)) {
    const std::string near = word.starts_with("--") ? nearest(word.substr(0, word.find('=')), names) : "";
    if (!near.empty()) return fmt::format("; did you mean {}?", near);
  }
  return "";
}

}  // namespace

std::string typed(const OptionInfo& info) { return info.positional ? info.name : info.flag(); }

namespace detail {

std::vector<Node> values_of(const OptionInfo& info, const std::vector<std::string>& words) {
  std::vector<Node> values;
  for (const std::string& word : words) values.push_back(Node::scalar({typed(info), 0, 0}, word, false));
  if (info.kind != Kind::pair) return values;
  std::vector<Node> pairs;
  for (std::size_t i = 0; i < values.size(); i += 2)
    pairs.push_back(Node::sequence({typed(info), 0, 0},
                                   {values.begin() + static_cast<std::ptrdiff_t>(i),
                                    values.begin() + static_cast<std::ptrdiff_t>(std::min(i + 2, values.size()))}));
  return pairs;
}

void refuse(const OptionInfo& info, const ConfigError& error) {
  std::string message = error.what();
  if (message.find(info.allowed()) == std::string::npos) message += "; allowed is " + info.allowed();
  throw CommandLineError(message);
}

}  // namespace detail

/// A node of CLI11's tree, which the root owns.
struct Command::Parser {
  std::unique_ptr<CLI::App> root;  // null for a subcommand
  CLI::App* app = nullptr;
  std::function<int()> action;
  CommandPage page;  // without its commands
};

Command::Command(std::unique_ptr<Parser> parser) : parser_(std::move(parser)) {}

Command::Command(const std::string& name, const std::string& purpose) : parser_(std::make_unique<Parser>()) {
  parser_->root = std::make_unique<CLI::App>(purpose, name);
  parser_->app = parser_->root.get();
  parser_->page = {.name = name, .purpose = purpose};
  add_pages();
}

Command::~Command() = default;

Command& Command::add_command(const std::string& name, const std::string& purpose) {
  auto parser = std::make_unique<Parser>();
  parser->app = parser_->app->add_subcommand(name, purpose);
  parser->page = {.name = name, .purpose = purpose, .options = {{help_option()}}};
  parser_->app->require_subcommand(1);
  return *commands_.emplace_back(new Command(std::move(parser)));
}

std::shared_ptr<const detail::Words> Command::add_options(const std::vector<OptionInfo>& options, OptionRepeat manner) {
  const auto words = std::make_shared<detail::Words>(options.size());
  for (std::size_t i = 0; i < options.size(); ++i) declare(*parser_->app, options[i], manner, (*words)[i]);
  for (const OptionInfo& info : options) parser_->page.options.push_back({info, manner == OptionRepeat::settings});
  return words;
}

void Command::version(const std::string& text) {
  parser_->app->set_version_flag("--version", text);
  parser_->page.version = text;
  parser_->page.options.push_back({switch_option("version", "Display program version information and exit")});
}

void Command::examples(const std::string& text) {
  parser_->app->footer(text);
  parser_->page.examples = text;
}

CommandPage Command::page() const {
  CommandPage page = parser_->page;
  for (const auto& command : commands_) page.commands.push_back(command->page());
  return page;
}

void Command::add_pages() {
  OptionInfo shell;
  shell.name = "completion";
  shell.help = "Print what makes this shell complete the program's words, and exit";
  shell.kind = Kind::choice;
  shell.choices = {"bash", "zsh"};
  const OptionInfo manual = switch_option("man", "Print the manual page, for `man -l -`, and exit");
  parser_->page.options = {{help_option()}, {shell}, {manual}};
  // Thrown before anything that is required is missed, as CLI11's own --version.
  parser_->app
      ->add_option(
          shell.flag(),
          [this](const std::vector<std::string>& given) -> bool {
            if (given.front() != "bash" && given.front() != "zsh")
              throw CLI::ValidationError("--completion", "'" + given.front() + "' is not one of bash, zsh");
            throw CLI::CallForVersion(given.front() == "bash" ? bash_completion(page()) : zsh_completion(page()), 0);
          },
          shell.help)
      ->type_name(shell.allowed())
      ->option_text(shell.allowed());
  parser_->app->add_flag_callback(
      manual.flag(), [this] { throw CLI::CallForVersion(manual_page(page()), 0); }, manual.help);
}

void Command::act(std::function<int()> action) { parser_->action = std::move(action); }

int Command::run(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
  const auto refuse = [&](const std::string& why) {
    err << parser_->app->get_name() << ": " << why << "\nRun with --help for what is possible.\n";
    return kUsage;
  };
  try {
    parser_->app->parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return parser_->app->exit(asked_for_help, out, err);
  } catch (const CLI::ParseError& error) {
    const std::string word = unknown_command(*parser_->app);
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    if (word.empty()) return refuse(error.what() + (extras ? suggestion(*parser_->app) : ""));
    std::vector<std::string> names;
    for (const auto& command : commands_) names.push_back(command->parser_->page.name);
    const std::string near = nearest(word, names);
    return refuse(fmt::format("there is no command '{}'{}", word,
                              near.empty() ? "; there are: " + fmt::format("{}", fmt::join(names, ", "))
                                           : fmt::format("; did you mean '{}'?", near)));
  }
  const Command* asked_for = this;
  for (const auto& command : commands_)
    if (command->parser_->app->parsed()) asked_for = command.get();
  try {
    return asked_for->parser_->action();
  } catch (const CommandLineError& error) {
    return refuse(error.what());
  }
}

}  // namespace echotrain::config
