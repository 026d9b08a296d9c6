// The TLS layer is TLS on a connected socket that never blocks.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "clients/cpp/connection/server_connection.h"

namespace echotrain::client {

/// Encrypts and decrypts the bytes of one connection. Thread-safe.
class TlsLayer {
 public:
  /// `wait` waits for the socket's `events` and throws when that takes too long. Throws ConnectionError when a file
  /// cannot be used, or the handshake fails: the text says why.
  TlsLayer(int socket, const std::string& host, const TlsSettings& settings,
           const std::function<void(short events)>& wait);
  ~TlsLayer();

  /// The outcome of a call: bytes moved, the orderly end of the peer's bytes, or, with neither, the events to wait for.
  struct Moved {
    std::size_t bytes = 0;
    bool ended = false;
    short events = 0;
  };
  Moved write(std::span<const std::byte> bytes);  ///< ConnectionError when the connection broke
  Moved read(std::span<std::byte> room);          ///< likewise

 private:
  struct Impl;
  template <class Call>
  Moved move(Call call, const char* doing);

  std::mutex mutex_;
  std::unique_ptr<Impl> impl_;
};

/// True if the server answers in TLS on a connection of its own, within a second. For servers that end a plain one
/// without a word.
bool speaks_tls(const ServerAddress& server);

}  // namespace echotrain::client
