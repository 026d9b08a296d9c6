// The option `latency`: other threads wait in another way, and nothing else changes.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "gadgets/numerics/core/thread_pool.h"
#include "tests/server/raw_client.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

const std::string kLatencyStart = wire::config("cartesian_plain") + wire::header(wire::xml());

class LatencyMode : public testing::Test {
 protected:
  void SetUp() override {
    if (numerics::usable_cores() < 2) GTEST_SKIP() << "threads that spin need two cores";
    options_.latency = true;
    options_.drain_timeout_s = 0.1;  // of clients that wait for the server to close
  }
  config::ServerOptions options_;
};

double cpu_seconds_of_process() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST_F(LatencyMode, ImagesHaveTheSameBits) {
  const std::string scan =
      kLatencyStart + wire::frame(0) + wire::waveform() + wire::frame(1) + wire::frame(2) + wire::close();
  TestServer sleeps, spins(options_);
  const Conversation with = spins.exchange(scan), without = sleeps.exchange(scan);
  EXPECT_TRUE(with.ended_well());
  ASSERT_EQ(with.count(1022), 3U) << with.texts();
  EXPECT_EQ(with.reproducible_images(), without.reproducible_images());
  EXPECT_EQ(with.texts(), without.texts());
}

TEST_F(LatencyMode, SeveralScansAtOnceGetTheirOwnImages) {
  TestServer server(options_);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(kLatencyStart + wire::frame(0)));
  }
  for (auto& client : clients) {
    const auto image = client->receive();
    ASSERT_TRUE(image);
    EXPECT_EQ(image->id, 1022);
  }
  for (auto& client : clients) ASSERT_TRUE(client->send(wire::frame(1) + wire::close()));
  std::vector<std::string> expected;
  for (auto& client : clients) {
    const Conversation rest = client->receive_all();
    EXPECT_TRUE(rest.ended_well());
    ASSERT_EQ(rest.count(1022), 1U) << rest.texts();
    if (expected.empty()) expected = rest.reproducible_images();
    EXPECT_EQ(rest.reproducible_images(), expected);
  }
}

/// Threads that wait for their turn do not look for data, and then have all of it.
TEST_F(LatencyMode, AddressesMayHaveTheirTurns) {
  options_.address_turns = true;
  TestServer server(options_);
  const std::string scan = kLatencyStart + wire::frame(0) + wire::frame(1) + wire::close();
  std::vector<Conversation> all(3);
  std::vector<std::jthread> clients;
  for (Conversation& each : all) clients.emplace_back([&] { each = server.exchange(scan); });
  clients.clear();
  for (const Conversation& each : all) {
    EXPECT_TRUE(each.ended_well());
    ASSERT_EQ(each.count(1022), 2U) << each.texts();
    EXPECT_EQ(each.reproducible_images(), all[0].reproducible_images());
  }
}

TEST_F(LatencyMode, ScanGoesOnAfterAPauseInWhichAllSleep) {
  TestServer server(options_);
  RawClient client(server.port());
  client.send(kLatencyStart + wire::frame(0));
  ASSERT_TRUE(client.receive());
  std::this_thread::sleep_for(600ms);  // the spin takes 500
  const double before = cpu_seconds_of_process();
  std::this_thread::sleep_for(400ms);
  EXPECT_LT(cpu_seconds_of_process() - before, 0.2)
      << kMatterOfTime << "of 0.4 s, in which one spinning thread would have taken all";
  client.send(wire::frame(1) + wire::close());
  const Conversation rest = client.receive_all();
  EXPECT_TRUE(rest.ended_well());
  EXPECT_EQ(rest.count(1022), 1U);
}

TEST_F(LatencyMode, NobodySpinsWithoutAScan) {
  TestServer server(options_);
  ASSERT_TRUE(server.works());
  std::this_thread::sleep_for(50ms);
  const double before = cpu_seconds_of_process();
  std::this_thread::sleep_for(400ms);
  EXPECT_LT(cpu_seconds_of_process() - before, 0.2) << kMatterOfTime;
}

TEST_F(LatencyMode, ShutdownLetsARunningScanFinish) {
  TestServer server(options_);
  RawClient client(server.port());
  client.send(kLatencyStart + wire::frame(0));
  ASSERT_TRUE(client.receive());
  server.ask_to_stop();
  std::this_thread::sleep_for(50ms);
  client.send(wire::frame(1) + wire::close());
  const Conversation rest = client.receive_all();
  EXPECT_TRUE(rest.ended_well());
  EXPECT_EQ(rest.count(1022), 1U);
  EXPECT_EQ(server.wait_for_end(), Server::End::asked);
}

TEST_F(LatencyMode, ShutdownEndsAScanThatGoesOnTooLong) {
  options_.shutdown_timeout_s = 0.3;
  TestServer server(options_);
  RawClient client(server.port());
  client.send(kLatencyStart + wire::frame(0));
  ASSERT_TRUE(client.receive());
  server.ask_to_stop();
  EXPECT_THAT(client.receive_all().texts(), testing::HasSubstr("shutting down"));
  EXPECT_EQ(server.wait_for_end(), Server::End::asked);
}

TEST_F(LatencyMode, ClientThatIsGoneLeavesTheServerServing) {
  TestServer server(options_);
  {
    RawClient client(server.port());
    client.send(kLatencyStart + wire::frame(0));
    ASSERT_TRUE(client.receive());
    client.reset();
  }
  EXPECT_TRUE(server.works());
}

}  // namespace
}  // namespace echotrain::server
