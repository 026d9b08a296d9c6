#include "server/listener.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "server/log.h"

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;

namespace {

// Connections over the session limit that are told so at one time; more are simply closed.
constexpr std::int64_t kMostRefusals = 32;

tcp::endpoint resolve(asio::io_context& context, const config::ServerOptions& options) {
  const auto port = static_cast<std::uint16_t>(options.port);
  error_code error;
  const asio::ip::address address = asio::ip::make_address(options.bind, error);
  if (!error) return {address, port};
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(tcp::v4(), options.bind, "", error);
  if (error || found.empty())
    throw std::runtime_error(
        fmt::format("cannot listen on '{}': it is no address of this machine ({}); try --bind 127.0.0.1, "
                    "or --bind 0.0.0.0 for every interface",
                    options.bind, error.message()));
  return {found.begin()->endpoint().address(), port};
}

std::string text_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

}  // namespace

Listener::Listener(asio::io_context& context, const Environment& environment, std::function<void()> emptied)
    : context_(context),
      environment_(environment),
      emptied_(std::move(emptied)),
      acceptor_(asio::make_strand(context)),
      endpoint_(resolve(context, environment.options)) {
  try {
    acceptor_.open(endpoint_.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    if (endpoint_.address().is_v6()) acceptor_.set_option(asio::ip::v6_only(false));
    acceptor_.bind(endpoint_);
    acceptor_.listen();
    endpoint_ = acceptor_.local_endpoint();
  } catch (const boost::system::system_error& error) {
    throw std::runtime_error(
        fmt::format("cannot listen on {}: {}; stop the program that uses this port, or choose another "
                    "address and port with --bind and --port (0 takes any free port)",
                    text_of(endpoint_), error.code().message()));
  }
}

std::string Listener::address() const { return text_of(endpoint_); }

void Listener::start() { asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached); }

asio::awaitable<void> Listener::accept() {
  asio::steady_timer pause(acceptor_.get_executor());
  while (acceptor_.is_open()) {
    error_code error;
    std::string problem;
    try {
      tcp::socket socket(asio::make_strand(context_));
      co_await acceptor_.async_accept(socket, redirect_error(use_awaitable, error));
      if (!error)
        add(std::move(socket));
      else if (error != asio::error::operation_aborted && error != asio::error::connection_aborted)
        problem = error.message();
    } catch (const std::exception& thrown) {
      problem = thrown.what();
    }
    if (!problem.empty()) {
      // Most likely out of descriptors or memory: sessions that end give some back.
      write_log(LogLevel::error, fmt::format("cannot accept a connection: {}", problem));
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(redirect_error(use_awaitable, error));
    }
  }
}

void Listener::add(tcp::socket socket) {
  const std::int64_t limit = environment_.options.max_sessions;
  std::shared_ptr<Session> session;
  std::optional<protocol::Error> refusal;
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_)
      refusal = {"shutdown", "the server is shutting down; send the measurement again later"};
    else if (served_ >= limit)
      refusal = {"busy", fmt::format("the server already runs {} sessions, its limit; try again later", limit)};
    if (refusal && refused_ >= kMostRefusals) return;
    const std::uint64_t id = ++last_id_;
    session = std::make_shared<Session>(std::move(socket), id, environment_,
                                        [this, id, refused = refusal.has_value()] { remove(id, refused); });
    sessions_[id] = session;
    ++(refusal ? refused_ : served_);
  }
  // A session's members belong to its strand.
  asio::post(session->executor(), [session, refusal] {
    if (refusal)
      session->refuse(*refusal);
    else
      session->start();
  });
}

void Listener::remove(std::uint64_t id, bool refused) {
  bool idle = false, empty = false;
  {
    const std::scoped_lock lock(mutex_);
    sessions_.erase(id);
    --(refused ? refused_ : served_);
    idle = sessions_.empty();
    empty = stopping_ && idle;
  }
  give_back_free_memory(idle);
  if (empty) emptied_();
}

void Listener::stop() {
  asio::post(acceptor_.get_executor(), [this] {
    error_code ignored;
    acceptor_.close(ignored);
    bool empty = false;
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      empty = sessions_.empty();
    }
    shut_down_sessions(false);
    if (empty) emptied_();
  });
}

void Listener::stop_sessions_now() { shut_down_sessions(true); }

void Listener::shut_down_sessions(bool now) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, session] : sessions_) session->shut_down(now);
}

}  // namespace echotrain::server
