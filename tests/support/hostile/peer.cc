#include "tests/support/hostile/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <thread>

namespace echotrain::hostile {
namespace {

constexpr milliseconds kSlice{100};  // how soon a client hears that it is time to end

int wait_for(int fd, short events, milliseconds time) {
  pollfd one{fd, events, 0};
  return ::poll(&one, 1, static_cast<int>(std::clamp(time, milliseconds(1), kSlice).count())) > 0 ? one.revents : 0;
}

milliseconds left_until(Clock::time_point end) { return std::chrono::ceil<milliseconds>(end - Clock::now()); }

}  // namespace

Peer::Peer(const Target& target, Counts& counts)
    : target_(target), counts_(counts), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
  // The port is chosen when the connection is made, so that two connections to different servers may share one.
  const int one = 1;
  const linger reset{1, 0};
  ::setsockopt(fd_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  bool connected = ::bind(fd_, reinterpret_cast<const sockaddr*>(&target.source), sizeof target.source) == 0;
  if (connected && ::connect(fd_, reinterpret_cast<const sockaddr*>(&target.server), sizeof target.server) != 0) {
    const auto until = Clock::now() + milliseconds(5000);
    int events = 0;
    while (errno == EINPROGRESS && events == 0 && !ending() && Clock::now() < until) {
      events = wait_for(fd_, POLLOUT, kSlice);
      errno = EINPROGRESS;
    }
    connected = (events & POLLOUT) != 0 && (events & (POLLERR | POLLHUP)) == 0;
  }
  ++(connected ? counts_.connections : counts_.unreachable);
  if (connected) return;
  ::close(fd_);
  fd_ = -1;
}

Peer::~Peer() {
  if (fd_ >= 0) ::close(fd_);
}

bool Peer::ending() const { return target_.stop->load() || Clock::now() >= target_.end; }

bool Peer::receive() {
  std::array<std::byte, 1 << 16> room;
  const ssize_t n = ::recv(fd_, room.data(), room.size(), 0);
  if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
  counts_.received += static_cast<std::uint64_t>(n);
  const std::string_view text(reinterpret_cast<const char*>(room.data()), static_cast<std::size_t>(n));
  if (!complained_ && text.find("ERROR    ") != text.npos) {
    complained_ = true;
    ++(text.find("ERROR    busy") != text.npos ? counts_.refused : counts_.errors);
  }
  return true;
}

bool Peer::exchange(std::span<const std::byte> bytes, bool read, milliseconds patience) {
  auto progress = Clock::now();
  while (fd_ >= 0 && !bytes.empty()) {
    if (ending() || Clock::now() - progress > patience) return false;
    const int events = wait_for(fd_, read ? POLLIN | POLLOUT : POLLOUT, kSlice);
    if ((events & POLLIN) != 0 && !receive()) return false;
    if ((events & (POLLERR | POLLHUP)) != 0) return false;
    if ((events & POLLOUT) == 0) continue;
    const ssize_t n = ::send(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 18), MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (n <= 0) continue;
    counts_.sent += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    progress = Clock::now();
  }
  return fd_ >= 0;
}

bool Peer::read_for(milliseconds time) {
  const auto end = Clock::now() + time;
  while (fd_ >= 0 && !ending()) {
    if (Clock::now() >= end) return true;
    if (wait_for(fd_, POLLIN, left_until(end)) != 0 && !receive()) return false;
  }
  return false;
}

void Peer::wait(milliseconds time) const {
  const auto end = Clock::now() + time;
  while (fd_ >= 0 && !ending() && Clock::now() < end) std::this_thread::sleep_for(std::min(kSlice, left_until(end)));
}

void Peer::finish(milliseconds patience) {
  if (fd_ < 0) return;
  ::shutdown(fd_, SHUT_WR);
  read_for(patience);
}

}  // namespace echotrain::hostile
