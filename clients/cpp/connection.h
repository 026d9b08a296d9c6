// A TCP connection to a server, with timeouts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

namespace echotrain::client {

/// The connection could not be made or broke. The text says what happened and what to check.
class ConnectionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One thread may read while another one writes.
class Connection {
 public:
  /// Tries every address of `host` in turn.
  Connection(const std::string& host, std::uint16_t port, std::chrono::duration<double> timeout);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Writes all bytes. Returns false, perhaps after some of them, once `stop` is set. ConnectionError when the peer is
  /// gone or takes nothing for the timeout.
  bool write(std::span<const std::byte> bytes, const std::atomic<bool>& stop);
  /// Nothing more will be written; the peer sees the end of the stream and may go on sending.
  void finish_writing();
  /// Bytes read; 0 when the peer has closed; nothing when none came within `wait`.
  std::optional<std::size_t> read(std::span<std::byte> room, std::chrono::milliseconds wait);

 private:
  int socket_ = -1;
  std::chrono::duration<double> timeout_;
};

}  // namespace echotrain::client
