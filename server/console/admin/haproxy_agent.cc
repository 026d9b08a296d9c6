#include "server/console/admin/haproxy_agent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>

#include "server/console/admin/admin_port.h"
#include "server/session/listener.h"

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;

namespace {

constexpr int kMostConnections = 64;
constexpr int kMostReads = 16;
constexpr std::size_t kMostReason = 100;
constexpr std::chrono::seconds kPatience{1};

/// One line of printable characters, without the '#' that begins a reason.
std::string plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~' || c == '#'; }, ' ');
  return text.substr(0, kMostReason);
}

}  // namespace

std::int64_t scan_capacity(const Environment& environment) {
  std::int64_t gpus = 0, cpu = 0;
  for (const Place& place : environment.compute->places())
    (place.backend == numerics::Backend::cuda ? gpus : cpu) += place.capacity;
  const bool on_gpus = gpus > 0 && environment.options.backend != config::BackendChoice::cpu;
  return std::max<std::int64_t>(1, std::min(on_gpus ? gpus : cpu, environment.options.max_sessions));
}

std::string agent_line(const Environment& environment) {
  switch (environment.readiness->state()) {
    case Readiness::State::ready:
      return fmt::format("ready up maxconn:{}", scan_capacity(environment));
    case Readiness::State::draining:
      return "drain";
    case Readiness::State::starting:
    case Readiness::State::broken:
      break;
  }
  return "down #" + plain(environment.readiness->reason());
}

HaproxyAgent::HaproxyAgent(asio::io_context& context, const Environment& environment)
    : environment_(environment),
      strand_(asio::make_strand(context)),
      acceptor_(strand_),
      endpoint_(admin_endpoint(environment.options.admin, environment.options.admin.agent_port)) {
  try {
    acceptor_.open(endpoint_.protocol());
    acceptor_.set_option(asio::ip::tcp::acceptor::reuse_address(true));
    acceptor_.bind(endpoint_);
    acceptor_.listen();
    endpoint_ = acceptor_.local_endpoint();
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error(fmt::format(
        "cannot answer HAProxy's agent-check on {}: {}; choose another port with --admin-agent-port (0 takes any free "
        "one), or do without: -1",
        text_of(endpoint_), error.code().message()));
  }
}

void HaproxyAgent::start() { asio::co_spawn(strand_, accept(), asio::detached); }

void HaproxyAgent::stop() {
  asio::post(strand_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
  });
}

asio::awaitable<void> HaproxyAgent::accept() {
  asio::steady_timer pause(strand_);
  while (acceptor_.is_open()) {
    asio::ip::tcp::socket socket(strand_);
    error_code error;
    co_await acceptor_.async_accept(socket, redirect_error(use_awaitable, error));
    if (!error && connections_ < kMostConnections) {
      ++connections_;
      asio::co_spawn(strand_, answer(std::move(socket)), [this](const std::exception_ptr&) { --connections_; });
    } else if (error && acceptor_.is_open()) {  // out of descriptors, most likely
      pause.expires_after(kPauseAfterError);
      co_await pause.async_wait(redirect_error(use_awaitable, error));
    }
  }
}

asio::awaitable<void> HaproxyAgent::answer(asio::ip::tcp::socket socket) {
  boost::beast::tcp_stream stream(std::move(socket));
  stream.expires_after(kPatience);
  error_code error;
  const std::string line = agent_line(environment_) + "\n";
  co_await asio::async_write(stream, asio::buffer(line), redirect_error(use_awaitable, error));
  if (error) co_return;
  stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  // With something unread (agent-send), closing would send a reset, which may cost the other side the line.
  std::array<char, 256> ignored{};
  for (int i = 0; i < kMostReads && !error; ++i)
    co_await stream.async_read_some(asio::buffer(ignored), redirect_error(use_awaitable, error));
}

}  // namespace echotrain::server
