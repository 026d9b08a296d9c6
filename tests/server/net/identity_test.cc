#include "server/net/identity.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "server/net/tokens.h"

namespace echotrain::server {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A file of tokens as long as this lives.
class TokenFile {
 public:
  explicit TokenFile(const std::string& text) : path_(testing::TempDir() + "tokens_" + std::to_string(::getpid())) {
    std::ofstream(path_) << text;
  }
  ~TokenFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

TEST(Identity, IsTheTokenElseTheCertificateElseTheAddress) {
  const Identities identities;
  EXPECT_EQ(identities.of("token:console", "CN=mr1", "10.1.2.3:4711").text, "token:console");
  EXPECT_EQ(identities.of("", "CN=mr1", "10.1.2.3:4711").text, "certificate:CN=mr1");
  EXPECT_EQ(identities.of("", "", "10.1.2.3:4711").text, "address:10.1.2.3");
  EXPECT_EQ(identities.of("", "", "10.1.2.3:4712"), identities.of("", "", "10.1.2.3:4711"));
  EXPECT_EQ(identities.of("", "", "[fe80::1:2]:4711").text, "address:fe80::1:2");
  EXPECT_EQ(identities.of("", "", "[::ffff:10.1.2.3]:1").text, "address:10.1.2.3");
  EXPECT_EQ(identities.of("", "", "stdio").text, "program:stdio");
}

// A machine may have as many addresses of its /64 as it likes (RFC 4291, 4862): each is a client whose data nobody else
// reads, and all together have one part of what is bounded.
TEST(Identity, CountsByTheNetworkOfIpv6) {
  const Identities identities({"mr=address:fd00::/8"});
  const auto part = [&](const std::string& peer) { return identities.of("", "", peer).part; };
  const Identity one = identities.of("", "", "[2001:db8:0:7::1]:4711"),
                 other = identities.of("", "", "[2001:db8:0:7:a:b:c:d]:1");
  EXPECT_EQ(one.text, "address:2001:db8:0:7::1");
  EXPECT_EQ(other.text, "address:2001:db8:0:7:a:b:c:d");
  EXPECT_EQ(one.part, "address:2001:db8:0:7::/64");
  EXPECT_EQ(one.part, other.part);
  EXPECT_NE(part("[2001:db8:0:8::1]:1"), one.part);
  EXPECT_EQ(part("10.1.2.3:1"), "address:10.1.2.3");
  EXPECT_EQ(part("[::ffff:10.1.2.3]:1"), "address:10.1.2.3");
  EXPECT_NE(part("[::ffff:10.1.2.4]:1"), part("[::ffff:10.1.2.3]:1"));
  EXPECT_EQ(part("[fd00::5]:1"), "group:mr");
  EXPECT_EQ(part("stdio"), "program:stdio");
  EXPECT_EQ(identities.of("token:console", "", "[2001:db8::1]:1").part, "token:console");
  EXPECT_EQ(identities.of("", "CN=mr1", "[2001:db8::1]:1").part, "certificate:CN=mr1");
}

TEST(Identity, OfAGroupIsOne) {
  const Identities identities(
      {"mr1 = token:console; address:10.1.2.0/24;certificate:CN=host\\; 1,O=Clinic", "mr2=address:fd00::/8"});
  EXPECT_EQ(identities.of("token:console", "", "10.9.9.9:1").text, "group:mr1");
  EXPECT_EQ(identities.of("", "CN=host\\; 1,O=Clinic", "10.9.9.9:1").text, "group:mr1");
  EXPECT_EQ(identities.of("", "", "10.1.2.77:1").text, "group:mr1");
  EXPECT_EQ(identities.of("", "", "[fd00::5]:1").text, "group:mr2");
  // Who shows a token is that token's, wherever it comes from.
  EXPECT_EQ(identities.of("token:other", "", "10.1.2.77:1").text, "token:other");
  EXPECT_EQ(identities.of("", "", "10.1.3.1:1").text, "address:10.1.3.1");
}

TEST(Identity, GroupsThatAreWrongAreRefused) {
  const auto reading = [](const std::vector<std::string>& share) { return [=] { Identities{share}; }; };
  EXPECT_THAT(reading({"token:a;token:b"}), ThrowsMessage<std::invalid_argument>(HasSubstr("has no name")));
  EXPECT_THAT(reading({"a=10.1.2.3"}), ThrowsMessage<std::invalid_argument>(HasSubstr("'10.1.2.3', which is none")));
  EXPECT_THAT(reading({"a=address:10.1"}), ThrowsMessage<std::invalid_argument>(HasSubstr("share: '10.1'")));
  EXPECT_THAT(reading({"a=token:x", "b=token:x"}),
              ThrowsMessage<std::invalid_argument>(HasSubstr("token:x, which another group has")));
  EXPECT_THAT(reading({"a=token:x", "a=token:y"}), ThrowsMessage<std::invalid_argument>(HasSubstr("the name a")));
}

TEST(Tokens, HaveNamesAndSayWhatTheirClientsMaySend) {
  const TokenFile file(
      "# tokens\n0123456789abcdef\n0123456789abcdeg name=console\n a: token of words \tclient_pipelines=all name=lab  "
      "\n"
      "0123456789abcdef=x name=padded\n");
  const Tokens tokens(file.path());
  const auto plain = tokens.find("0123456789abcdef");
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->identity.starts_with("token#"));
  EXPECT_FALSE(plain->client_pipelines);
  EXPECT_EQ(tokens.find("0123456789abcdeg")->identity, "token:console");
  EXPECT_EQ(tokens.find("a: token of words")->identity, "token:lab");
  EXPECT_EQ(tokens.find("a: token of words")->client_pipelines, config::ClientPipelines::all);
  EXPECT_EQ(tokens.find("0123456789abcdef=x")->identity, "token:padded");
  EXPECT_FALSE(tokens.find("0123456789abcdeg name=console"));
  EXPECT_FALSE(tokens.contain("console"));
}

/// Lines move when others are added: whose data are whose does not.
TEST(Tokens, WithoutANameAreTheSameOnAnyLine) {
  const TokenFile before("0123456789abcdef\n");
  const std::string identity = Tokens(before.path()).find("0123456789abcdef")->identity;
  const TokenFile after("fedcba9876543210\n0123456789abcdef\n");
  EXPECT_EQ(Tokens(after.path()).find("0123456789abcdef")->identity, identity);
  EXPECT_NE(Tokens(after.path()).find("fedcba9876543210")->identity, identity);
}

TEST(Tokens, ErrorsNameTheLine) {
  const auto reading = [](const std::string& text) {
    return [file = std::make_shared<TokenFile>(text)] { Tokens{file->path()}; };
  };
  EXPECT_THAT(reading("\nshort name=console_of_room_7\n"), ThrowsMessage<std::runtime_error>(HasSubstr(":2: a token")));
  EXPECT_THAT(reading("0123456789abcdef client_pipelines=some\n"),
              ThrowsMessage<std::runtime_error>(HasSubstr(":1: client_pipelines is off, gadgets or all, not 'some'")));
  EXPECT_THAT(reading("0123456789abcdef name=a name=b\n"), ThrowsMessage<std::runtime_error>(HasSubstr("twice")));
  EXPECT_THAT(reading("0123456789abcdef name=\n"), ThrowsMessage<std::runtime_error>(HasSubstr("nothing follows")));
}

}  // namespace
}  // namespace echotrain::server
