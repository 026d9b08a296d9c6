// Time, memory, descriptors and threads: what a client must not be able to use up.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/server/comes_true.h"
#include "tests/server/raw_client.h"
#include "tests/support/matter_of_time.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string kCartesian = wire::config("cartesian_plain") + wire::header(wire::xml());
const std::string kPassthrough = wire::config("passthrough") + wire::header(wire::xml());

std::size_t entries(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}
std::size_t threads() { return entries("/proc/self/task"); }
std::size_t descriptors() { return entries("/proc/self/fd"); }
double resident_mib() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

TEST(Timeouts, SilenceBeforeTheConfig) {
  config::ServerOptions options;
  options.connect_timeout_s = 0.1;
  TestServer server(options);
  RawClient client(server.port());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    timeout"));
}

TEST(Timeouts, SilenceBetweenMessages) {
  config::ServerOptions options;
  options.connect_timeout_s = options.idle_timeout_s = 0.1;
  TestServer server(options);
  for (const std::string& start : {wire::config("cartesian_plain"), kCartesian, kCartesian + wire::frame()}) {
    const Conversation all = server.exchange(start);
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("ERROR    timeout"));
  }
  EXPECT_THAT(server.exchange(wire::config("no_such")).texts(), HasSubstr("ERROR    unknown-config"));
}

TEST(Timeouts, SilenceAndDripsInsideAMessage) {
  config::ServerOptions options;
  options.message_timeout_s = 0.2;
  TestServer server(options);
  EXPECT_THAT(server.exchange(kCartesian + wire::acquisition(0).substr(0, 200)).texts(), HasSubstr("ERROR    timeout"));
  // A byte now and then is no reason to wait for ever.
  RawClient client(server.port());
  client.send(kCartesian);
  const std::string readout = wire::acquisition(0);
  const auto began = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < readout.size() && std::chrono::steady_clock::now() - began < 5s; ++i) {
    client.send(readout.substr(i, 1));
    if (const auto message = client.receive(20ms)) {
      EXPECT_THAT(message->text(), HasSubstr("ERROR    timeout"));
      break;
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 3s) << kMatterOfTime;
}

TEST(Timeouts, APauseBeforeAMessageIsNotPartOfIt) {
  config::ServerOptions options;
  options.message_timeout_s = 1;
  TestServer server(options);
  RawClient client(server.port());
  client.send(kCartesian);
  std::this_thread::sleep_for(1300ms);
  const std::string frame = wire::frame();
  client.send(frame.substr(0, 200));
  std::this_thread::sleep_for(300ms);  // the watchdog looks at the clock several times
  client.send(frame.substr(200) + wire::close());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), Not(HasSubstr("timeout")));
}

TEST(Timeouts, ClientThatNeverHangsUpIsLeftAfterTheDrain) {
  config::ServerOptions options;
  options.drain_timeout_s = 0.1;
  TestServer server(options);
  const std::size_t before = descriptors();
  RawClient client(server.port());
  client.send(wire::id(2000));
  EXPECT_TRUE(client.receive_all().ended_well());
  EXPECT_TRUE(comes_true([&] { return descriptors() == before + 1; }));  // ours is still open
}

TEST(Timeouts, ClientThatDoesNotReadIsGivenUp) {
  config::ServerOptions options;
  options.send_timeout_s = 0.3;
  options.queue_mib = 1;
  TestServer server(options);
  RawClient client(server.port(), /*receive_buffer=*/4096);
  std::string images;
  for (std::uint16_t i = 1; i <= 64; ++i) images += wire::image(wire::image_head(512, i));  // 64 MiB
  client.send(kPassthrough);
  const std::size_t sent = client.send_for(images, 2000ms);
  EXPECT_LT(sent, images.size());            // the queues are bounded, so the socket stopped taking bytes
  EXPECT_FALSE(client.send(wire::close()));  // the connection was reset
  EXPECT_EQ(client.receive_all().count(4), 0U);
  EXPECT_TRUE(server.works());
}

TEST(BackPressure, ClientThatWritesAllBeforeItReadsGetsEverything) {
  TestServer server;
  std::vector<std::string> sent;
  std::string images;
  for (std::uint16_t i = 1; i <= 24; ++i) {
    const std::string image = wire::image(wire::image_head(512, i));
    sent.push_back(image.substr(2));
    images += image;
  }
  RawClient client(server.port());
  ASSERT_TRUE(client.send(kPassthrough + images + wire::close()));
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.images(), sent);
}

