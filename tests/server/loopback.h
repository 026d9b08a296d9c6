// Loopback is a plain POSIX socket to a port of this machine.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace echotrain::server {

class Loopback {
 public:
  /// `from`: the loopback address it comes from, as 2 of 127.0.0.2. receive_buffer: 0 for the system's.
  explicit Loopback(std::uint16_t port, std::uint32_t from = 1, int receive_buffer = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
    if (from != 1 && ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("bind: " + std::string(std::strerror(errno)));
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("connect: " + std::string(std::strerror(errno)));
  }
  ~Loopback() { close(); }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  /// False when the server no longer takes bytes.
  bool send(const std::string& bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<std::size_t>(n);
    }
    return true;
  }
  /// Appends what comes next to received(). False at the end of the stream, or when nothing comes in time.
  bool receive_some(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    if (eof_ || reset_) return false;
    pollfd poll_fd{fd_, POLLIN, 0};
    if (::poll(&poll_fd, 1, static_cast<int>(patience.count())) <= 0) return false;
    char bytes[65536];
    const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
    eof_ = n == 0;
    reset_ = n < 0;
    if (n > 0) buffer_.append(bytes, static_cast<std::size_t>(n));
    return n > 0;
  }
  const std::string& received() const { return buffer_; }
  bool eof() const { return eof_; }  ///< the server has ended the stream in order
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 protected:
  int fd_;
  std::string buffer_;
  bool eof_ = false, reset_ = false;
};

}  // namespace echotrain::server
