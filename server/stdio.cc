#include "server/stdio.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "server/session/session.h"

namespace echotrain::server {

namespace {

constexpr std::size_t kPiece = 256 << 10;

// False when the bytes cannot be written.
bool write_all(int descriptor, const std::byte* bytes, std::size_t n) {
  while (n > 0) {
    const ssize_t written = ::write(descriptor, bytes, n);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    n -= static_cast<std::size_t>(written);
  }
  return true;
}

// Copies until `in` ends or the session has closed its side, so that an input without end keeps no session waiting.
void pump_in(int in, int socket) {
  std::array<std::byte, kPiece> buffer;
  for (;;) {
    std::array<pollfd, 2> both{{{in, POLLIN, 0}, {socket, 0, 0}}};
    if (::poll(both.data(), both.size(), -1) < 0 && errno != EINTR) break;
    if ((both[1].revents & (POLLHUP | POLLERR)) != 0) return;
    if (both[0].revents == 0) continue;
    const ssize_t n = ::read(in, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || !write_all(socket, buffer.data(), static_cast<std::size_t>(n))) break;
  }
  ::shutdown(socket, SHUT_WR);
}

// Copies until the session's last byte. False when the output's reader has gone.
bool pump_out(int socket, int out) {
  std::array<std::byte, kPiece> buffer;
  for (;;) {
    const ssize_t n = ::read(socket, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    if (!write_all(out, buffer.data(), static_cast<std::size_t>(n))) return false;
  }
}

}  // namespace

// Descriptors may be files, for which the kernel gives no events, so the session has a socket pair and two threads move
// the bytes.
bool serve_descriptors(const Environment& environment, int in, int out) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone is an error of write()
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a socket pair");
  const int ours = pair[0];

  static auto& context = *new asio::io_context;  // never destroyed: a scan that was given up may still post to it
  const auto strand = asio::make_strand(context);
  asio::local::stream_protocol::socket socket(strand, asio::local::stream_protocol(), pair[1]);
  const auto session = std::make_shared<Session>(make_plain_transport(std::move(socket), /*authenticated=*/true),
                                                 strand, "stdio", 1, environment, [] {});
  asio::post(strand, [&session] { session->start(); });

  bool read_to_the_end = false;
  std::thread reader([in, ours] { pump_in(in, ours); });
  std::thread writer([&read_to_the_end, out, ours] {
    read_to_the_end = pump_out(ours, out);
    // Before it closes, the session waits for the end of its input. Nothing more comes here.
    ::shutdown(ours, SHUT_RDWR);
  });
  run_context(context, environment);
  reader.join();
  writer.join();
  environment.end_texts();
  ::close(ours);
  return session->outcome() == "complete" && read_to_the_end;
}

}  // namespace echotrain::server