TEST(BackPressure, ClientAtScannerRateMayReadOnlyAfterItsClose) {
  config::ServerOptions options;
  options.send_timeout_s = 0.2;
  TestServer server(options);
  RawClient client(server.port(), /*receive_buffer=*/4096);
  client.send(kPassthrough);
  std::vector<std::string> sent;
  // 20 MiB, more than the kernel keeps for a socket, and less than the outbox may hold. The last second is five
  // timeouts in which no byte can be sent.
  for (std::uint16_t i = 1; i <= 30; ++i) {
    const std::string image = wire::image(wire::image_head(i <= 20 ? 512 : 4, i));
    sent.push_back(image.substr(2));
    ASSERT_TRUE(client.send(image));
    if (i > 20) std::this_thread::sleep_for(100ms);
  }
  ASSERT_TRUE(client.send(wire::close()));
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_TRUE(all.images() == sent) << all.images().size() << " images came";  // without their 20 MiB
}

TEST(Timeouts, ClientThatDoesNotReadAfterItsCloseIsGivenUp) {
  config::ServerOptions options;
  options.send_timeout_s = 0.2;
  options.drain_timeout_s = 0.1;
  TestServer server(options);
  const std::size_t before = descriptors();
  RawClient client(server.port(), /*receive_buffer=*/4096);
  client.send(kPassthrough);
  for (std::uint16_t i = 1; i <= 20; ++i) client.send(wire::image(wire::image_head(512, i)));
  client.send(wire::close());
  EXPECT_TRUE(comes_true([&] { return descriptors() == before + 1; }));  // ours is still open
  EXPECT_EQ(client.receive_all().count(4), 0U);
}

TEST(BackPressure, SlowReaderGetsEverythingThroughSmallQueues) {
  config::ServerOptions options;
  options.queue_mib = 1;
  options.idle_timeout_s = options.message_timeout_s = 0.2;  // must not run while we hold the client back
  TestServer server(options);
  RawClient client(server.port(), /*receive_buffer=*/65536);
  std::thread sender([&] {
    std::string scan = kPassthrough;
    for (std::uint16_t i = 1; i <= 24; ++i) scan += wire::image(wire::image_head(512, i));
    client.send(scan + wire::close());
  });
  std::this_thread::sleep_for(1s);
  const Conversation all = client.receive_all();
  sender.join();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 24U) << all.texts();
}

TEST(BackPressure, MessageLargerThanTheQueuePasses) {
  config::ServerOptions options;
  options.queue_mib = 1;
  TestServer server(options);
  const std::string image = wire::image(wire::image_head(1024));  // 4 MiB
  const Conversation all = server.exchange(kPassthrough + image + image + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 2U);
}

TEST(Limits, OneSessionTooManyIsToldSo) {
  config::ServerOptions options;
  options.max_sessions = options.max_sessions_per_address = 2;
  TestServer server(options);
  RawClient first(server.port()), second(server.port());
  first.send(kCartesian + wire::frame());
  second.send(kCartesian + wire::frame());
  ASSERT_TRUE(first.receive());
  ASSERT_TRUE(second.receive());
  const Conversation third = server.exchange(kCartesian + wire::frame() + wire::close());
  EXPECT_TRUE(third.ended_well());
  EXPECT_THAT(third.texts(), HasSubstr("ERROR    busy"));
  first.send(wire::close());
  EXPECT_TRUE(first.receive_all().ended_well());
  first.close();
  EXPECT_TRUE(comes_true([&] { return static_cast<bool>(server.works()); }));
}

TEST(Limits, SkippedReadoutsOfOneKindCostOneText) {
  TestServer server;
  std::string scan = kCartesian;
  for (int i = 0; i < 500; ++i) {
    auto head = wire::readout_head(0);
    head.idx.repetition = static_cast<std::uint16_t>(100 + i);
    scan += wire::acquisition(head);
  }
  const Conversation all = server.exchange(scan + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(5), 1U) << all.texts();
}

