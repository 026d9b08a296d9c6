// Config texts that take long to read hold up nobody else.
#include <gmock/gmock.h>

#include "tests/server/gadgets/held_gadgets.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class LongConfig : public testing::Test {
 protected:
  ~LongConfig() override { text_gate().set(true); }

  /// A pipeline in a text of some 100 KiB.
  static std::string text(const std::string& last_gadget = "image: {component: magnitude, type: float}") {
    std::string yaml = "echotrain: 1\nname: mine\ndescription: x\n";
    for (int i = 0; i < 1000; ++i) yaml += "# " + std::string(100, '-') + "\n";
    return wire::config_text(yaml +
                             "pipeline:\n  - laborious\n  - cartesian_kspace\n  - fft: {direction: inverse}\n"
                             "  - coil_combine: {method: rss}\n  - " +
                             last_gadget + "\n");
  }
  static std::string rest() { return wire::header(wire::xml()) + wire::frame() + wire::close(); }
};

TEST_F(LongConfig, OthersAreServedWhileItIsRead) {
  TestServer server({}, held_registry());
  text_gate().set(false);
  std::vector<std::unique_ptr<RawClient>> clients;  // more than there are threads for sockets
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(text() + rest()));
  }
  text_gate().wait_for_somebody();
  EXPECT_TRUE(server.works());
  text_gate().set(true);
  for (const auto& client : clients) {
    const Conversation all = client->receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 1U);
  }
}

/// However many long ones have begun, and wait.
TEST_F(LongConfig, ShortTextsDoNotWaitForIt) {
  TestServer server({}, held_registry());
  text_gate().set(false);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(text()));
  }
  text_gate().wait_for_somebody();
  std::string xml = wire::xml();  // as long as a scanner's
  xml.insert(xml.rfind("</ismrmrdHeader>"), "<!--" + std::string(100 << 10, 'x') + "-->");
  const Conversation all =
      server.exchange(wire::config("cartesian_plain") + wire::header(xml) + wire::frame() + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U);
  text_gate().set(true);
}

TEST_F(LongConfig, IsRefusedLikeAShortOne) {
  TestServer server({}, held_registry());
  const Conversation all = server.exchange(text("nonsense") + rest());
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    bad-config: config:1009:5: no gadget is called 'nonsense'"));
  EXPECT_THAT(server.exchange(text() + text() + rest()).texts(), HasSubstr("ERROR    duplicate-config"));
}

TEST_F(LongConfig, ClientsAndTheServerMayGoMeanwhile) {
  config::ServerOptions options;
  options.drain_timeout_s = 0.1;
  TestServer server(options, held_registry());
  text_gate().set(false);
  RawClient goes(server.port()), stays(server.port());
  ASSERT_TRUE(goes.send(text() + rest()));
  text_gate().wait_for_somebody();
  ASSERT_TRUE(stays.send(text() + rest()));
  goes.reset();
  server.ask_to_stop();
  std::this_thread::sleep_for(50ms);
  text_gate().set(true);
  const Conversation all = stays.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    shutdown"));
  server.stop();
}

}  // namespace
}  // namespace echotrain::server
