// What a session does with the bytes that one read has brought, beside other sessions of the same thread.
#include "server/session/message_handler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <string>

#include "tests/server/wire.h"
#include "tests/support/resources.h"

namespace echotrain::server {
namespace {

/// A slab of small messages takes many milliseconds, and a server has few threads for all its sessions.
TEST(MessageHandler, OthersHaveTheirTurnBetweenManySmallMessages) {
  asio::io_context io;
  const config::ServerOptions options;
  const Environment environment =
      make_environment(options, config::PipelineLibrary({ECHOTRAIN_SOURCE_DIR "/config/pipelines"}),
                       Registry::builtin(), test_resources());
  Connection connection(make_plain_transport(StreamSocket(io)), io.get_executor(), "peer", 1, environment);
  Dialogue dialogue(environment.catalogue, environment.limits, *environment.resources);
  SessionCapture capture(connection, dialogue);
  Watchdog watchdog(connection);
  ScanRunner scan(connection, watchdog);
  MessageHandler handler(connection, dialogue, capture, watchdog, scan);
  std::string bytes = wire::config("cartesian_2d");
  for (int i = 0; i < 1000; ++i) bytes += wire::text("x");
  const std::span<std::byte> room = handler.room();
  ASSERT_GE(room.size(), bytes.size());
  std::transform(bytes.begin(), bytes.end(), room.begin(), [](char c) { return static_cast<std::byte>(c); });
  handler.commit(bytes.size());
  bool done = false;
  int turns = 0;
  asio::co_spawn(io, handler.consume(), [&](const std::exception_ptr& thrown) {
    EXPECT_FALSE(thrown);
    done = true;
  });
  const std::function<void()> other = [&] {
    if (done) return;
    ++turns;
    asio::post(io, other);
  };
  asio::post(io, other);
  io.run();
  EXPECT_TRUE(done);
  EXPECT_FALSE(handler.inside_message());
  EXPECT_GE(turns, 10);
}

}  // namespace
}  // namespace echotrain::server
