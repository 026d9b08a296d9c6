#include "clients/cpp/connection/server_connection.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include "clients/cpp/connection/tls_layer.h"

namespace echotrain::client {
namespace {

std::string text_of(int error) { return std::generic_category().message(error); }

bool ready(int socket, short events, std::chrono::milliseconds wait) {
  pollfd entry{socket, events, 0};
  const int n = ::poll(&entry, 1, static_cast<int>(wait.count()));
  if (n < 0 && errno != EINTR) throw ConnectionError("poll: " + text_of(errno));
  return n > 0;
}

// Returns 0 when connected, else the errno.
int try_connect(int socket, const addrinfo& address, std::chrono::duration<double> timeout) {
  if (::connect(socket, address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  if (!ready(socket, POLLOUT, std::chrono::duration_cast<std::chrono::milliseconds>(timeout))) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  return error;
}

}  // namespace

ServerConnection::ServerConnection(const ServerAddress& server, std::chrono::duration<double> timeout)
    : timeout_(timeout) {
  connect(server);
  if (!server.tls) return;
  const auto until = std::chrono::steady_clock::now() + timeout;
  try {
    tls_ = std::make_unique<TlsLayer>(socket_, server.host, *server.tls, [&](short events) {
      ready(socket_, events, std::chrono::milliseconds(100));
      if (std::chrono::steady_clock::now() > until)
        throw ConnectionError(fmt::format("'{}' did not answer in TLS within {:g} s; is this its TLS port?",
                                          server.host, timeout_.count()));
    });
  } catch (...) {
    ::close(socket_);
    throw;
  }
}

void ServerConnection::connect(const ServerAddress& server) {
  const auto& [host, port, tls] = server;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0) {
    throw ConnectionError(fmt::format("cannot find host '{}': {}; check --address", host, ::gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    socket_ = ::socket(address->ai_family, address->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address->ai_protocol);
    if (socket_ < 0) {
      error = errno;
      continue;
    }
    error = try_connect(socket_, *address, timeout_);
    if (error == 0) {
      const int on = 1;  // a readout must not wait for the next one
      ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      // A host that has vanished is noticed even while nothing is sent.
      ::setsockopt(socket_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
      const int idle_s = 60;
      ::setsockopt(socket_, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
      return;
    }
    ::close(socket_);
    socket_ = -1;
  }
  throw ConnectionError(
      fmt::format("cannot connect to {}:{}: {}; is echotrain-server running there (--address, --port)?", host, port,
                  text_of(error)));
}

ServerConnection::~ServerConnection() {
  tls_.reset();
  if (socket_ >= 0) ::close(socket_);
}

bool ServerConnection::write(std::span<const std::byte> bytes, const std::atomic<bool>& stop) {
  auto last_progress = std::chrono::steady_clock::now();
  while (!bytes.empty()) {
    if (stop) return false;
    short wait_for = POLLOUT;
    ssize_t n = 0;
    if (tls_) {
      const TlsLayer::Moved moved = tls_->write(bytes);
      n = static_cast<ssize_t>(moved.bytes);
      wait_for = moved.events;
    } else {
      n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        throw ConnectionError("the connection broke while sending: " + text_of(errno));
    }
    if (n > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
      last_progress = std::chrono::steady_clock::now();
      continue;
    }
    // While TLS waits to read before it can write, the reading thread may take its bytes: look again soon.
    ready(socket_, wait_for, std::chrono::milliseconds(wait_for == POLLIN ? 10 : 100));
    if (std::chrono::steady_clock::now() - last_progress > timeout_)
      throw ConnectionError(fmt::format("the server took no data for {:g} s (--timeout)", timeout_.count()));
  }
  return true;
}

void ServerConnection::finish_writing() { ::shutdown(socket_, SHUT_WR); }

std::optional<std::size_t> ServerConnection::read(std::span<std::byte> room, std::chrono::milliseconds wait) {
  if (tls_) {
    TlsLayer::Moved moved = tls_->read(room);  // first: TLS may hold bytes that the socket no longer has
    if (moved.bytes == 0 && !moved.ended) {
      if (!ready(socket_, moved.events, wait)) return std::nullopt;
      moved = tls_->read(room);
    }
    if (moved.bytes == 0 && !moved.ended) return std::nullopt;
    return moved.bytes;
  }
  if (!ready(socket_, POLLIN, wait)) return std::nullopt;
  const ssize_t n = ::recv(socket_, room.data(), room.size(), 0);
  if (n >= 0) return static_cast<std::size_t>(n);
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
  throw ConnectionError("the connection broke while receiving: " + text_of(errno));
}

}  // namespace echotrain::client
