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

/// Ranges of Unicode 14's categories Cc, Cf, Zl and Zp, by Python's unicodedata, and what lies beside them.
TEST(TextChecks, PrintableReplacesWhatChangesOtherCharacters) {
  const auto utf8 = [](char32_t c) {
    std::string out;
    if (c < 0x80) return std::string(1, static_cast<char>(c));
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    out += static_cast<char>((0xf0 << (3 - more) & 0xff) | static_cast<int>(c >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
    return out;
  };
  const std::vector<std::pair<char32_t, char32_t>> unseen{
      {0x0, 0x1f},        {0x7f, 0x9f},       {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
      {0x6dd, 0x6dd},     {0x70f, 0x70f},     {0x890, 0x891},     {0x8e2, 0x8e2},     {0x180e, 0x180e},
      {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x2064},   {0x2066, 0x206f},   {0xfeff, 0xfeff},
      {0xfff9, 0xfffb},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x13438}, {0x1bca0, 0x1bca3},
      {0x1d173, 0x1d17a}, {0xe0001, 0xe0001}, {0xe0020, 0xe007f}};
  for (const auto& [first, last] : unseen)
    for (char32_t c = first; c <= last; ++c)
      EXPECT_EQ(printable("a" + utf8(c) + "b"), "a?b") << static_cast<std::uint32_t>(c);
  for (const char32_t c : {0x20u, 0x7eu, 0xa0u, 0xacu, 0xaeu, 0x5ffu, 0x606u, 0x200au, 0x2010u, 0x2027u, 0x202fu,
                           0x205fu, 0x2070u, 0xfefeu, 0xfff8u, 0xfffcu, 0x1f600u, 0xe0080u, 0x10ffffu})
    EXPECT_EQ(printable(utf8(c)), utf8(c)) << static_cast<std::uint32_t>(c);
  EXPECT_EQ(printable("\xe2\x80\xaegnp.exe"), "?gnp.exe");  // U+202E shows "exe.png"
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
