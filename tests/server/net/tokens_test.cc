// The token of a config text is found before anything of the text is parsed.
#include "server/net/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

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

class TokensOfAFile : public testing::Test {
 protected:
  const std::filesystem::path path_ = testing::TempDir() + "tokens_test_" + std::to_string(::getpid());
  ~TokensOfAFile() override { std::filesystem::remove(path_); }
  Tokens of(const std::string& text) const {
    std::ofstream(path_) << text;
    return Tokens(path_.string());
  }
  std::string why_not(const std::string& text) const {
    try {
      of(text);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }
  // By `printf abc | sha256sum`: FIPS 180-2, appendix B.1.
  const std::string abc_ = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
};

TEST_F(TokensOfAFile, HasRightsByScope) {
  const Tokens tokens = of("console:scan:never:" + abc_ + " client_pipelines=off\n");
  const auto grant = tokens.find("abc");
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->identity, "token:console");
  EXPECT_EQ(grant->client_pipelines, config::ClientPipelines::off);
  EXPECT_FALSE(tokens.contain("abc", Right::read));
  EXPECT_FALSE(tokens.contain("abc", Right::admin));
  EXPECT_FALSE(tokens.contain(abc_)) << "the hash is no token";

  const Tokens reader = of("page:read:never:" + abc_);
  EXPECT_TRUE(reader.contain("abc", Right::read));
  EXPECT_FALSE(reader.contain("abc")) << "it may not scan";
  EXPECT_FALSE(reader.contain("abc", Right::admin));

  const Tokens operators = of("both:scan,admin:never:" + abc_);
  for (const Right right : {Right::scan, Right::read, Right::admin}) EXPECT_TRUE(operators.contain("abc", right));
}

TEST_F(TokensOfAFile, HasTokensThatExpire) {
  EXPECT_TRUE(of("mr1:scan:2200-12-31:" + abc_).contain("abc"));
  EXPECT_FALSE(of("mr1:scan:2001-02-28:" + abc_).contain("abc"));
}

TEST_F(TokensOfAFile, MayHoldTokensAsTheyAre) {
  const Tokens tokens = of("0123456789abcdef name=mr1\n0123:4567:89ab:cdef plain\n");
  for (const Right right : {Right::scan, Right::read, Right::admin})
    EXPECT_TRUE(tokens.contain("0123456789abcdef", right));
  EXPECT_EQ(tokens.find("0123456789abcdef")->identity, "token:mr1");
  EXPECT_TRUE(tokens.contain("0123:4567:89ab:cdef plain"));
}

TEST_F(TokensOfAFile, SaysWhatIsWrongInALine) {
  using testing::HasSubstr;
  EXPECT_THAT(why_not("mr1:scan:2001-02-29:" + abc_), HasSubstr(":1: the expiry is a day, as 2027-01-31, or never"));
  EXPECT_THAT(why_not("mr1:scan:+001-02-01:" + abc_), HasSubstr("the expiry is a day"));
  EXPECT_THAT(why_not("mr1:scan,rot:never:" + abc_), HasSubstr("the scope is scan, read or admin"));
  EXPECT_THAT(why_not("mr1::never:" + abc_), HasSubstr("the scope is scan, read or admin"));
  EXPECT_THAT(why_not(":scan:never:" + abc_), HasSubstr("the name is missing"));
  EXPECT_THAT(why_not("mr1:scan:never:" + abc_.substr(2)), HasSubstr("has 64 hexadecimal digits, not 62"));
  EXPECT_THAT(why_not("mr1:scan:never:" + abc_ + " name=mr2"), HasSubstr("stands first"));
}

}  // namespace
}  // namespace echotrain::server
