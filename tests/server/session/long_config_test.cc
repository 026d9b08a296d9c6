// Config texts that take long to read hold up nobody else.
#include <gmock/gmock.h>

#include <condition_variable>
#include <mutex>

#include "gadgets/api/gadget.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// While this gate is closed, a text with the gadget below cannot be read to its end.
class Gate {
 public:
  void set(bool open) {
    {
      const std::scoped_lock lock(mutex_);
      open_ = open;
    }
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    --waiting_;
  }
  void wait_for_somebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int waiting_ = 0;
};
Gate& gate() {
  static Gate gate;
  return gate;
}

class Laborious final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "laborious";
  static constexpr std::string_view kSummary = "Its parameters are read when the test lets them be.";
  static Parameters<Options> parameters() {
    gate().pass();
    return {};
  }
  explicit Laborious(Options /*options*/) {}
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override { emit(std::move(readouts)); }
};
const Registry& laborious_registry() {
  static const Registry registry = [] {
    Registry all = Registry::builtin();
    all.add<Laborious>();
    return all;
  }();
  return registry;
}

class LongConfig : public testing::Test {
 protected:
  ~LongConfig() override { gate().set(true); }

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
  TestServer server({}, laborious_registry());
  gate().set(false);
  std::vector<std::unique_ptr<RawClient>> clients;  // more than there are threads for sockets
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(text() + rest()));
  }
  gate().wait_for_somebody();
  EXPECT_TRUE(server.works());
  gate().set(true);
  for (const auto& client : clients) {
    const Conversation all = client->receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 1U);
  }
}

TEST_F(LongConfig, IsRefusedLikeAShortOne) {
  TestServer server({}, laborious_registry());
  const Conversation all = server.exchange(text("nonsense") + rest());
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    bad-config: config:1009:5: no gadget is called 'nonsense'"));
  EXPECT_THAT(server.exchange(text() + text() + rest()).texts(), HasSubstr("ERROR    duplicate-config"));
}

TEST_F(LongConfig, ClientsAndTheServerMayGoMeanwhile) {
  config::ServerOptions options;
  options.drain_timeout_s = 0.1;
  TestServer server(options, laborious_registry());
  gate().set(false);
  RawClient goes(server.port()), stays(server.port());
  ASSERT_TRUE(goes.send(text() + rest()));
  gate().wait_for_somebody();
  ASSERT_TRUE(stays.send(text() + rest()));
  goes.reset();
  server.ask_to_stop();
  std::this_thread::sleep_for(50ms);
  gate().set(true);
  const Conversation all = stays.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    shutdown"));
  server.stop();
}

}  // namespace
}  // namespace echotrain::server
