#include "server/systemd_notifier.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "server/base/log.h"

namespace echotrain::server {

namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Returns the socket's address for sendto(); empty if `path` is no Unix socket's. "@name" is a name outside the file
/// system.
std::string address_of(std::string_view path) {
  sockaddr_un address{};
  if (path.empty() || (path[0] != '/' && path[0] != '@') || path.size() >= sizeof(address.sun_path)) return "";
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  return {reinterpret_cast<const char*>(&address), offsetof(sockaddr_un, sun_path) + path.size()};
}

}  // namespace

SystemdNotifier::SystemdNotifier() {
  const std::string_view path = environment("NOTIFY_SOCKET");
  if (path.empty()) return;
  address_ = address_of(path);
  if (address_.empty()) {
    write_log(LogLevel::warning,
              "NOTIFY_SOCKET is not the address of a Unix socket; the service manager gets no messages");
    return;
  }
  socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const std::optional<std::int64_t> period_us = number(environment("WATCHDOG_USEC"));
  const std::optional<std::int64_t> pid = number(environment("WATCHDOG_PID"));
  if (period_us && *period_us > 0 && (!pid || *pid == ::getpid())) watchdog_ = std::chrono::microseconds(*period_us);
}

SystemdNotifier::~SystemdNotifier() {
  if (socket_ >= 0) ::close(socket_);
}

void SystemdNotifier::send(std::string_view lines) const {
  if (socket_ < 0) return;
  static_cast<void>(::sendto(socket_, lines.data(), lines.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const sockaddr*>(address_.data()),
                             static_cast<socklen_t>(address_.size())));
}

}  // namespace echotrain::server
