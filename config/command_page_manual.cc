#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "config/command_page.h"

namespace echotrain::config {
namespace {

using Kind = OptionInfo::Kind;

/// `text` so that roff prints it as it is.
std::string plain(const std::string& text) {
  std::string out;
  bool begins = true;  // a line, where a dot or an apostrophe would be a request
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    begins = c == '\n';
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// "-o, --output OUT.h5"; a value that may be left out stands in brackets.
std::string head_of(const ShownOption& info) {
  if (info.positional) return italic(info.name);
  std::string head = info.letter == 0 ? "" : bold(std::string("-") + info.letter) + ", ";
  head += bold(info.flag());
  if (info.kind == Kind::yes_or_no && !info.setting) return head;
  const std::string value =
      info.kind == Kind::choice || info.kind == Kind::path || info.kind == Kind::pair || info.kind == Kind::list
          ? info.allowed()
          : upper(info.kind == Kind::yes_or_no ? "true|false" : info.type());
  return head + (info.alone ? fmt::format(" [{}]", italic(value)) : " " + italic(value));
}

std::string body_of(const ShownOption& info) {
  std::string body = plain(info.help);
  std::vector<std::string> facts;
  if (info.required) facts.emplace_back("required");
  if (!info.low.empty()) facts.push_back(info.allowed() + (info.unit.empty() ? "" : " " + info.unit));
  if (!info.fallback.empty() && (info.kind != Kind::yes_or_no || info.setting))
    facts.push_back("default: " + info.fallback);
  if (info.repeats) facts.emplace_back("may be given again");
  if (!info.variable.empty()) facts.push_back("environment: " + info.variable);
  if (!facts.empty()) body += plain(fmt::format(" ({})", fmt::join(facts, "; ")));
  return body;
}

std::string options_of(const CommandPage& page) {
  std::string text, under;
  for (const ShownOption& info : page.options) {
    if (info.heading != under) {
      under = info.heading;
      if (!under.empty()) text += fmt::format(".PP\n{}\n", bold(under));
    }
    text += fmt::format(".TP\n{}\n{}\n", head_of(info), body_of(info));
  }
  return text;
}

/// Lines as they were typed.
std::string examples_of(const std::string& examples) {
  const std::size_t begin = examples.find('\n');
  if (begin == std::string::npos) return "";
  std::string text = examples.substr(begin + 1);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return fmt::format(".nf\n{}\n.fi\n", plain(text));
}

std::string synopsis_of(const std::string& name, const CommandPage& page) {
  std::string line = bold(name) + " [" + italic("OPTION") + "]...";
  if (!page.commands.empty()) line = bold(name) + " " + italic("COMMAND") + " [" + italic("OPTION") + "]...";
  std::string places;
  for (const ShownOption& info : page.options)
    if (info.positional)
      places += info.required ? " " + italic(info.name) : fmt::format(" [{}]", italic(info.name));
    else if (info.required)
      line += fmt::format(" {} {}", bold(info.flag()), italic(info.allowed()));
  return line + places + "\n";
}

}  // namespace

std::string manual_page(const CommandPage& program) {
  std::string text = fmt::format(".\\\" Written by: {} --man\n", program.name);
  text += fmt::format(".TH {} 1 \"\" \"{}\" \"Echotrain\"\n", upper(plain(program.name)), plain(program.version));
  text += fmt::format(".SH NAME\n{} \\- {}\n", plain(program.name),
                      plain(program.purpose.substr(0, program.purpose.find_last_not_of('.') + 1)));
  text += ".SH SYNOPSIS\n" + synopsis_of(program.name, program);
  if (!program.options.empty()) text += ".SH OPTIONS\n" + options_of(program);
  if (!program.commands.empty()) text += ".SH COMMANDS\n";
  for (const CommandPage& each : program.commands) {
    text += fmt::format(".SS {}\n{}.PP\n{}.\n", plain(each.name), synopsis_of(program.name + " " + each.name, each),
                        plain(each.purpose));
    text += options_of(each);
    const std::string examples = examples_of(each.examples);
    if (!examples.empty()) text += ".PP\n" + examples;
  }
  if (!program.examples.empty()) text += ".SH EXAMPLES\n" + examples_of(program.examples);
  return text;
}

}  // namespace echotrain::config
