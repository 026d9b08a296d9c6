// Deadlines that nothing but progress moves: a client that keeps talking without sending its config, its header or
// data.
#include <gmock/gmock.h>

#include "tests/server/http_client.h"
#include "tests/server/raw_client.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string kDeadlineStart = wire::config("cartesian_plain") + wire::header(wire::xml());

struct Chatter {
  std::string name;
  std::string start;     ///< sent once
  std::string again;     ///< sent every 50 ms
  std::string reason{};  ///< what the client is told
};
std::ostream& operator<<(std::ostream& out, const Chatter& chatter) { return out << chatter.name; }

/// Sends what `chatter` says until the server ends it. The time that took; nothing when `most` was not enough.
std::optional<std::chrono::duration<double>> lasts(TestServer& server, const Chatter& chatter, Conversation& all,
                                                   std::chrono::milliseconds most = 5s) {
  RawClient client(server.port());
  const auto began = std::chrono::steady_clock::now();
  client.send(chatter.start);
  while (std::chrono::steady_clock::now() - began < most) {
    client.send(chatter.again);
    const auto message = client.receive(50ms);
    if (!message) continue;
    all.messages.push_back(*message);
    if (message->id == 4) return std::chrono::steady_clock::now() - began;
  }
  return std::nullopt;
}

class Deadlines : public testing::TestWithParam<Chatter> {};

TEST_P(Deadlines, TalkWithoutProgressMovesNone) {
  config::ServerOptions options;
  options.connect_timeout_s = options.idle_timeout_s = 0.5;
  TestServer server(options);
  Conversation all;
  const auto lasted = lasts(server, GetParam(), all);
  ASSERT_TRUE(lasted) << kMatterOfTime << "talking goes on";
  EXPECT_GT(lasted->count(), 0.4) << kMatterOfTime;
  EXPECT_LT(lasted->count(), 3) << kMatterOfTime;
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    timeout: " + GetParam().reason));
  EXPECT_TRUE(server.works());
}

INSTANTIATE_TEST_SUITE_P(
    Talk, Deadlines,
    testing::Values(Chatter{"queries_before_the_config", "", wire::query("ismrmrd::version", 1),
                            "no config came within 0.5 s"},
                    Chatter{"texts_before_the_config", "", wire::text(""), "no config came within 0.5 s"},
                    Chatter{"queries_before_the_header", wire::config("cartesian_plain"),
                            wire::query("ismrmrd::version", 1), "no header came within 0.5 s after the config"},
                    Chatter{"queries_before_data", kDeadlineStart, wire::query("ismrmrd::version", 1),
                            "neither a readout nor an image came within 0.5 s"},
                    Chatter{"empty_texts_before_data", kDeadlineStart, wire::text(""),
                            "neither a readout nor an image came within 0.5 s"},
                    Chatter{"waveforms_alone", kDeadlineStart, wire::waveform(),
                            "neither a readout nor an image came within 0.5 s"},
                    Chatter{"texts_after_data", kDeadlineStart + wire::frame(), wire::text("a"),
                            "neither a readout nor an image came within 0.5 s"},
                    // A message is always on its way, and none of them began in time.
                    Chatter{"texts_that_overlap", kDeadlineStart + wire::text("abc").substr(0, 7),
                            wire::text("abc").substr(7) + wire::text("abc").substr(0, 7),
                            "neither a readout nor an image came within 0.5 s"}),
    [](const auto& chatter) { return chatter.param.name; });

TEST(DeadlinesAreMoved, ByReadoutsAndImages) {
  config::ServerOptions options;
  options.idle_timeout_s = 2;
  TestServer server(options);
  Conversation all;
  EXPECT_FALSE(lasts(server, {"readouts", kDeadlineStart, wire::acquisition(0)}, all, 4s)) << all.texts();
  EXPECT_FALSE(lasts(
      server, {"images", wire::config("passthrough") + wire::header(wire::xml()), wire::image(wire::image_head(4))},
      all, 4s))
      << all.texts();
  EXPECT_EQ(all.texts(), "");
}

TEST(DeadlinesAreMoved, ByTheWaitForAPlace) {
  config::ServerOptions options;
  options.connect_timeout_s = 0.3;
  options.cpu_scans = 1;
  TestServer server(options);
  OnlyPlace holder(server);
  RawClient client(server.port());
  client.send(kDeadlineStart);  // in one write, so that the wait begins before the server has looked at all of it
  const auto told = client.receive();
  ASSERT_TRUE(told);
  EXPECT_THAT(told->text(), HasSubstr("waiting for a place"));
  const auto early = client.receive(1s);
  EXPECT_FALSE(early) << early->text();
  holder.finish();
  client.send(wire::frame() + wire::close());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U) << all.texts();
}

// The server holds a client back that asks and asks and reads next to nothing: that is no reason to wait for it.
TEST(DeadlinesAreMoved, NotByAClientThatFloodsItself) {
  std::string queries;
  for (std::uint64_t i = 0; i < 100000; ++i) queries += wire::query("echotrain::pipelines", i);  // a long answer
  for (const auto& [start, reason] : {std::pair{wire::config("cartesian_plain"), "no header came"},
                                      {kDeadlineStart, "neither a readout nor an image came"}}) {
    config::ServerOptions options;
    options.connect_timeout_s = options.idle_timeout_s = 3;
    options.pause_s = 60;
    options.queue_mib = 1;
    TestServer server(options);
    RawClient client(server.port(), /*receive_buffer=*/4096);
    client.send(start);
    client.send_for(queries, 1s);
    std::string page;
    const auto end = Clock::now() + 40s;
    while (page.find("\"closing\"") == std::string::npos && Clock::now() < end) {
      ASSERT_TRUE(client.receive(10s));  // now and then
      std::this_thread::sleep_for(10ms);
      page = HttpClient(server.admin_port()).get("/sessions")->body;
    }
    EXPECT_THAT(page, HasSubstr("\"closing\""));
    EXPECT_THAT(client.receive_all().texts(), HasSubstr(std::string("ERROR    timeout: ") + reason));
  }
}

// 2 s of a header that comes at the slowest speed that counts, with deadlines of half a second.
TEST(DeadlinesAreMoved, ByAMessageThatBeganInTimeAndIsOnItsWay) {
  config::ServerOptions options;
  options.connect_timeout_s = 0.5;
  TestServer server(options);
  RawClient client(server.port());
  const std::string header = wire::header(wire::xml() + "<!--" + std::string(64 << 10, ' ') + "-->");
  client.send(wire::config("cartesian_plain"));
  for (std::size_t at = 0; at < header.size(); at += 4096) {
    client.send(header.substr(at, 4096));
    std::this_thread::sleep_for(100ms);
  }
  client.send(wire::frame() + wire::close());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U) << all.texts();
}

}  // namespace
}  // namespace echotrain::server
