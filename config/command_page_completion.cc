#include <fmt/format.h>

#include "config/command_page.h"

namespace echotrain::config {
namespace {

using Kind = OptionInfo::Kind;

/// The kinds of values, by what completes them.
enum class Value { none, words, pipeline, gadget, file, folder, other };

Value value_of(const ShownOption& info) {
  switch (info.kind) {
    case Kind::yes_or_no:
      return info.setting || info.positional ? Value::words : Value::none;
    case Kind::choice:
      return Value::words;
    case Kind::path:
      if (info.noun == "NAME|FILE.yaml") return Value::pipeline;
      if (info.noun == "GADGET") return Value::gadget;
      return info.noun == "DIR" || info.noun == "FOLDER" ? Value::folder : Value::file;
    case Kind::list:
      if (info.noun == "PIPELINE") return Value::pipeline;
      if (info.noun == "folder") return Value::folder;
      return info.noun == "capture" ? Value::file : Value::other;
    case Kind::pair:
      if (info.noun.starts_with("GADGET ")) return Value::gadget;
      return Value::other;
    default:
      return Value::other;
  }
}

std::vector<std::string> words_of(const OptionInfo& info) {
  return info.kind == Kind::yes_or_no ? std::vector<std::string>{"true", "false"} : info.choices;
}

/// "-o", "--output"; empty for what has its place.
std::vector<std::string> flags_of(const OptionInfo& info) {
  if (info.positional) return {};
  std::vector<std::string> flags{info.flag()};
  if (info.letter != 0) flags.insert(flags.begin(), std::string("-") + info.letter);
  return flags;
}

/// A name for functions of a shell.
std::string identifier(const std::string& name) {
  std::string text = name;
  for (char& c : text)
    if (c == '-') c = '_';
  return text;
}

/// Single quotes around `text`, for both shells.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// --- bash
// ---------------------------------------------------------------------------------------------------------------

/// Returns what completes a value, in terms of the script's helpers. Empty: bash does by itself (names of files).
std::string bash_action(const ShownOption& info) {
  switch (value_of(info)) {
    case Value::words:
      return fmt::format("words {}", quoted(fmt::format("{}", fmt::join(words_of(info), " "))));
    case Value::pipeline:
      return "named --list-pipelines";
    case Value::gadget:
      return "named --list-gadgets";
    case Value::folder:
      return "folders";
    case Value::other:
      return "nothing";
    default:
      return "files";
  }
}

/// Cases of `$command:$before`, the flag that the word comes after.
std::string bash_values(const CommandPage& page, const std::string& command, const std::string& prefix) {
  std::string cases;
  for (const ShownOption& info : page.options) {
    // A switch takes no value, and where a value is optional another flag may come.
    if (info.positional || value_of(info) == Value::none) continue;
    std::vector<std::string> patterns;
    for (const std::string& flag : flags_of(info)) patterns.push_back(fmt::format("{}:{}", command, flag));
    const std::string unless = info.alone ? "[[ $now == -* ]] || " : "";
    cases += fmt::format("    {}) {}{{ {}_{}; return; }} ;;\n", fmt::join(patterns, " | "), unless, prefix,
                         bash_action(info));
  }
  return cases;
}

/// Cases of `$command`: its flags, and what stands without one.
std::string bash_command(const CommandPage& page, const std::string& command, const std::string& prefix) {
  std::vector<std::string> flags;
  std::string place = prefix + "_nothing";
  for (const ShownOption& info : page.options) {
    for (const std::string& flag : flags_of(info)) flags.push_back(flag);
    if (info.positional) place = prefix + "_" + bash_action(info);
  }
  if (!page.commands.empty()) {
    std::vector<std::string> names;
    for (const CommandPage& each : page.commands) names.push_back(each.name);
    place = fmt::format("{}_words {}", prefix, quoted(fmt::format("{}", fmt::join(names, " "))));
  }
  return fmt::format("    {})\n      if [[ $now == -* ]]; then {}_words {}; else {}; fi ;;\n", quoted(command), prefix,
                     quoted(fmt::format("{}", fmt::join(flags, " "))), place);
}

// --- zsh
// ----------------------------------------------------------------------------------------------------------------

/// `text` where _arguments reads a colon and brackets.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// ":what it is:what completes it".
std::string zsh_value(const ShownOption& info, const std::string& prefix) {
  const std::string what = escaped(info.positional ? info.name : info.allowed());
  switch (value_of(info)) {
    case Value::none:
      return "";
    case Value::words: {
      std::vector<std::string> words;
      for (const std::string& word : words_of(info)) words.push_back(escaped(word));
      return fmt::format(":{}:({})", what, fmt::join(words, " "));
    }
    case Value::pipeline:
      return fmt::format(":{}: {}_named --list-pipelines", what, prefix);
    case Value::gadget:
      return fmt::format(":{}: {}_named --list-gadgets", what, prefix);
    case Value::folder:
      return fmt::format(":{}:_files -/", what);
    case Value::file:
      return fmt::format(":{}:_files", what);
    default:
      return fmt::format(":{}: ", what);
  }
}

std::string zsh_arguments(const CommandPage& page, const std::string& prefix) {
  std::string lines;
  for (const ShownOption& info : page.options) {
    std::string value = zsh_value(info, prefix);
    if (info.positional) {
      lines += fmt::format(" \\\n    {}", quoted((info.repeats ? "*" : "") + value));
      continue;
    }
    if (info.alone && !value.empty()) value.insert(0, ":");  // optional
    if (info.kind == Kind::pair) value += fmt::format(":{}:_files", escaped(info.noun));
    const std::vector<std::string> flags = flags_of(info);
    for (const std::string& flag : flags) {
      const std::string unless = info.repeats || info.setting ? "*" : fmt::format("({})", fmt::join(flags, " "));
      lines += fmt::format(" \\\n    {}", quoted(fmt::format("{}{}[{}]{}", unless, flag, escaped(info.help), value)));
    }
  }
  return lines;
}

}  // namespace

std::string bash_completion(const CommandPage& program) {
  const std::string prefix = "_" + identifier(program.name);
  std::vector<std::string> names;
  for (const CommandPage& each : program.commands) names.push_back(each.name);
  std::string text = fmt::format("# Completion of {0} in bash, written by: {0} --completion bash\n\n", program.name);
  text += prefix + R"(_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$now"); }
)" + prefix +
          R"(_nothing() { compopt +o default 2>/dev/null; }
)" + prefix +
          R"(_files() { :; } # bash completes them by itself
)" + prefix +
          R"(_folders() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -d -- "$now")
}
# Names that the server knows: the first word of each line; and files.
)" + prefix +
          R"bash(_named() {
  local server=echotrain-server
  [[ $program != */* ]] || server=${program%/*}/$server
  local name
  while read -r name _; do
    # Not by compgen -W, which would run what a line of a description may say: $(...).
    if [[ $name == "$now"* && $name =~ ^[a-z][a-z0-9_]*$ ]]; then COMPREPLY+=("$name"); fi
  done < <("$server" "$1" 2>/dev/null)
}

)bash";
  text += prefix + "() {\n";
  text +=
      R"(  local program=${COMP_WORDS[0]} now=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' i
  COMPREPLY=()
  # --flag=value comes as three words.
  if [[ $now == '=' ]]; then
    now=''
  elif [[ $before == '=' ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
)";
  if (!names.empty())
    text += fmt::format(R"(  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      {})
        command=${{COMP_WORDS[i]}}
        break
        ;;
    esac
  done
)",
                        fmt::join(names, " | "));
  text += "  case $command:$before in\n" + bash_values(program, "", prefix);
  for (const CommandPage& each : program.commands) text += bash_values(each, each.name, prefix);
  text += "  esac\n  case $command in\n" + bash_command(program, "", prefix);
  for (const CommandPage& each : program.commands) text += bash_command(each, each.name, prefix);
  text += fmt::format("  esac\n}}\ncomplete -o bashdefault -o default -F {} {}\n", prefix, program.name);
  return text;
}

std::string zsh_completion(const CommandPage& program) {
  const std::string prefix = "_" + identifier(program.name);
  std::string text =
      fmt::format("#compdef {0}\n# Completion of {0} in zsh, written by: {0} --completion zsh\n\n", program.name);
  text += fmt::format(R"zsh(# Names that the server knows, the first word of each line; and files.
{}_named() {{
  local server=echotrain-server
  [[ $_echotrain_program != */* ]] || server=${{_echotrain_program%/*}}/$server
  local -a names
  names=(${{${{(f)"$($server $1 2>/dev/null)"}}%% *}})
  _alternative 'names:name:compadd -a names' 'files:file:_files'
}}

)zsh",
                      prefix);
  text += fmt::format("{}() {{\n  local _echotrain_program=$words[1]\n", prefix);
  if (program.commands.empty()) {
    text += "  _arguments -s" + zsh_arguments(program, prefix) + "\n}\n\n";
  } else {
    text += "  local state line curcontext=$curcontext\n  _arguments -C" + zsh_arguments(program, prefix) +
            " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n  case $state in\n    command)\n" +
            "      local -a commands\n      commands=(\n";
    for (const CommandPage& each : program.commands)
      text += fmt::format("        {}\n", quoted(each.name + ":" + escaped(each.purpose)));
    text += "      )\n      _describe command commands\n      ;;\n    argument)\n      case $words[1] in\n";
    for (const CommandPage& each : program.commands)
      text += fmt::format("        {})\n  _arguments -s{}\n          ;;\n", each.name, zsh_arguments(each, prefix));
    text += "      esac\n      ;;\n  esac\n}\n\n";
  }
  // As a file of fpath it is the function's body; read with `source`, it says what it completes.
  text += fmt::format("if [ \"$funcstack[1]\" = _{1} ]; then\n  {0} \"$@\"\nelse\n  compdef {0} {1}\nfi\n", prefix,
                      program.name);
  return text;
}

}  // namespace echotrain::config
