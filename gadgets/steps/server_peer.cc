#include "gadgets/steps/server_peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "gadgets/api/errors.h"
#include "gadgets/steps/stream_peer.h"

namespace echotrain {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr std::chrono::milliseconds kLook{50};  // interval of looks at the stop token

struct HostAndPort {
  std::string host, port;
};

std::optional<HostAndPort> split_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  HostAndPort out{address.substr(0, colon), address.substr(colon + 1)};
  if (out.host.starts_with('[') && out.host.ends_with(']')) out.host = out.host.substr(1, out.host.size() - 2);
  int port = 0;
  const char* end = out.port.data() + out.port.size();
  const auto [stopped, error] = std::from_chars(out.port.data(), end, port);
  if (error != std::errc() || stopped != end || port < 1 || port > 65535 || out.host.empty()) return std::nullopt;
  const bool good = std::all_of(out.host.begin(), out.host.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == ':' || c == '_' || c == '%';
  });
  return good ? std::optional(out) : std::nullopt;
}

/// The result of getaddrinfo(), which has no time limit: a caller that stops waiting leaves it to its thread.
struct Lookup {
  std::mutex mutex;
  std::condition_variable_any done;
  bool ready = false;
  int error = 0;
  addrinfo* found = nullptr;
  Lookup() = default;
  ~Lookup() {
    if (found != nullptr) ::freeaddrinfo(found);
  }
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
};

std::shared_ptr<Lookup> look_up(const HostAndPort& where, Time until, const std::stop_token& stop) {
  auto lookup = std::make_shared<Lookup>();
  try {
    std::thread([lookup, where] {
      addrinfo hints{};
      hints.ai_socktype = SOCK_STREAM;
      addrinfo* found = nullptr;
      const int error = ::getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &found);
      {
        const std::scoped_lock lock(lookup->mutex);
        lookup->ready = true;
        lookup->error = error;
        lookup->found = found;
      }
      lookup->done.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    throw ResourceError("there is no thread left to look up an address");
  }
  std::unique_lock lock(lookup->mutex);
  lookup->done.wait_until(lock, stop, until, [&] { return lookup->ready; });
  if (stop.stop_requested()) throw numerics::Stopped();
  return lookup;
}

/// Returns no value, and sets `errno`, when it cannot connect.
std::optional<OwnDescriptor> connect_to_one(const addrinfo& to, Time until, const std::stop_token& stop) {
  OwnDescriptor socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) return std::nullopt;
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket.get(), to.ai_addr, to.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return std::nullopt;
  for (;;) {
    if (stop.stop_requested()) throw numerics::Stopped();
    pollfd ready{socket.get(), POLLOUT, 0};
    if (::poll(&ready, 1, static_cast<int>(kLook.count())) > 0) break;
    if (std::chrono::steady_clock::now() >= until) {
      errno = ETIMEDOUT;
      return std::nullopt;
    }
  }
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) return socket;
  errno = error;
  return std::nullopt;
}

}  // namespace

bool is_server_address(const std::string& address) { return split_address(address).has_value(); }

std::unique_ptr<Peer> connect_to_server(const std::string& address, std::chrono::milliseconds timeout,
                                        const std::stop_token& stop, const PeerScan& scan) {
  const auto fail = [&](const std::string& why) -> ResourceError {
    return ResourceError(fmt::format("mrd_server: {} cannot be reached within {} s: {}", address,
                                     static_cast<double>(timeout.count()) / 1000, why));
  };
  const std::optional<HostAndPort> where = split_address(address);
  if (!where) throw fail("it is not HOST:PORT");
  const Time until = std::chrono::steady_clock::now() + timeout;
  const std::shared_ptr<Lookup> lookup = look_up(*where, until, stop);
  const std::scoped_lock lock(lookup->mutex);
  if (!lookup->ready) throw fail("its name was not found in time");
  if (lookup->error != 0) throw fail(::gai_strerror(lookup->error));
  std::string why = "it has no address";
  for (const addrinfo* each = lookup->found; each != nullptr; each = each->ai_next) {
    if (auto socket = connect_to_one(*each, until, stop))
      return std::make_unique<StreamPeer>(std::move(*socket), OwnDescriptor(), scan);
    why = std::strerror(errno);
  }
  throw fail(why);
}

}  // namespace echotrain
