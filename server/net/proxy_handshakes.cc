#include "server/net/proxy_handshakes.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "server/base/log.h"
#include "server/net/proxy_header.h"

namespace echotrain::server {

using asio::ip::tcp;

namespace {
constexpr std::chrono::seconds kQuietAboutDrops(10);  // between two lines of the log
}  // namespace

asio::awaitable<std::optional<tcp::endpoint>> ProxyHandshakes::client_of(std::shared_ptr<tcp::socket> socket,
                                                                         tcp::endpoint balancer) {
  if (stopped_) co_return std::nullopt;
  const Entry entry(open_, {socket, Clock::now()});
  // The handler may run after the header has come: then it closes a socket that nobody uses.
  asio::steady_timer deadline(strand_, patience_);
  auto late = std::make_shared<bool>(false);
  deadline.async_wait([socket, late](const error_code& cancelled) {
    if (cancelled) return;
    *late = true;
    error_code ignored;
    socket->close(ignored);
  });
  const protocol::Result<std::optional<tcp::endpoint>> client = co_await read_proxy_header(*socket);
  const bool dropped = entry->dropped;
  if (client && !dropped) co_return client->value_or(balancer);
  if (dropped)
    tell_of_drop(balancer);
  else if (!stopped_ && log_->may_write(balancer.address().to_string()))
    write_log(LogLevel::warning, fmt::format("closed a connection of {}, which is in proxy_from: its PROXY header {}",
                                             balancer.address().to_string(),
                                             *late ? fmt::format("did not come within {} s",
                                                                 std::chrono::duration<double>(patience_).count())
                                                   : "cannot be used: " + client.error().message));
  co_return std::nullopt;
}

void ProxyHandshakes::make_room() {
  // One that was dropped gives its place back as soon as its coroutine goes on.
  if (open_.empty() || open_.front().dropped || Clock::now() - open_.front().since < kGrace) return;
  open_.front().dropped = true;
  error_code ignored;
  open_.front().socket->close(ignored);
}

void ProxyHandshakes::tell_of_drop(const tcp::endpoint& balancer) {
  const Clock::time_point now = Clock::now();
  if (told_of_drop_ && now - *told_of_drop_ < kQuietAboutDrops) return;
  told_of_drop_ = now;
  write_log(LogLevel::warning, fmt::format("as many connections of balancers have not sent their PROXY header as may "
                                           "(max_connecting): for further ones the oldest is closed, of {} now",
                                           balancer.address().to_string()));
}

void ProxyHandshakes::stop() {
  stopped_ = true;
  error_code ignored;
  for (const Open& each : open_) each.socket->close(ignored);
}

}  // namespace echotrain::server
