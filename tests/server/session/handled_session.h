// The parts of a session are used by hand, without its coroutines and a socket.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "server/session/message_handler.h"
#include "tests/server/wire.h"

namespace echotrain::server {

/// A session of an Environment, whose reads are given to it by hand.
struct Handled {
  Handled(asio::io_context& io, const Environment& environment, std::string peer = "peer")
      : connection(make_plain_transport(StreamSocket(io)), io.get_executor(), std::move(peer), 1, environment),
        state_machine(environment.catalogue, environment.limits, *environment.resources),
        capture(connection, state_machine),
        watchdog(connection),
        scan(connection, watchdog),
        handler(connection, state_machine, capture, watchdog, scan) {
    state_machine.set_client({connection.status->peer, "", environment.identities.get(), nullptr, false});
  }

  /// One read brings these bytes.
  void take(asio::io_context& io, const std::string& bytes) {
    const std::span<std::byte> room = handler.room();
    ASSERT_GE(room.size(), bytes.size());
    std::transform(bytes.begin(), bytes.end(), room.begin(), [](char c) { return static_cast<std::byte>(c); });
    handler.commit(bytes.size());
    done = false;
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

/// Runs what is to be done until `condition` holds. False: it did not come to hold within 20 s.
template <class Condition>
bool runs_until(asio::io_context& io, const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    io.restart();
    io.run_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace echotrain::server
