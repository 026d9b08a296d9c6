// A connection is TCP to a server, plain or under TLS, with timeouts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
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

/// The server speaks TLS, and we did not.
class TlsWanted : public ConnectionError {
 public:
  TlsWanted() : ConnectionError("the server speaks TLS on this port: add --tls") {}
};

/// The files by which the server proves its identity to us, and we prove ours. All are PEM.
struct TlsSettings {
  std::filesystem::path ca;           ///< certificates to trust; empty: those that the system trusts
  std::filesystem::path certificate;  ///< our own; empty: none
  std::filesystem::path key;          ///< of the certificate
};

/// The place of the server, and how to reach it.
struct ServerAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;
  std::optional<TlsSettings> tls;  ///< empty: plain
};

class TlsLayer;

/// A connection to a server. One thread may read while another one writes.
class ServerConnection {
 public:
  /// Tries every address of the host in turn. Under TLS the server's certificate must be trusted and be for `host`.
  ServerConnection(const ServerAddress& server, std::chrono::duration<double> timeout);
  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  /// Writes all bytes. Returns false, perhaps after some of them, once `stop` is set. Throws ConnectionError when the
  /// peer is gone or takes nothing for the timeout.
  bool write(std::span<const std::byte> bytes, const std::atomic<bool>& stop);
  /// Ends writing; the peer sees the end of the stream and may go on sending.
  void finish_writing();
  /// Returns how many bytes were read; 0 when the peer has closed; nothing when none came within `wait`.
  std::optional<std::size_t> read(std::span<std::byte> room, std::chrono::milliseconds wait);

 private:
  void connect(const ServerAddress& server);

  int socket_ = -1;
  std::chrono::duration<double> timeout_;
  std::unique_ptr<TlsLayer> tls_;  // null: plain
};

}  // namespace echotrain::client
