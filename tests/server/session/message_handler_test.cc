// A session handles the bytes that one read has brought, beside other sessions of the same thread.
#include "server/session/message_handler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "tests/server/wire.h"
#include "tests/support/cpu_time.h"
#include "tests/support/resources.h"

namespace echotrain::server {
namespace {

/// A session of an Environment, whose reads are given to it by hand.
struct Handled {
  Handled(asio::io_context& io, const Environment& environment)
      : connection(make_plain_transport(StreamSocket(io)), io.get_executor(), "peer", 1, environment),
        state_machine(environment.catalogue, environment.limits, *environment.resources),
        capture(connection, state_machine),
        watchdog(connection),
        scan(connection, watchdog),
        handler(connection, state_machine, capture, watchdog, scan) {}

  /// One read brings a config, so many TEXTs, and what comes then.
  void take(asio::io_context& io, int texts, const std::string& then = "") {
    std::string bytes = wire::config("cartesian_2d");
    for (int i = 0; i < texts; ++i) bytes += wire::text("x");
    bytes += then;
    const std::span<std::byte> room = handler.room();
    ASSERT_GE(room.size(), bytes.size());
    std::transform(bytes.begin(), bytes.end(), room.begin(), [](char c) { return static_cast<std::byte>(c); });
    handler.commit(bytes.size());
    asio::co_spawn(io, handler.consume(), [this](const std::exception_ptr& thrown) {
      EXPECT_FALSE(thrown);
      done = true;
    });
  }

  Connection connection;
  ProtocolStateMachine state_machine;
  SessionCapture capture;
  Watchdog watchdog;
  ScanRunner scan;
  MessageHandler handler;
  bool done = false;
};

Environment one_at_a_time(const config::ServerOptions& options = {}) {
  Environment environment =
      make_environment(options, config::PipelineLibrary({ECHOTRAIN_SOURCE_DIR "/config/pipelines"}),
                       Registry::builtin(), test_resources());
  environment.read_limiter = std::make_shared<ReadLimiter>(1);
  return environment;
}

/// Counts the turns of another handler of the thread while so many sessions handle 1,000 small messages each.
int turns_beside(int sessions) {
  asio::io_context io;
  const Environment environment = one_at_a_time();
  std::list<Handled> handled;
  for (int i = 0; i < sessions; ++i) handled.emplace_back(io, environment).take(io, 1000);
  const auto done = [&] {
    return std::all_of(handled.begin(), handled.end(), [](const Handled& h) { return h.done; });
  };
  int turns = 0;
  const std::function<void()> other = [&] {
    if (done()) return;
    ++turns;
    asio::post(io, other);
  };
  asio::post(io, other);
  io.run();
  EXPECT_TRUE(done());
  for (const Handled& each : handled) EXPECT_FALSE(each.handler.inside_message());
  return turns;
}

/// A slab of small messages takes many milliseconds, and a server has few threads for all its sessions.
TEST(MessageHandler, OthersHaveTheirTurnBetweenManySmallMessages) { EXPECT_GE(turns_beside(1), 10); }

/// If each session had a part of its messages handled in turn, others would wait for all 24 of them each time.
TEST(MessageHandler, OthersWaitForOneOfManySessionsThatBringMuch) { EXPECT_GE(turns_beside(24), 8 * turns_beside(1)); }

/// A header of 1 MiB takes some 100 ms to read, and few threads move the bytes of all sessions. Where this thread read
/// it, one turn would take nearly all of the CPU time.
TEST(MessageHandler, OthersHaveTheirTurnWhileALongHeaderIsRead) {
  asio::io_context io;
  config::ServerOptions options;
  options.backend = config::BackendChoice::cpu;
  options.cpu_scans = 1;
  const Environment environment = one_at_a_time(options);
  const auto place = environment.compute->ask(
      numerics::Backend::cpu, [] {}, "another", 0);
  ASSERT_TRUE(place->granted());
  std::string xml = wire::Xml{}.text(), parameters = "<userParameters>";
  for (int i = 0; i < 4000; ++i)
    parameters += "<userParameterLong><name>name</name><value>1</value></userParameterLong>";
  xml.insert(xml.rfind("</ismrmrdHeader>"), parameters + "</userParameters>");
  Handled handled(io, environment);
  handled.take(io, 0, wire::header(xml));
  const double begin = cpu_seconds();
  double before = thread_cpu_seconds(), longest = 0;
  const std::function<void()> other = [&] {
    const double now = thread_cpu_seconds();
    longest = std::max(longest, now - std::exchange(before, now));
    if (handled.done || handled.connection.status->state == SessionState::waiting) {
      handled.connection.drop();
      return;
    }
    asio::post(io, other);
  };
  asio::post(io, other);
  io.run();
  EXPECT_EQ(handled.connection.status->state, SessionState::waiting) << "the header is right";
  EXPECT_LT(longest, 0.5 * (cpu_seconds() - begin));
}

TEST(MessageHandler, ASessionThatEndsLeavesTheLine) {
  asio::io_context io;
  const Environment environment = one_at_a_time();
  std::unique_ptr<ReadLimiter::Permit> others = environment.read_limiter->acquire({});
  Handled handled(io, environment);
  handled.take(io, 1000);
  io.poll();
  EXPECT_FALSE(handled.done) << "it stands in the line";
  handled.connection.drop();
  io.poll();
  EXPECT_TRUE(handled.done);
  others.reset();
  EXPECT_TRUE(environment.read_limiter->acquire({})->granted());
}

/// All turns may be those of sessions whose scans wait for others to end.
TEST(MessageHandler, ASessionWhoseScanWaitsHasNoTurn) {
  asio::io_context io;
  config::ServerOptions options;
  options.backend = config::BackendChoice::cpu;
  options.cpu_scans = 1;
  const Environment environment = one_at_a_time(options);
  const auto place = environment.compute->ask(
      numerics::Backend::cpu, [] {}, "another", 0);
  ASSERT_TRUE(place->granted());
  Handled handled(io, environment);
  handled.take(io, 1000, wire::header(wire::Xml{}.text()));
  io.poll();
  EXPECT_FALSE(handled.done);
  EXPECT_EQ(handled.connection.status->state, SessionState::waiting);
  EXPECT_TRUE(environment.read_limiter->acquire({})->granted());
  handled.connection.drop();
  io.poll();
  EXPECT_TRUE(handled.done);
}

}  // namespace
}  // namespace echotrain::server
