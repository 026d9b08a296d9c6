// A scan that pauses gives its place to others and goes on, when data come again, as if nothing had been.
#include <gmock/gmock.h>

#include <atomic>

#include "tests/server/capture/capture_support.h"
#include "tests/server/http_client.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

const std::string kPauseStart = wire::config("cartesian_plain") + wire::header(wire::xml());

std::string lines(int first, int last, int repetition = 0) {
  std::string bytes;
  for (int line = first; line < last; ++line) bytes += wire::acquisition(line, repetition);
  return bytes;
}

class Pause : public testing::Test {
 protected:
  Pause() {
    options_.cpu_scans = 1;
    options_.pause_s = 1;  // long enough for a Talker on a busy machine
  }

  /// The images of a scan of two frames without a pause.
  static const std::vector<std::string>& truth() {
    static const std::vector<std::string> truth =
        TestServer().exchange(kPauseStart + wire::frame(0) + wire::frame(1) + wire::close()).reproducible_images();
    return truth;
  }

  /// Half of the first frame, and then a pause that the server has noticed, as that of `others` before.
  static std::unique_ptr<RawClient> paused_client(const TestServer& server, int others = 0) {
    auto client = std::make_unique<RawClient>(server.port());
    client->send(kPauseStart + lines(0, 4));
    EXPECT_TRUE(has_state(server, "paused", 1 + others));
    return client;
  }
  static std::string rest() { return lines(4, wire::kMatrix) + wire::frame(1) + wire::close(); }

  static std::string sessions_of(const TestServer& server) {
    return HttpClient(server.admin_port()).get("/sessions")->body;
  }
  static bool has_state(const TestServer& server, const std::string& state, int sessions = 1) {
    for (int i = 0; i < 2000; ++i) {
      const std::string page = sessions_of(server), word = '"' + state + '"';
      int found = 0;
      for (std::size_t at = page.find(word); at != std::string::npos; at = page.find(word, at + 1)) ++found;
      if (found == sessions) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  config::ServerOptions options_;
};

/// A client that has the place and keeps it, as its readouts do not end.
class Talker {
 public:
  explicit Talker(const TestServer& server) : client_(server.port()) {
    client_.send(kPauseStart + wire::frame());
    EXPECT_EQ(client_.receive()->id, 1022);
    thread_ = std::thread([this] {
      while (!stop_) {
        client_.send(wire::acquisition(0, 1));
        std::this_thread::sleep_for(20ms);
      }
    });
  }
  ~Talker() { stop(); }
  void finish() {
    stop();
    client_.send(wire::close());
    EXPECT_TRUE(client_.receive_all().ended_well());
    client_.close();
  }

 private:
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  RawClient client_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST_F(Pause, OthersGetThePlaceAndTheScanGoesOnWithItsState) {
  TestServer server(options_);
  const auto client = paused_client(server);
  EXPECT_TRUE(server.works());
  client->send(rest());
  const Conversation all = client->receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.texts(), "");  // the place was free
  EXPECT_TRUE(all.reproducible_images() == truth());
}

TEST_F(Pause, AScanThatFindsItsPlaceTakenWaitsAndIsTold) {
  options_.max_waiting = 0;  // those who wait for the first time
  TestServer server(options_);
  const auto client = paused_client(server);
  Talker other(server);
  client->send(rest());
  const auto told = client->receive();
  ASSERT_TRUE(told);
  EXPECT_THAT(told->text(), HasSubstr("INFO     waiting for a place on the cpu; 0 scans wait before this one"));
  EXPECT_TRUE(has_state(server, "waiting"));
  EXPECT_FALSE(client->receive(500ms));
  other.finish();
  const Conversation all = client->receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_TRUE(all.reproducible_images() == truth());
}

TEST_F(Pause, CloseAndTheEndOfTheStreamWaitForThePlaceToo) {
  TestServer server(options_);
  for (const bool whole : {true, false}) {
    const std::string scan = kPauseStart + wire::frame(0) + lines(0, 4, 1);
    const Conversation unpaused = TestServer().exchange(scan + (whole ? wire::close() : ""), /*half_close=*/true);
    RawClient client(server.port());
    client.send(scan);
    const auto first = client.receive();
    ASSERT_EQ(first->id, 1022);
    ASSERT_TRUE(has_state(server, "paused"));
    Talker other(server);
    if (whole) client.send(wire::close());
    client.half_close();
    const auto told = client.receive();
    ASSERT_TRUE(told);
    EXPECT_THAT(told->text(), HasSubstr("waiting for a place on the cpu"));
    EXPECT_FALSE(client.receive(300ms));
    other.finish();
    Conversation all = client.receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.texts(), unpaused.texts());
    all.messages.insert(all.messages.begin(), *first);
    EXPECT_TRUE(all.reproducible_images() == unpaused.reproducible_images());
  }
}

TEST_F(Pause, WhatComesWhileItWaitsGoesToTheCapture) {
  TemporaryFolder folder;
  options_.capture = capture_to(folder);
  options_.queue_mib = 1;
  TestServer server(options_);
  RawClient client(server.port());
  client.send(wire::config("passthrough") + wire::header(wire::xml()) + wire::image(wire::image_head(4, 1)));
  ASSERT_EQ(client.receive()->id, 1022);
  ASSERT_TRUE(has_state(server, "paused"));
  Talker other(server);
  std::vector<std::string> sent;
  std::string bytes;
  for (std::uint16_t i = 2; i <= 32; ++i) {
    sent.push_back(wire::image(wire::image_head(512, i)).substr(2));
    bytes += wire::id(1022) + sent.back();
  }
  bytes += wire::close();
  ASSERT_EQ(client.send_for(bytes, 10s), bytes.size());  // 31 MiB, which no socket holds
  other.finish();
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_TRUE(all.images() == sent);
}

TEST_F(Pause, WithoutACaptureTheClientIsHeldBack) {
  options_.queue_mib = 1;
  TestServer server(options_);
  RawClient client(server.port());
  client.send(wire::config("passthrough") + wire::header(wire::xml()) + wire::image(wire::image_head(4, 1)));
  ASSERT_EQ(client.receive()->id, 1022);
  ASSERT_TRUE(has_state(server, "paused"));
  Talker other(server);
  std::string bytes;
  for (std::uint16_t i = 2; i <= 64; ++i) bytes += wire::image(wire::image_head(512, i));
  bytes += wire::close();
  const std::size_t sent = client.send_for(bytes, 500ms);
  EXPECT_LT(sent, bytes.size());
  other.finish();
  std::thread sender([&] { client.send(bytes.substr(sent)); });
  const Conversation all = client.receive_all();
  sender.join();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 63U);
}

