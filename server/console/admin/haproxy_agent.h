// The agent port answers HAProxy's agent-check with a line: whether this server should be given scans, and how many.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <string>

#include "server/base/service_port.h"
#include "server/base/signal.h"
#include "server/session/environment.h"

namespace echotrain::server {

/// Returns how many scans may run at a time: the places of the default backend (of pipelines that choose none), or
/// max_sessions if that is less. At least 1.
std::int64_t scan_capacity(const Environment& environment);

/// The line, without its end: "ready up maxconn:8", "drain", "down #no GPU works". Source of the words: HAProxy's
/// manual, agent-check. "ready" undoes the "drain" that a server sent from this address before its restart.
std::string agent_line(const Environment& environment);

/// Answers each connection with the line and closes it. Incoming bytes are ignored.
class HaproxyAgent final : public ServicePort {
 public:
  /// Binds to admin.bind and admin.agent_port. Throws std::runtime_error that says what to do when that fails.
  HaproxyAgent(asio::io_context& context, const Environment& environment);

  void start() override;
  void stop() override;

  const asio::ip::tcp::endpoint& endpoint() const override { return endpoint_; }

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