TEST(Leaks, DisconnectAtEveryMessageBoundary) {
  TestServer server;
  const std::vector<std::string> parts = {wire::query("ismrmrd::version", 1),
                                          wire::config("cartesian_plain"),
                                          wire::header(wire::xml()),
                                          wire::text("{}"),
                                          wire::frame(0),
                                          wire::waveform(),
                                          wire::acquisition(0, 1),
                                          wire::acquisition(1, 1).substr(0, 400),
                                          wire::close()};
  const auto disconnect_everywhere = [&](int how) {
    for (std::size_t n = 0; n <= parts.size(); ++n) {
      RawClient client(server.port());
      for (std::size_t i = 0; i < n; ++i) client.send(parts[i]);
      if (how == 0) client.reset();
      if (how == 1) client.close();
      if (how == 2) client.half_close(), client.receive_all();
    }
  };
  ASSERT_TRUE(server.works());
  disconnect_everywhere(0);  // makes everything that is made on first use
  std::this_thread::sleep_for(200ms);
  std::size_t threads_before = threads(), descriptors_before = descriptors();
  const double memory_before = resident_mib();
  for (int round = 0; round < 5; ++round)
    for (int how = 0; how < 3; ++how) disconnect_everywhere(how);
  EXPECT_TRUE(comes_true([&] { return threads() <= threads_before && descriptors() <= descriptors_before; }))
      << threads() << " threads, " << threads_before << " before; " << descriptors() << " descriptors, "
      << descriptors_before << " before";
#ifndef ECHOTRAIN_SANITIZED
  EXPECT_LT(resident_mib(), memory_before + 16);
#else
  static_cast<void>(memory_before);
#endif
  EXPECT_TRUE(server.works());
}

TEST(Leaks, GiantClaimsCostNoMemory) {
  TestServer server;
  ASSERT_TRUE(server.works());
  const double before = resident_mib();
  auto image = wire::image_head(16384);  // 1 GiB of pixels, within the limit
  auto readout = wire::readout_head(0);
  readout.number_of_samples = 32768;
  readout.active_channels = 256;  // 64 MiB
  const std::string claims[] = {
      kPassthrough + wire::id(1022) + wire::raw(image) + wire::raw(std::uint64_t{16 << 20}) + "<",
      kPassthrough + wire::id(1008) + wire::raw(readout) + std::string(1000, '\0'),
      wire::config("passthrough") + wire::id(3) + wire::raw(std::uint32_t{1 << 20}) + "<",
      wire::id(2) + wire::raw(std::uint32_t{1 << 20}) + "a",
  };
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i)
    for (const std::string& claim : claims) {
      clients.push_back(std::make_unique<RawClient>(server.port()));
      clients.back()->send(claim);
    }
  std::this_thread::sleep_for(200ms);
#ifndef ECHOTRAIN_SANITIZED
  // 32 sessions, each with a slab of 1 MiB of which it has touched a few pages.
  EXPECT_LT(resident_mib(), before + 48);
#else
  static_cast<void>(before);
#endif
  EXPECT_TRUE(server.works());
}

TEST(Stop, RunningScanFinishesAndNewOnesAreRefused) {
  TestServer server;
  RawClient client(server.port());
  client.send(kCartesian + wire::frame(0));
  ASSERT_TRUE(client.receive());
  server.ask_to_stop();
  EXPECT_TRUE(comes_true([&] {
    try {
      RawClient late(server.port());
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
  client.send(wire::frame(1) + wire::close());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U);
  client.close();
  server.stop();
}

TEST(Stop, IdleConnectionsAreToldAtOnce) {
  TestServer server;
  RawClient nothing(server.port()), config(server.port());
  config.send(wire::config("cartesian_plain"));
  std::this_thread::sleep_for(50ms);
  server.ask_to_stop();
  for (RawClient* client : {&nothing, &config}) {
    const Conversation all = client->receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("ERROR    shutdown"));
    client->close();
  }
  server.stop();
}

TEST(Stop, ScanThatDoesNotEndIsEnded) {
  config::ServerOptions options;
  options.shutdown_timeout_s = 0.2;
  options.drain_timeout_s = 0.2;
  TestServer server(options);
  RawClient client(server.port());
  client.send(kCartesian + wire::frame(0));
  ASSERT_TRUE(client.receive());
  server.stop();  // returns although the client stays
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    shutdown"));
}

TEST(Start, PortInUseSaysWhatToDo) {
  TestServer server;
  config::ServerOptions options;
  options.port = server.port();
  try {
    Server second(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(), test_resources());
    FAIL() << "two servers on one port";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--port"));
  }
}

TEST(Start, UnknownDefaultPipelineIsRefused) {
  config::ServerOptions options;
  options.default_pipeline = "cartesian";
  options.port = 0;
  EXPECT_THROW(Server(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(), test_resources()),
               std::invalid_argument);
}

TEST(Start, DualStackServesBoth) {
  config::ServerOptions options;
  options.bind = "::";
  options.allow = {"127.0.0.0/8", "::1"};
  try {
    TestServer server(options);
    EXPECT_TRUE(server.works());  // by IPv4
  } catch (const std::runtime_error& error) {
    GTEST_SKIP() << "no IPv6 on this machine: " << error.what();
  }
}

}  // namespace
}  // namespace echotrain::server
