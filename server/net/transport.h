// A transport carries the bytes of one connection: plain, or under TLS.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/base/signal.h"

namespace echotrain::server {

/// A stream socket of any family. It belongs to a strand.
using StreamSocket = asio::generic::stream_protocol::socket;

/// A connection's bytes in both directions. One coroutine may read while another one writes, both on the socket's
/// strand. Errors come as a code; the one for the peer's orderly end is asio::error::eof.
class Transport {
 public:
  using Progress = std::function<void(std::uint64_t written)>;
  virtual ~Transport() = default;
  virtual const char* name() const = 0;  ///< "plain" or "TLS"
  /// True if the peer's identity is known: its certificate was checked, or it is the parent process of this one.
  virtual bool authenticated() const = 0;
  /// Returns whom the peer's checked certificate is for: its subject as RFC 2253 writes it ("CN=mr1,O=Clinic"), or,
  /// where it has none, the first of its other names ("DNS:mr1", "URI:...", "email:...", "IP Address:..."). Empty
  /// without one.
  virtual std::string subject() const { return ""; }

  /// Runs work on another thread. Returns false if it was not done because the connection is lost.
  using Offload = std::function<asio::awaitable<bool>(std::function<void()> work)>;
  /// Does the TLS handshake, where there is one, before the first byte; its computations run beside. `why` gets the
  /// text of an error that has one; without an error, why the peer may have nothing but that text.
  virtual asio::awaitable<void> open(const Offload& offload, error_code& error, std::string& why) = 0;
  /// Waits for bytes and reads as many as there are, 1 to room.size().
  virtual asio::awaitable<std::size_t> read_some(asio::mutable_buffer room, error_code& error) = 0;
  /// Writes everything. `progress` hears now and then, and at the end, how many bytes have been written.
  virtual asio::awaitable<void> write(const std::vector<asio::const_buffer>& buffers, const Progress& progress,
                                      error_code& error) = 0;
  /// Says that no more will be written; the peer may go on sending.
  virtual asio::awaitable<void> finish_writing() = 0;

  /// True if the peer has reset the connection, even if no read is under way. What came before can still be read.
  bool is_reset() const;
  /// True if the peer sends no more and none of its bytes are left to read, even if no read is under way.
  bool has_ended() const;

  bool is_open() const { return socket_.is_open() && !closing_; }
  void close();
  /// Closes so that the peer's kernel reports a reset, and drops what was not sent.
  void reset();

 protected:
  explicit Transport(StreamSocket socket) : socket_(std::move(socket)) {}
  /// True if bytes that have left the socket wait for read_some().
  virtual bool holds_input() const { return false; }

  /// Lends the socket to another thread for calls of the kernel, as long as this lives: a close meanwhile takes effect
  /// afterwards. For the strand.
  class DeferredClose {
   public:
    explicit DeferredClose(Transport& transport) : transport_(transport) { transport_.close_deferred_ = true; }
    ~DeferredClose();
    DeferredClose(const DeferredClose&) = delete;
    DeferredClose& operator=(const DeferredClose&) = delete;

   private:
    Transport& transport_;
  };

  StreamSocket socket_;

 private:
  void close_now();
  bool close_deferred_ = false, closing_ = false;
};

/// The threads that write while bytes come about as fast as one can read them: `bytes` within `time`.
struct OffStrandWriter {
  asio::any_io_executor executor{};  ///< that other threads serve beside the socket's strand; none: the strand writes
  std::size_t bytes = 1 << 20;
  std::chrono::nanoseconds time = std::chrono::milliseconds(2);
};

std::unique_ptr<Transport> make_plain_transport(StreamSocket socket, bool authenticated = false,
                                                OffStrandWriter off_strand = {});

/// The certificate, key and authorities of a TLS server, as read from PEM files once.
class TlsContext {
 public:
  /// Throws std::runtime_error that names the file and says what is wrong with it: absent, not PEM, a key that does not
  /// fit the certificate, a certificate that has expired. `client_ca` and `client_crl` may be empty.
  TlsContext(const std::string& certificate, const std::string& key, const std::string& client_ca,
             const std::string& client_crl = "");
  ~TlsContext();
  std::unique_ptr<Transport> make_transport(StreamSocket socket) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::server
