// The port for HAProxy's agent-check: a line that says whether this server should be given scans, and how many.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <string>

#include "server/base/signal.h"
#include "server/session/environment.h"

namespace echotrain::server {

/// How many scans may run at a time: the places of the backend that pipelines get which do not choose one, or
/// max_sessions if that is less. At least 1.
std::int64_t scan_capacity(const Environment& environment);

/// The line, without its end: "ready up maxconn:8", "drain", "down #no GPU works". Words as in HAProxy's manual,
/// agent-check. "ready" takes back the "drain" that a server said at this address before it was started again.
std::string agent_line(const Environment& environment);

/// Answers each connection with the line and closes it. What comes in is ignored.
class Agent {
 public:
  /// Binds to admin.bind and admin.agent_port. Throws std::runtime_error that says what to do when that fails.
  Agent(asio::io_context& context, const Environment& environment);

  void start();
  /// Accepts no more. From any thread, as is start().
  void stop();

  const asio::ip::tcp::endpoint& endpoint() const { return endpoint_; }

 private:
  asio::awaitable<void> accept();
  asio::awaitable<void> answer(asio::ip::tcp::socket socket);

  const Environment& environment_;
  const asio::strand<asio::io_context::executor_type> strand_;
  asio::ip::tcp::acceptor acceptor_;
  asio::ip::tcp::endpoint endpoint_;
  int connections_ = 0;  // on the strand
};

}  // namespace echotrain::server
