#include "config/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

namespace echotrain::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

struct Options {
  std::string input, output = "out.h5", color = "red";
  int port = 9002;
  double wait_s = 2.5;
  std::optional<double> limit;
  std::optional<std::string> truth;
  bool loud = false, kept = true;
  std::vector<std::string> folders{"usual"};
  std::vector<std::pair<std::string, std::string>> saved;
  std::optional<std::pair<double, double>> window;
};

OptionTable<Options> table() {
  using O = Options;
  return OptionTable<O>()
      .path("input", &O::input, "IN.h5", "what to read")
      .positional()
      .required()
      .path("output", &O::output, "OUT.h5", "what to write")
      .letter('o')
      .choice("color", &O::color, {"red", "blue"}, "of the picture")
      .integer("port", &O::port, 1, 65535, "where to go")
      .number("wait_s", &O::wait_s, 0.5, 60, "how long to wait")
      .unit("s")
      .number("limit", &O::limit, 0, 10, "the most")
      .path("truth", &O::truth, "FILE", "what to compare with")
      .alone("")
      .flag("loud", &O::loud, "say more")
      .no_flag("not_kept", &O::kept, "throw it away")
      .list("folders", &O::folders, "folder", "where to look")
      .pair("save", &O::saved, "NAME FILE", "what to save")
      .pair("window", &O::window, "LOW HIGH", "black and white")
      .heading("Things");
}

struct Result {
  int code = -1;
  Options options;
  std::string out, err;
};

