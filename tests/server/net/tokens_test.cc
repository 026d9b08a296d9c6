// The token of a config text is found before anything of the text is parsed.
#include "server/net/tokens.h"

#include <gtest/gtest.h>

namespace echotrain::server {
namespace {

TEST(TokenIn, IsALineOfTheBeginning) {
  EXPECT_EQ(token_in("token: abc\nuse: x"), "abc");
  EXPECT_EQ(token_in("use: x\r\ntoken: 'it''s a: \"quoted\" one'\r\n"), "it's a: \"quoted\" one");
  EXPECT_EQ(token_in("---\n# a comment\ntoken: abc # and another\n: [ no yaml"), "abc");
  EXPECT_EQ(token_in("use: x\n token: abc"), "") << "a key of another map";
  EXPECT_EQ(token_in("mytoken: abc"), "");
  EXPECT_EQ(token_in("\xEF\xBB\xBFtoken: abc\nuse: x"), "abc") << "editors put a byte order mark there";
  EXPECT_EQ(token_in("token: [abc]"), "");
  EXPECT_EQ(token_in("token:"), "");
  EXPECT_EQ(token_in(""), "");
}

TEST(TokenIn, IsNotLookedForBehindTheBeginning) {
  std::string lines;
  for (int i = 0; i < kTokenLines - 1; ++i) lines += "#\n";
  EXPECT_EQ(token_in(lines + "token: abc"), "abc");
  EXPECT_EQ(token_in(lines + "#\ntoken: abc"), "");
  EXPECT_EQ(token_in("#" + std::string(kTokenBytes, ' ') + "\ntoken: abc"), "");
}

TEST(TokenIn, IsAMemberOfAHostsJson) {
  EXPECT_EQ(token_in(R"( {"token": "abc", "parameters": {}})"), "abc");
  EXPECT_EQ(token_in(R"({"parameters": {"token": "no", "list": [{"token": "no"}]}, "token": "abc"})"), "abc");
  EXPECT_EQ(token_in(R"({"token": {"token": "no"}})"), "");
  EXPECT_EQ(token_in(R"({"token": 5, "other": "no"})"), "");
  EXPECT_EQ(token_in(R"({"token": "abc", )"), "abc") << "the rest is not read";
  EXPECT_EQ(token_in(R"({"parameters": )" + std::string(100000, '[')), "");
  EXPECT_EQ(token_in(R"({"a": ")" + std::string(kTokenBytes, 'x') + R"(", "token": "abc"})"), "");
}

}  // namespace
}  // namespace echotrain::server