TEST_F(Pause, WaveformsDoNotEndIt) {
  TestServer server(options_);
  const auto client = paused_client(server);
  for (int i = 0; i < 10; ++i) client->send(wire::waveform());
  EXPECT_TRUE(server.works());
  EXPECT_TRUE(has_state(server, "paused"));
  client->send(rest());
  EXPECT_TRUE(client->receive_all().reproducible_images() == truth());
}

TEST_F(Pause, ManyPausesDoNotShow) {
  TestServer server(options_);
  RawClient client(server.port());
  client.send(kPauseStart);
  for (int frame = 0; frame < 2; ++frame)
    for (int line = 0; line < wire::kMatrix; line += 4) {
      client.send(lines(line, line + 4, frame));
      ASSERT_TRUE(has_state(server, "paused"));
      EXPECT_TRUE(server.works());
    }
  client.send(wire::close());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_TRUE(all.reproducible_images() == truth());
}

TEST_F(Pause, EndsWithTheIdleTimeout) {
  options_.idle_timeout_s = 3;
  TestServer server(options_);
  const auto client = paused_client(server);
  const Conversation all = client->receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    timeout: neither a readout nor an image came within 3 s"));
}

TEST_F(Pause, NobodyWaitsForAPlaceForEver) {
  options_.wait_timeout_s = options_.drain_timeout_s = 0.3;
  TestServer server(options_);
  const auto client = paused_client(server), closed = paused_client(server, 1);
  Talker other(server);
  client->send(lines(4, wire::kMatrix));
  closed->send(wire::close());
  for (RawClient* each : {client.get(), closed.get()}) {
    const Conversation all = each->receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("ERROR    busy: no place for this scan became free within 0.3 s"));
    EXPECT_EQ(all.count(1022), 0U);
  }
  EXPECT_TRUE(has_state(server, "closing", 0)) << "both are still connected, and their sessions do not end";
}

TEST_F(Pause, APeerThatVanishesWhileItsScanWaitsForItsFirstPlaceIsNoticed) {
  options_.connect_timeout_s = options_.wait_timeout_s = 600;
  TestServer server(options_);
  Talker other(server);
  RawClient client(server.port());
  client.send(kPauseStart);
  ASSERT_TRUE(client.receive());  // it waits
  ASSERT_TRUE(has_state(server, "waiting"));
  client.reset();
  EXPECT_TRUE(has_state(server, "waiting", 0));
}

TEST_F(Pause, APeerThatVanishesLeavesNothing) {
  TestServer server(options_);
  {
    const auto first = paused_client(server), second = paused_client(server, 1);
    Talker other(server);
    second->send(lines(4, wire::kMatrix));
    ASSERT_TRUE(second->receive());  // waits for its place
    first->reset();
    second->reset();
  }
  EXPECT_TRUE(server.works());
}

TEST_F(Pause, ItDoesNotKeepTheServerFromEnding) {
  options_.shutdown_timeout_s = options_.drain_timeout_s = 0.2;
  TestServer server(options_);
  const auto client = paused_client(server), waits = paused_client(server, 1);
  Talker other(server);
  waits->send(lines(4, wire::kMatrix));
  ASSERT_TRUE(waits->receive());  // it waits for its place
  server.ask_to_stop();
  for (RawClient* each : {client.get(), waits.get()}) {
    const Conversation all = each->receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("ERROR    shutdown"));
    EXPECT_THAT(all.texts(), Not(HasSubstr("waiting")));
  }
}

TEST_F(Pause, AScanThatIsWorkedOnKeepsItsPlace) {
  std::string room;
  Inbox inbox(1 << 20, [&] { room += 'r'; });
  EXPECT_FALSE(inbox.pause());  // nobody waits for work: it may be making its plans
  std::atomic<int> taken = 0;
  std::thread worker([&] {
    while (inbox.take().work) ++taken;
  });
  const auto soon = [](const auto& condition) {
    for (int i = 0; i < 500 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    return condition();
  };
  EXPECT_TRUE(soon([&] { return inbox.pause(); }));
  inbox.push(Work(protocol::Waveform()));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(taken, 0);
  EXPECT_FALSE(inbox.pause());  // something waits for the worker
  inbox.resume();
  EXPECT_TRUE(soon([&] { return taken == 1; }));
  EXPECT_TRUE(soon([&] { return inbox.pause(); }));
  inbox.cancel();
  worker.join();
}

}  // namespace
}  // namespace echotrain::server
