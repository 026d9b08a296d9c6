// A program's command line is made of tables of options (config/option.h). Only command_line.cc knows the library that
// parses it.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/command_page.h"
#include "config/option.h"

namespace echotrain::config {

/// A command line that makes no sense; the message says what is allowed.
class CommandLineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The manner in which the options of a table are given.
enum class OptionRepeat {
  once,     ///< an option given twice is an error, and a switch stands alone
  settings  ///< a later value beats an earlier one, and true or false may follow a switch, as in an options file
};

namespace detail {
/// The words that were given for each option of a table; empty: not given.
using Words = std::vector<std::vector<std::string>>;
/// Returns the words of one option as the values that its table takes, in order.
std::vector<Node> values_of(const OptionInfo& info, const std::vector<std::string>& words);
/// Throws the error "--port: 'x' ...; allowed is 1 to 65535".
[[noreturn]] void refuse(const OptionInfo& info, const ConfigError& error);
}  // namespace detail

/// The options of struct `S` that a command line gave. Use it in the command's action: it is empty until then.
template <class S>
class ParsedOptions {
 public:
  ParsedOptions(OptionTable<S> table, std::shared_ptr<const detail::Words> words)
      : table_(std::move(table)), words_(std::move(words)) {}

  /// Returns the defaults, changed by what was given. Throws CommandLineError for a value that does not fit.
  S read() const {
    S values{};
    read_into(values);
    return values;
  }
  /// Does the same, but changes `values`. Lists that were given lose what they had.
  void read_into(S& values) const {
    for (std::size_t i = 0; i < words_->size(); ++i) {
      const Option<S>& option = table_.all()[i];
      const std::vector<Node> given = detail::values_of(option, (*words_)[i]);
      if (option.clear && !given.empty()) option.clear(values);
      try {
        for (const Node& value : given) option.set(values, value);
      } catch (const ConfigError& error) {
        detail::refuse(option, error);
      }
    }
  }
  /// Returns the options that were given.
  std::vector<OptionInfo> options() const {
    std::vector<OptionInfo> given;
    for (std::size_t i = 0; i < words_->size(); ++i)
      if (!(*words_)[i].empty()) given.push_back(table_.all()[i]);
    return given;
  }

 private:
  OptionTable<S> table_;
  std::shared_ptr<const detail::Words> words_;
};

/// A program, or one of its subcommands. Usage:
///   Command program("tool", "what it is for");
///   program.act([given = program.add(options())] { return work(given.read()); });
///   return program.run(argc, argv, std::cout, std::cerr);
class Command {
 public:
  Command(const std::string& name, const std::string& purpose);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// Adds a subcommand, which lives as long as this; one of them must then be given.
  Command& add_command(const std::string& name, const std::string& purpose);

  template <class S>
  ParsedOptions<S> add(OptionTable<S> table, OptionRepeat manner = OptionRepeat::once) {
    auto words = add_options(table.info(), manner);
    return {std::move(table), std::move(words)};
  }

  void version(const std::string& text);   ///< what --version prints
  void examples(const std::string& text);  ///< the end of --help
  /// Returns what was declared, for shells and manuals; a program's run() prints both of them: --completion bash|zsh,
  /// --man.
  CommandPage page() const;
  /// Sets what the command does; the function returns the exit code.
  void act(std::function<int()> action);

  /// Parses, then does what was asked for. Returns the exit code; 2 for a command line that makes no sense, and `err`
  /// says why. Passes on what actions throw, but for CommandLineError.
  int run(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

 private:
  struct Parser;
  explicit Command(std::unique_ptr<Parser> parser);
  void add_pages();
  std::shared_ptr<const detail::Words> add_options(const std::vector<OptionInfo>& options, OptionRepeat manner);

  std::unique_ptr<Parser> parser_;
  std::vector<std::unique_ptr<Command>> commands_;
};

}  // namespace echotrain::config
