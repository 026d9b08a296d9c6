#include "config/command_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/command_line.h"

namespace echotrain::config {
namespace {

using testing::HasSubstr;
using testing::Not;

struct PageOptions {
  std::string input, color = "red", folder;
  bool loud = false;
};

OptionTable<PageOptions> page_table() {
  using O = PageOptions;
  return OptionTable<O>()
      .path("input", &O::input, "IN.h5", "what to read")
      .positional()
      .required()
      .choice("color", &O::color, {"red", "blue"}, "it's [a] colour: 50\\50")
      .letter('c')
      .path("png_folder", &O::folder, "DIR", ".dot at the beginning")
      .flag("loud", &O::loud, "make noise");
}

CommandPage tool_page() {
  Command program("my-tool", "does things.");
  program.version("my-tool 1.2");
  Command& first = program.add_command("first", "does one thing");
  first.examples("Examples:\n  my-tool first a.h5\n");
  first.act([given = first.add(page_table())] { return 0; });
  return program.page();
}

TEST(CommandPage, HasWhatWasDeclared) {
  const CommandPage page = tool_page();
  EXPECT_EQ(page.name, "my-tool");
  ASSERT_EQ(page.commands.size(), 1u);
  EXPECT_EQ(page.commands[0].options.size(), 5u) << "its four, and --help";
  EXPECT_EQ(page.options.size(), 4u) << "--help, --completion, --man, --version";
}

TEST(CommandPage, BashKnowsCommandsFlagsAndValues) {
  const std::string script = bash_completion(tool_page());
  for (const std::string part :
       {"_my_tool_words 'first'", "first:-c | first:--color) { _my_tool_words 'red blue'; return; } ;;",
        "first:--png-folder) { _my_tool_folders; return; } ;;", "'-h --help -c --color --png-folder --loud'",
        "complete -o bashdefault -o default -F _my_tool my-tool\n"})
    EXPECT_THAT(script, HasSubstr(part));
  EXPECT_THAT(script, Not(HasSubstr("first:--loud)"))) << "a switch takes no value";
}

TEST(CommandPage, ZshKnowsTheSameWithHelp) {
  const std::string script = zsh_completion(tool_page());
  for (const std::string part : {"#compdef my-tool\n", "'first:does one thing'",
                                 R"('(-c --color)-c[it'\''s \[a\] colour\: 50\\50]:red, blue:(red blue)')",
                                 "'(--png-folder)--png-folder[.dot at the beginning]:DIR:_files -/'",
                                 "'(--loud)--loud[make noise]'", "':input:_files'"})
    EXPECT_THAT(script, HasSubstr(part));
}

TEST(CommandPage, TheManualEscapesWhatRoffWouldRead) {
  const std::string page = manual_page(tool_page());
  for (const std::string part :
       {".TH MY\\-TOOL 1 \"\" \"my\\-tool 1.2\" \"Echotrain\"\n", "my\\-tool \\- does things\n", ".SS first\n",
        "\\fB\\-c\\fR, \\fB\\-\\-color\\fR \\fIred, blue\\fR\nit\\(aqs [a] colour: 50\\e50 (default: red)\n",
        "\\fB\\-\\-png\\-folder\\fR \\fIDIR\\fR\n\\&.dot at the beginning\n", "\\fB\\-\\-loud\\fR\nmake noise\n",
        "\\fBmy\\-tool first\\fR [\\fIOPTION\\fR]... \\fIinput\\fR\n", "  my\\-tool first a.h5\n"})
    EXPECT_THAT(page, HasSubstr(part));
}

}  // namespace
}  // namespace echotrain::config