/// Runs `tool WORDS...`; its action returns 7.
Result tool(const std::vector<std::string>& words, OptionRepeat manner = OptionRepeat::once) {
  Result result;
  Command program("tool", "does things");
  program.version("tool 1.2");
  program.examples("Examples:\n  tool scan.h5");
  const auto given = program.add(table(), manner);
  program.act([&] {
    result.options = given.read();
    return 7;
  });
  std::vector<const char*> argv{"tool"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  result.code = program.run(static_cast<int>(argv.size()), argv.data(), out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

TEST(CommandLine, WithoutOptionsHasTheDefaults) {
  const Result result = tool({"scan.h5"});
  EXPECT_EQ(result.code, 7) << result.err;
  EXPECT_EQ(result.options.input, "scan.h5");
  EXPECT_EQ(result.options.output, "out.h5");
  EXPECT_EQ(result.options.port, 9002);
  EXPECT_FALSE(result.options.limit || result.options.truth || result.options.window);
  EXPECT_TRUE(result.options.kept);
  EXPECT_THAT(result.options.folders, ElementsAre("usual"));
}

TEST(CommandLine, SetsEveryKindOfOption) {
  const Options o = tool({"--loud",   "--loud",    "scan.h5", "-o",        "x",      "--color",    "blue",
                          "--port=1", "--wait-s",  "6e1",     "--limit",   "0",      "--not-kept", "--truth",
                          "t.h5",     "--folders", "a",       "--folders", "b",      "--window",   "-1",
                          "2.5",      "--save",    "fft",     "f.h5",      "--save", "rss",        "r.h5"})
                        .options;
  EXPECT_EQ(o.input, "scan.h5");
  EXPECT_EQ(o.output, "x");
  EXPECT_EQ(o.color, "blue");
  EXPECT_EQ(o.port, 1);
  EXPECT_EQ(o.wait_s, 60);
  EXPECT_EQ(o.limit, 0.0);
  EXPECT_EQ(o.truth, "t.h5");
  EXPECT_TRUE(o.loud);
  EXPECT_FALSE(o.kept);
  EXPECT_THAT(o.folders, ElementsAre("a", "b")) << "what is given replaces the default";
  EXPECT_EQ(o.window, std::pair(-1.0, 2.5));
  EXPECT_THAT(o.saved, ElementsAre(Pair("fft", "f.h5"), Pair("rss", "r.h5")));
}

TEST(CommandLine, AFlagAloneMayStandForAValue) {
  EXPECT_EQ(tool({"scan.h5", "--truth"}).options.truth, "");
  EXPECT_EQ(tool({"scan.h5", "--output", ""}).options.output, "") << "an empty word is a value";
}

TEST(CommandLine, WrongValuesAreTwoAndSayWhatIsAllowed) {
  const auto error = [](const std::vector<std::string>& words) {
    std::vector<std::string> all{"scan.h5"};
    all.insert(all.end(), words.begin(), words.end());
    const Result result = tool(all);
    EXPECT_EQ(result.code, 2) << words.front();
    return result.err;
  };
  const std::string help = "\nRun with --help for what is possible.\n";
  EXPECT_EQ(error({"--port", "70000"}), "tool: --port: '70000' is out of range; allowed is 1 to 65535" + help);
  EXPECT_EQ(error({"--port", "many"}),
            "tool: --port: a whole number is expected, not 'many'; allowed is 1 to 65535" + help);
  EXPECT_EQ(error({"--wait-s", "0.4"}), "tool: --wait-s: '0.4' is out of range; allowed is 0.5 to 60" + help);
  EXPECT_EQ(error({"--limit", "nan"}),
            "tool: --limit: a finite number is expected, not 'nan'; allowed is 0 to 10" + help);
  EXPECT_EQ(error({"--color", "bleu"}), "tool: --color: 'bleu' is not one of red, blue; did you mean 'blue'?" + help);
  EXPECT_THAT(error({"--window", "a", "b"}), HasSubstr("allowed is LOW HIGH"));
  EXPECT_THAT(error({"--window", "1"}), HasSubstr("--window"));
  EXPECT_EQ(error({"--port"}), "tool: --port: 1 required 1 to 65535 missing" + help);
  EXPECT_THAT(error({"--prot", "1"}), HasSubstr("--prot; did you mean --port?"));
  EXPECT_THAT(error({"--port", "1", "--port", "2"}), HasSubstr("--port"));
  EXPECT_THAT(error({"more.h5"}), HasSubstr("more.h5"));
  EXPECT_EQ(tool({}).err, "tool: input is required" + help);
}

TEST(CommandLine, SettingsMayBeGivenAgainAndSwitchesTakeAValue) {
  const Options o = tool({"--port", "1", "--port", "2", "--loud", "false", "scan.h5", "--not-kept", "--folders", "a",
                          "--folders", "b"},
                         OptionRepeat::settings)
                        .options;
  EXPECT_EQ(o.port, 2);
  EXPECT_FALSE(o.loud);
  EXPECT_FALSE(o.kept);
  EXPECT_EQ(o.input, "scan.h5");
  EXPECT_THAT(o.folders, ElementsAre("a", "b"));
}

TEST(CommandLine, HelpHasNamesRangesDefaultsAndExamples) {
  const Result result = tool({"--help"});
  EXPECT_EQ(result.code, 0);
  for (const std::string part : {"does things", "input IN.h5 REQUIRED", "-o,--output OUT.h5", "what to write [out.h5]",
                                 "--color red, blue", "--port 1 to 65535", "where to go [9002]", "--wait-s 0.5 to 60 s",
                                 "--truth FILE", "--save NAME FILE", "Things:", "  tool scan.h5"})
    EXPECT_THAT(result.out, HasSubstr(part));
  EXPECT_THAT(result.out, Not(HasSubstr("--loud true"))) << "a switch stands alone";
  EXPECT_THAT(tool({"--help"}, OptionRepeat::settings).out, HasSubstr("--loud true or false"));
  EXPECT_EQ(tool({"--version"}).out, "tool 1.2\n");
}

TEST(CommandLine, OneOfTheSubcommandsActs) {
  const auto run = [](const std::vector<const char*>& words) {
    Command program("tool", "does things");
    Command& first = program.add_command("first", "does one thing");
    Command& second = program.add_command("second", "does another");
    first.act([given = first.add(table())] { return given.read().port; });
    second.act([given = second.add(table())]() -> int {
      if (given.options().size() != 1) throw CommandLineError("--color means nothing here");
      throw std::logic_error("of the action");
    });
    std::ostringstream out, err;
    const int code = program.run(static_cast<int>(words.size()), words.data(), out, err);
    return std::pair(code, err.str());
  };
  EXPECT_EQ(run({"tool", "first", "x", "--port", "5"}).first, 5);
  EXPECT_EQ(run({"tool"}).first, 2);
  EXPECT_EQ(run({"tool", "third"}).first, 2);
  EXPECT_EQ(run({"tool", "second", "x", "--color", "red"}),
            std::pair(2, std::string("tool: --color means nothing here\nRun with --help for what is possible.\n")));
  EXPECT_THROW(run({"tool", "second", "x"}), std::logic_error);
  EXPECT_THAT(run({"tool", "first", "x", "--colour", "red"}).second, HasSubstr("did you mean --color?"));
}

}  // namespace
}  // namespace echotrain::config
