// A session handles the bytes that one read has brought, beside other sessions of the same thread.
#include "server/session/message_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "gadgets/shared/store/noise_store.h"
#include "tests/server/session/handled_session.h"
#include "tests/support/cpu_time.h"
#include "tests/support/resources.h"

namespace echotrain::server {
namespace {

/// One read brings a config, so many TEXTs, and what comes then.
void take(Handled& handled, asio::io_context& io, int texts, const std::string& then = "") {
  std::string bytes = wire::config("cartesian_plain");
  for (int i = 0; i < texts; ++i) bytes += wire::text("x");
  handled.take(io, bytes + then);
}

Environment one_at_a_time(const config::ServerOptions& options = {},
                          std::shared_ptr<numerics::Resources> resources = test_resources()) {
  Environment environment =
      make_environment(options, config::PipelineLibrary({ECHOTRAIN_SOURCE_DIR "/config/pipelines"}),
                       Registry::builtin(), std::move(resources));
  environment.read_limiter = std::make_shared<ReadLimiter>(1);
  return environment;
}

/// Counts the turns of another handler of the thread while so many sessions handle 1,000 small messages each.
int turns_beside(int sessions) {
  asio::io_context io;
  const Environment environment = one_at_a_time();
  std::list<Handled> handled;
  for (int i = 0; i < sessions; ++i) take(handled.emplace_back(io, environment), io, 1000);
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
  take(handled, io, 0, wire::header(xml));
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
  take(handled, io, 1000);
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
  take(handled, io, 1000, wire::header(wire::Xml{}.text()));
  io.poll();
  EXPECT_FALSE(handled.done);
  EXPECT_EQ(handled.connection.status->state, SessionState::waiting);
  EXPECT_TRUE(environment.read_limiter->acquire({})->granted());
  handled.connection.drop();
  io.poll();
  EXPECT_TRUE(handled.done);
}

/// Keeps noise of so many coils for the client of `handled`, as measurement "1".
void keep_noise(const Environment& environment, const Handled& handled, std::int64_t coils) {
  NoiseRecord record;
  record.coils = coils;
  record.dwell_us = 1;
  record.samples = 100;
  record.made_unix_s = unix_seconds();
  record.covariance.assign(static_cast<std::size_t>(coils * coils), 1.0 / 3);
  environment.resources->get<NoiseStore>().add({handled.state_machine.identity().text, "", "1"}, record);
}

const std::string kAskMatrix = wire::query("echotrain::noise_matrix/1", 1);

/// The peer reads all that waits for it; returns the texts of RESPONSEs.
std::string read_all(const Handled& handled) {
  std::string all;
  std::vector<Outgoing> messages;
  handled.connection.outbox->take(messages, 16);
  for (const Outgoing& each : messages) all.append(reinterpret_cast<const char*>(each.head.data()), each.head.size());
  handled.connection.outbox->sent(messages);
  return all;
}

/// Answers of 13 MB each, in sessions that read none, would take the memory of others.
TEST(MessageHandler, AnAddressHasOneLongAnswerThatIsNotRead) {
  asio::io_context io;
  const Environment environment = one_at_a_time();
  Handled first(io, environment, "10.0.0.1:1"), second(io, environment, "10.0.0.1:2"),
      other(io, environment, "10.0.0.2:1");
  keep_noise(environment, first, 64);
  take(first, io, 0, kAskMatrix);
  ASSERT_TRUE(runs_until(io, [&] { return first.done; }));
  take(second, io, 0, kAskMatrix);
  take(other, io, 0, kAskMatrix);
  ASSERT_TRUE(runs_until(io, [&] { return other.done; }));
  EXPECT_GT(other.connection.outbox->control_bytes(), 0u);
  EXPECT_FALSE(second.done);
  EXPECT_EQ(second.connection.outbox->control_bytes(), 0u);
  EXPECT_TRUE(second.watchdog.holds_back()) << "its clients have to read";
  const std::string answer = read_all(first);
  EXPECT_THAT(answer, testing::HasSubstr("coils 64"));
  ASSERT_TRUE(runs_until(io, [&] { return second.done; }));
  EXPECT_EQ(read_all(second).size(), answer.size());
}

/// Whoever does not read is another: nobody's scan ends for it.
TEST(MessageHandler, WhoWaitsForAnothersLongAnswerIsRefusedAndGoesOn) {
  asio::io_context io;
  const Environment environment = one_at_a_time();
  Handled first(io, environment, "10.0.0.1:1"), second(io, environment, "10.0.0.1:2");
  keep_noise(environment, first, 64);
  take(first, io, 0, kAskMatrix);
  ASSERT_TRUE(runs_until(io, [&] { return first.done; }));
  take(second, io, 0, kAskMatrix);
  ASSERT_TRUE(runs_until(io, [&] { return second.done; }));
  EXPECT_THAT(read_all(second), testing::HasSubstr("refused: another answer for this address has not been read"));
  EXPECT_FALSE(second.connection.ending());
  read_all(first);
  second.take(io, kAskMatrix);
  ASSERT_TRUE(runs_until(io, [&] { return second.done; }));
  EXPECT_THAT(read_all(second), testing::HasSubstr("coils 64"));
}

TEST(MessageHandler, ALongAnswerIsPaidForOrRefused) {
  asio::io_context io;
  numerics::ResourceOptions options = test_resource_options();
  options.memory_budget = 64 << 20;
  const Environment environment = one_at_a_time({}, std::make_shared<numerics::Resources>(options));
  Handled handled(io, environment, "10.0.0.1:1");
  keep_noise(environment, handled, 64);
  const std::uint64_t before = handled.connection.status->account->used();
  take(handled, io, 0, kAskMatrix);
  ASSERT_TRUE(runs_until(io, [&] { return handled.done; }));
  const std::uint64_t paid = handled.connection.status->account->used() - before;
  const std::string answer = read_all(handled);
  EXPECT_GE(paid, answer.size()) << "while it is not read";
  EXPECT_LE(paid, answer.size() + protocol::SlabPool::kSlabBytes + 1000) << "no longer for what it was made of";

  const std::uint64_t others = environment.memory->left() - 10000;
  ASSERT_TRUE(environment.memory->take_if_it_fits(others));
  handled.take(io, kAskMatrix + wire::query("echotrain::version", 2));
  ASSERT_TRUE(runs_until(io, [&] { return handled.done; }));
  EXPECT_THAT(read_all(handled), testing::HasSubstr("refused: the server has no memory for this answer now"));
  EXPECT_FALSE(handled.connection.ending());
  environment.memory->give(others);
}

TEST(MessageHandler, AScanThatComesWhileOthersHoldAllMemoryWaits) {
  asio::io_context io;
  numerics::ResourceOptions options = test_resource_options();
  options.memory_budget = 64 << 20;
  const Environment environment = one_at_a_time({}, std::make_shared<numerics::Resources>(options));
  environment.memory->add(65 << 20);  // unfinished messages of other sessions, say
  Handled handled(io, environment, "10.0.0.1:1");
  // The config has come, and a part of what follows; a slab is held for it.
  take(handled, io, 0, wire::text("x").substr(0, 3));
  ASSERT_TRUE(runs_until(io, [&] { return handled.done; }));
  EXPECT_FALSE(handled.connection.ending());
  EXPECT_GT(handled.connection.status->account->used(), 0u) << "it counts, though it is not refused";
  // More than a slab is refused as before.
  handled.connection.status->account->add(2 << 20);
  handled.take(io, "\0");
  ASSERT_TRUE(runs_until(io, [&] { return handled.done; }));
  EXPECT_TRUE(handled.connection.ending());
  handled.connection.status->account->give(2 << 20);
  environment.memory->give(65 << 20);
}

}  // namespace
}  // namespace echotrain::server
