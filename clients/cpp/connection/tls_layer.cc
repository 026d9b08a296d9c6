#include "clients/cpp/connection/tls_layer.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <span>
#include <system_error>

namespace echotrain::client {
namespace {

struct Free {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

/// Returns the reason of the newest error in this thread's queue, and empties the queue.
std::string take_error() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    text = reason != nullptr ? reason : fmt::format("error {:x}", code);
  }
  return text;
}

void require(bool ok, const std::string& what, const std::filesystem::path& file) {
  if (!ok) throw ConnectionError(fmt::format("{} '{}' cannot be used: {}", what, file.string(), take_error()));
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

struct TlsLayer::Impl {
  std::unique_ptr<SSL_CTX, Free> context;
  std::unique_ptr<SSL, Free> ssl;
};

TlsLayer::TlsLayer(int socket, const std::string& host, const TlsSettings& settings,
                   const std::function<void(short)>& wait)
    : impl_(std::make_unique<Impl>()) {
  std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes with plain write(); a peer that has gone is an error
  ERR_clear_error();
  impl_->context.reset(SSL_CTX_new(TLS_client_method()));
  SSL_CTX* context = impl_->context.get();
  if (context == nullptr) throw ConnectionError("OpenSSL cannot start: " + take_error());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (settings.ca.empty())
    SSL_CTX_set_default_verify_paths(context);
  else
    require(SSL_CTX_load_verify_locations(context, settings.ca.c_str(), nullptr) == 1, "--ca", settings.ca);
  if (!settings.certificate.empty()) {
    require(SSL_CTX_use_certificate_chain_file(context, settings.certificate.c_str()) == 1, "--cert",
            settings.certificate);
    require(SSL_CTX_use_PrivateKey_file(context, settings.key.c_str(), SSL_FILETYPE_PEM) == 1, "--key", settings.key);
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);

  impl_->ssl.reset(SSL_new(context));
  SSL* ssl = impl_->ssl.get();
  if (ssl == nullptr) throw std::bad_alloc();
  // An address is compared with the certificate's addresses, a name with its names; only a name is told to the server.
  if (is_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set1_host(ssl, host.c_str());
    SSL_set_tlsext_host_name(ssl, host.c_str());
  }
  SSL_set_fd(ssl, socket);
  SSL_set_connect_state(ssl);
  for (;;) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl);
    if (result == 1) return;
    const int error = SSL_get_error(ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
      continue;
    }
    if (const long code = SSL_get_verify_result(ssl); code != X509_V_OK)
      throw ConnectionError(
          fmt::format("the certificate of '{}' is not to be trusted: {} (--ca names the "
                      "certificates to trust)",
                      host, X509_verify_cert_error_string(code)));
    const std::string reason = take_error();
    throw ConnectionError(fmt::format("no TLS with '{}': {}; is this the server's TLS port?", host,
                                      reason.empty() ? "the connection ended" : reason));
  }
}

TlsLayer::~TlsLayer() {
  ERR_clear_error();
  if (impl_->ssl && SSL_is_init_finished(impl_->ssl.get()) == 1) SSL_shutdown(impl_->ssl.get());
}

template <class Call>
TlsLayer::Moved TlsLayer::move(Call call, const char* doing) {
  const std::lock_guard lock(mutex_);
  Moved moved;
  ERR_clear_error();
  errno = 0;
  const int result = call(moved.bytes);
  if (result > 0) return moved;
  const int system = errno;
  switch (SSL_get_error(impl_->ssl.get(), result)) {
    case SSL_ERROR_WANT_READ:
      moved.events = POLLIN;
      return moved;
    case SSL_ERROR_WANT_WRITE:
      moved.events = POLLOUT;
      return moved;
    case SSL_ERROR_ZERO_RETURN:
      moved.ended = true;
      return moved;
    default:
      const std::string reason = take_error();
      throw ConnectionError(fmt::format("the connection broke while {}: {}", doing,
                                        !reason.empty() ? reason
                                        : system != 0   ? std::generic_category().message(system)
                                                        : "it ended without a reason"));
  }
}

TlsLayer::Moved TlsLayer::write(std::span<const std::byte> bytes) {
  return move([&](std::size_t& n) { return SSL_write_ex(impl_->ssl.get(), bytes.data(), bytes.size(), &n); },
              "sending");
}

TlsLayer::Moved TlsLayer::read(std::span<std::byte> room) {
  return move([&](std::size_t& n) { return SSL_read_ex(impl_->ssl.get(), room.data(), room.size(), &n); }, "receiving");
}

bool speaks_tls(const ServerAddress& server) {
  constexpr std::chrono::seconds kPatience(1);
  // What a TLS server sends first: a record of a handshake or an alert, version 3.x (RFC 8446, 5.1).
  constexpr std::byte kAlert{21}, kHandshake{22}, kMajor{3};
  const std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_client_method()));
  const std::unique_ptr<SSL, Free> ssl(context ? SSL_new(context.get()) : nullptr);
  if (!ssl) return false;
  BIO* const out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  SSL_connect(ssl.get());  // writes its hello, and waits
  std::array<std::byte, 4096> bytes{};
  const int size = BIO_read(out, bytes.data(), static_cast<int>(bytes.size()));
  ERR_clear_error();
  if (size <= 0) return false;
  try {
    ServerConnection connection({server.host, server.port, {}}, kPatience);
    const std::atomic<bool> stop = false;
    connection.write(std::span(bytes).first(static_cast<std::size_t>(size)), stop);
    const auto read = connection.read(bytes, kPatience);
    return read && *read > 1 && (bytes[0] == kAlert || bytes[0] == kHandshake) && bytes[1] == kMajor;
  } catch (const ConnectionError&) {
    return false;
  }
}

}  // namespace echotrain::client
