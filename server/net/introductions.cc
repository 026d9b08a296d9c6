#include "server/net/introductions.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "server/base/log.h"
#include "server/net/proxy_header.h"

namespace echotrain::server {

using asio::ip::tcp;

asio::awaitable<std::optional<tcp::endpoint>> Introductions::client_of(std::shared_ptr<tcp::socket> socket,
                                                                       tcp::endpoint balancer) {
  if (stopped_) co_return std::nullopt;
  const auto place = open_.insert(open_.end(), socket);
  // The handler may run after the header has come: it closes a socket, then, that nobody uses.
  asio::steady_timer deadline(strand_, patience_);
  auto late = std::make_shared<bool>(false);
  deadline.async_wait([socket, late](const error_code& cancelled) {
    if (cancelled) return;
    *late = true;
    error_code ignored;
    socket->close(ignored);
  });
  const protocol::Result<std::optional<tcp::endpoint>> client = co_await read_proxy_header(*socket);
  open_.erase(place);
  if (client) co_return client->value_or(balancer);
  if (!stopped_)
    write_log(LogLevel::warning, fmt::format("closed a connection of {}, which is in proxy_from: its PROXY header {}",
                                             balancer.address().to_string(),
                                             *late ? fmt::format("did not come within {} s",
                                                                 std::chrono::duration<double>(patience_).count())
                                                   : "cannot be used: " + client.error().message));
  co_return std::nullopt;
}

void Introductions::stop() {
  stopped_ = true;
  error_code ignored;
  for (const std::shared_ptr<tcp::socket>& socket : open_) socket->close(ignored);
}

}  // namespace echotrain::server
