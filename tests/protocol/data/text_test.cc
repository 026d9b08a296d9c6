#include "protocol/data/text.h"

#include <gtest/gtest.h>

#include "protocol/wire/codec.h"

namespace echotrain::protocol::test {
namespace {

TEST(TextChecks, Utf8) {
  for (const char* good : {"", "a", "abcdefgh\xc3\xa4ijklmnopq", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf",
                           "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff", "abcdefgh\xc3", "\xe2\x82", "\xe2\x28\xa1", "abcdefghijkl\x80mnopqrst"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(TextChecks, PrintableReplacesControlCharactersAndBadBytes) {
  EXPECT_EQ(printable("a\x1b[31mb\nc\x7f"), "a?[31mb?c?");
  EXPECT_EQ(printable("\xc3\xa4\xff\xe2\x82\xac\x80"), "\xc3\xa4?\xe2\x82\xac?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "x"),
            "?x");  // a control character above ASCII
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("abcdef", 3), "abc");
  EXPECT_EQ(printable("ab\xc3\xa4", 3), "ab");  // a character is not cut
}

TEST(TextChecks, LogTextHasAPaddedLevelAndOneNewline) {
  EXPECT_EQ(format_log_text(Level::debug, "x"), "DEBUG    x\n");
  EXPECT_EQ(format_log_text(Level::info, "x"), "INFO     x\n");
  EXPECT_EQ(format_log_text(Level::warning, "x\n"), "WARNING  x\n");
  EXPECT_EQ(format_log_text(Level::error, "bad-header: x"), "ERROR    bad-header: x\n");
  EXPECT_EQ(format_log_text(Level::critical, "a\nb\t"), "CRITICAL a?b?\n");
  EXPECT_EQ(format_log_text(Level::info, ""), "INFO     \n");
}

TEST(TextChecks, QuotableIsAscii) {
  EXPECT_EQ(quotable("a\xc3\xa4\n\x7f"), "a????");
  EXPECT_EQ(quotable("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace echotrain::protocol::test
