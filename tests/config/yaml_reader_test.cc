#include "config/yaml_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "tests/support/matter_of_time.h"

namespace echotrain::config {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

/// what() of the ConfigError that `act` throws, or "no error".
template <typename Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_error(const std::string& text, const YamlLimits& limits = {}) {
  return error_of([&] { read_yaml(text, "f.yaml", limits); });
}

TEST(YamlReader, ReadsEveryKindWithItsPlace) {
  const Node root = read_yaml("a: 1\nb:\n  - x\n  - 'y z'\nc: {d: 2.5, e: true}\nf:\ng: ~\n", "f.yaml");
  ASSERT_EQ(root.kind(), Node::Kind::map);
  EXPECT_EQ(root.mark().text(), "f.yaml:1:1");
  EXPECT_EQ(root.get("a").as_int(), 1);
  EXPECT_EQ(root.get("a").mark().text(), "f.yaml:1:4");
  EXPECT_EQ(root.get("b").as_sequence().at(1).as_string(), "y z");
  EXPECT_EQ(root.get("b").as_sequence().at(1).mark().text(), "f.yaml:4:5");
  EXPECT_EQ(root.get("c").get("d").as_double(), 2.5);
  EXPECT_TRUE(root.get("c").get("e").as_bool());
  EXPECT_EQ(root.as_map().at(2).mark.text(), "f.yaml:5:1");
  EXPECT_EQ(root.get("f").kind(), Node::Kind::null);
  EXPECT_EQ(root.get("f").mark().text(), "f.yaml:6:1");
  EXPECT_EQ(root.get("g").kind(), Node::Kind::null);
  EXPECT_EQ(root.get("absent").mark().line, 0);
  EXPECT_EQ(root.get("a").kind(), Node::Kind::scalar);
}

TEST(YamlReader, AnEmptyTextIsNull) {
  EXPECT_EQ(read_yaml("", "f").kind(), Node::Kind::null);
  EXPECT_EQ(read_yaml("# only a comment\n", "f").kind(), Node::Kind::null);
  EXPECT_EQ(read_yaml("\xEF\xBB\xBF", "f").kind(), Node::Kind::null);
}

TEST(YamlReader, AByteOrderMarkAndWindowsLineEndsAreAccepted) {
  const Node root = read_yaml(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: x\r\n",
      "f");
  EXPECT_EQ(root.get("a").as_int(), 1);
  EXPECT_EQ(root.get("b").as_string(), "x");
  EXPECT_EQ(root.get("b").mark().text(), "f:2:4");
}

TEST(YamlReader, RefusesAnchorsAliasesAndTags) {
  EXPECT_THAT(parse_error("a: &x 1\n"), AllOf(StartsWith("f.yaml:1:4: "), HasSubstr("anchors")));
  EXPECT_THAT(parse_error("a: 1\nb: *x\n"), AllOf(StartsWith("f.yaml:2:4: "), HasSubstr("aliases")));
  EXPECT_THAT(parse_error("a: !!str 5\n"), AllOf(StartsWith("f.yaml:1:4: "), HasSubstr("tags")));
  EXPECT_THAT(parse_error("a: !mine [1]\n"), HasSubstr("tags"));
  EXPECT_THAT(parse_error("a: !mine {b: 1}\n"), HasSubstr("tags"));
  EXPECT_THAT(parse_error("a: !!null\n"), HasSubstr("tags"));
  EXPECT_THAT(parse_error("a: ! x\n"), HasSubstr("tags"));
  EXPECT_THAT(parse_error("a: ! \"x\"\n"), HasSubstr("tags"));
}

TEST(YamlReader, AnAliasBombCostsNothing) {
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 60; ++i) {
    const std::string last = fmt::format("*a{}", i - 1);
    bomb += fmt::format("a{0}: &a{0} [{1}, {1}]\n", i, last);
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(parse_error(bomb), StartsWith("f.yaml:1:5: "));
  // Expanding it would take 2^60 steps.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1)) << kMatterOfTime;
}

TEST(YamlReader, CapsDepthNodesAndBytes) {
  YamlLimits limits;
  limits.depth = 3;
  EXPECT_EQ(parse_error("[[[1]]]", limits), "no error");
  EXPECT_THAT(parse_error("[[[[1]]]]", limits), AllOf(StartsWith("f.yaml:1:4: "), HasSubstr("3 deep")));
  EXPECT_THAT(parse_error("a:\n  b:\n    c:\n      d: 1\n", limits), StartsWith("f.yaml:4:7: "));
  limits = {};
  limits.nodes = 5;  // the list itself counts
  EXPECT_EQ(parse_error("[1, 2, 3, 4]", limits), "no error");
  EXPECT_THAT(parse_error("[1, 2, 3, 4, 5]", limits), AllOf(StartsWith("f.yaml:1:14: "), HasSubstr("more than 5")));
  limits = {};
  limits.bytes = 10;
  EXPECT_EQ(parse_error("a: 4567890", limits), "no error");
  EXPECT_THAT(parse_error("a: 45678901", limits), AllOf(StartsWith("f.yaml: "), HasSubstr("11 bytes")));
}

TEST(YamlReader, LongHostileTextsEndQuickly) {
  const auto start = std::chrono::steady_clock::now();
  for (const std::string piece : {"[", "{", "{a,", "- ", "? ", "a: ", "\"\" ", "[\"\" ", "!a ", "---\n", ": ", "[:"}) {
    std::string text;
    while (text.size() + piece.size() <= YamlLimits{}.bytes) text += piece;
    EXPECT_THAT(parse_error(text), StartsWith("f.yaml:")) << piece;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << kMatterOfTime;
}

TEST(YamlReader, RefusesWhatIsAmbiguous) {
  EXPECT_THAT(parse_error("a: 1\nb: 2\na: 3\n"), AllOf(StartsWith("f.yaml:3:1: "), HasSubstr("'a' is given twice")));
  EXPECT_THAT(parse_error("a: 1\n\"a\": 3\n"), HasSubstr("given twice"));
  EXPECT_THAT(parse_error("{a: 1, a: 2}"), StartsWith("f.yaml:1:8: "));
  EXPECT_THAT(parse_error("? [x]\n: 1\n"), HasSubstr("a key must be"));
  EXPECT_THAT(parse_error("? {x: 1}\n: 1\n"), HasSubstr("a key must be"));
  EXPECT_THAT(parse_error("~: 1\n"), HasSubstr("a key must be"));
  EXPECT_THAT(parse_error("a: 1\n---\nb: 1\n"), HasSubstr("second document"));
  EXPECT_EQ(parse_error("---\na: 1\n...\n"), "no error");
}

TEST(YamlReader, SyntaxErrorsSayWhere) {
  EXPECT_THAT(parse_error("a: [1, 2\nb: 3\n"), StartsWith("f.yaml:2:"));
  EXPECT_THAT(parse_error("a: 1\n\tb: 2\n"), StartsWith("f.yaml:2:"));
  for (const char* open : {"a: \"open\n", "a: \"open", "a: \"open\\\"", "a: 'open\nb: 1\n", "a: \""}) {
    EXPECT_THAT(parse_error(open), StartsWith("f.yaml:")) << open;
  }
  EXPECT_EQ(parse_error("a: 'it''s'\nb: \"say \\\"x\\\"\"\n"), "no error");
  EXPECT_THAT(parse_error("a: b: c\n"), StartsWith("f.yaml:1:"));
}

TEST(YamlReader, CommonSlipsOfIndentationAreNamed) {
  EXPECT_THAT(parse_error("pipeline:\n   - a\n  - b\n"),
              AllOf(StartsWith("f.yaml:3:3:"), HasSubstr("look at the indentation")));
  EXPECT_THAT(parse_error("p:\n  - x:\n      a: 1\n     b: 2\n"),
              AllOf(StartsWith("f.yaml:4:6:"), HasSubstr("indentation")));
  EXPECT_THAT(parse_error("a: 1\n  b: 2\n"), AllOf(StartsWith("f.yaml:2:"), HasSubstr("indentation of this line")));
  EXPECT_THAT(parse_error("p:\n\t- x\n"), AllOf(StartsWith("f.yaml:2:"), HasSubstr("use spaces")));
  EXPECT_THAT(parse_error("a: {b: 1\nc: 2\n"), HasSubstr("bracket that is opened before"));
  EXPECT_THAT(parse_error("a: b: c\n"), HasSubstr("in quotes"));
}

TEST(YamlReader, RefusesWhatIsNotText) {
  using std::string_literals::operator""s;
  EXPECT_THAT(parse_error("a: 1\nb: \xFF\n"), AllOf(StartsWith("f.yaml:2:4: "), HasSubstr("UTF-8")));
  EXPECT_THAT(parse_error("a: \0 1\n"s), AllOf(StartsWith("f.yaml:1:4: "), HasSubstr("0x00")));
  // yaml-cpp takes byte 4 for the end of the file.
  EXPECT_THAT(parse_error("a: 1\n\x04 b: 2\n"), AllOf(StartsWith("f.yaml:2:1: "), HasSubstr("0x04")));
  // Overlong, surrogate, beyond U+10FFFF, cut off.
  for (const char* bad :
       {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF0\x9F\x98", "\x80", "\xF0\x80\x80\xAF"}) {
    EXPECT_THAT(parse_error(bad), HasSubstr("UTF-8"));
  }
  for (const char* edge : {"\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "\xE0\xA0\x80"}) {
    EXPECT_EQ(parse_error(edge), "no error");
  }
  EXPECT_EQ(read_yaml("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "f").as_string(),
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
}

Node value(const std::string& text) { return read_yaml(text, "v"); }

TEST(YamlValue, Integers) {
  EXPECT_EQ(value("-12").as_int(), -12);
  EXPECT_EQ(value("+12").as_int(), 12);
  EXPECT_EQ(value("9223372036854775807").as_int(), std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(error_of([] { value("9223372036854775808").as_int(); }), HasSubstr("out of range"));
  for (const char* bad : {"\"5\"", "'5'", "5.0", "1e3", "0x10", "5 6", "x", "[5]", "{a: 5}", "~", "+-5", "1_000"}) {
    EXPECT_THAT(error_of([&] { value(bad).as_int(); }), StartsWith("v:1:1: a whole number is expected, not ")) << bad;
  }
  EXPECT_EQ(value("5").as_int(5, 5), 5);
  EXPECT_EQ(error_of([] { value("4").as_int(5, 9); }), "v:1:1: '4' is out of range; allowed is 5 to 9");
  EXPECT_EQ(error_of([] { value("0").as_int(1); }), "v:1:1: '0' is out of range; allowed is at least 1");
}

TEST(YamlValue, Numbers) {
  EXPECT_EQ(value("1").as_double(), 1.0);
  EXPECT_EQ(value("-1.5e-3").as_double(), -1.5e-3);
  EXPECT_EQ(value(".5").as_double(), 0.5);
  for (const char* bad : {"\"1.5\"", "1,5", ".inf", "inf", "nan", ".nan", "1.5x", "true", "[1]", "~"}) {
    EXPECT_THAT(error_of([&] { value(bad).as_double(); }), HasSubstr("a finite number is expected")) << bad;
  }
  EXPECT_THAT(error_of([] { value("1e999").as_double(); }), HasSubstr("out of range"));
  EXPECT_EQ(value("1.25").as_double(1.25, 2), 1.25);
  EXPECT_EQ(error_of([] { value("3").as_double(1.25, 2); }), "v:1:1: '3' is out of range; allowed is 1.25 to 2");
}

TEST(YamlValue, BooleansAreTrueOrFalse) {
  EXPECT_TRUE(value("true").as_bool());
  EXPECT_FALSE(value("false").as_bool());
  for (const char* bad : {"yes", "no", "on", "off", "True", "1", "\"true\"", "~", "[true]"}) {
    EXPECT_THAT(error_of([&] { value(bad).as_bool(); }), HasSubstr("write true or false")) << bad;
  }
}

TEST(YamlValue, TextsMayBePlainOrQuoted) {
  EXPECT_EQ(value("a b").as_string(), "a b");
  EXPECT_EQ(value("'5'").as_string(), "5");
  EXPECT_EQ(value("5").as_string(), "5");
  EXPECT_EQ(value("\"\"").as_string(), "");
  EXPECT_EQ(value("|\n  two\n  lines\n").as_string(), "two\nlines\n");
  EXPECT_EQ(error_of([] { value("[a]").as_string(); }), "v:1:1: a text is expected, not a list");
  EXPECT_EQ(error_of([] { value("~").as_string(); }), "v:1:1: a text is expected, not nothing");
}

TEST(YamlValue, ChoicesAndKeysSuggestTheNearest) {
  const std::vector<std::string> choices{"ramp", "from_data", "none"};
  EXPECT_EQ(value("ramp").as_choice(choices), "ramp");
  EXPECT_EQ(error_of([&] { value("form_data").as_choice(choices); }),
            "v:1:1: 'form_data' is not one of ramp, from_data, none; did you mean 'from_data'?");
  EXPECT_EQ(error_of([&] { value("xyz").as_choice(choices); }), "v:1:1: 'xyz' is not one of ramp, from_data, none");
  EXPECT_EQ(error_of([&] { value("[a]").as_choice(choices); }),
            "v:1:1: one of ramp, from_data, none is expected, not a list");

  const Node map = value("ramp: 1\nfrom_dat: 2\n");
  EXPECT_EQ(error_of([&] { map.only(choices); }), "v:2:1: unknown key 'from_dat'; did you mean 'from_data'?");
  EXPECT_EQ(error_of([&] { value("zzz: 2").only(choices); }),
            "v:1:1: unknown key 'zzz'; known keys: ramp, from_data, none");
  EXPECT_THAT(error_of([&] { value("[1]").only(choices); }), HasSubstr("a map of 'key: value' is expected"));
  EXPECT_THAT(error_of([&] { value("5").get("a"); }), HasSubstr("not '5'"));
  EXPECT_NO_THROW(value("~").only(choices));
}

TEST(Nearest, FindsSlipsAndNothingElse) {
  const std::vector<std::string> known{"gridding", "fft", "density_compensation", "pcg"};
  EXPECT_EQ(nearest("griding", known), "gridding");
  EXPECT_EQ(nearest("girdding", known), "gridding");
  EXPECT_EQ(nearest("ftf", known), "fft");
  EXPECT_EQ(nearest("density", known), "density_compensation");
  EXPECT_EQ(nearest("xyz", known), "");
  EXPECT_EQ(nearest("", known), "");
  EXPECT_EQ(nearest(std::string(100000, 'f'), known), "");
}

TEST(InQuotes, IsSafeToLog) {
  EXPECT_EQ(in_quotes("a\nb\x1B[31m"), "'a?b?[31m'");
  EXPECT_EQ(in_quotes(std::string(100, 'x')), fmt::format("'{:x>60}...'", ""));
  std::string accents;
  for (int i = 0; i < 40; ++i) accents += "\xC3\xA9";
  EXPECT_EQ(in_quotes("x" + accents).size(), 2 + 3 + 59U);  // a character of two bytes is not cut in half
}

TEST(YamlFile, SaysWhyAFileCannotBeRead) {
  const auto folder = std::filesystem::path(testing::TempDir());
  EXPECT_THAT(error_of([&] { read_yaml_file(folder / "absent.yaml"); }),
              HasSubstr("absent.yaml: there is no such file"));
  EXPECT_THAT(error_of([&] { read_yaml_file(folder); }), HasSubstr("this is a folder"));
  const auto file = folder / fmt::format("config_reader_test_{}.yaml", ::getpid());
  std::ofstream(file) << "a: 1\nb: x y\n";
  EXPECT_EQ(read_yaml_file(file).get("b").as_string(), "x y");
  EXPECT_EQ(read_yaml_file(file).get("b").mark().text(), file.string() + ":2:4");
  YamlLimits limits;
  limits.bytes = 5;
  EXPECT_THAT(error_of([&] { read_yaml_file(file, limits); }), HasSubstr("at most 5 bytes"));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace echotrain::config
