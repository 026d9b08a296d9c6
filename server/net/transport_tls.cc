// A TLS transport uses OpenSSL on a socket that never blocks. Boost's ssl::stream would not do: its shutdown waits for
// the peer and cannot end one direction only, which is how a session ends (docs/protocol.md, "Exchange").
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <poll.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <climits>
#include <fstream>
#include <functional>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

#include "server/net/transport.h"

namespace echotrain::server {

using asio::redirect_error;
using asio::use_awaitable;

namespace {

constexpr std::size_t kMostDrained = 16 << 20;
// Then it is the turn of others: records of one read or write (of 1 byte to 16 KiB each), and reads that had no need to
// wait.
constexpr int kRecordsAtOnce = 64, kTlsReadsInARow = 4;
// Messages of the handshake's kind after it: keys may change once for each MiB, and some more often.
constexpr std::uint64_t kHandshakeMessages = 32, kBytesPerMessage = 1 << 20;

struct Free {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using SslPointer = std::unique_ptr<SSL, Free>;

/// Returns the reason of the newest error in this thread's queue, and empties the queue.
std::string take_error() {
  std::string text;
  while (const unsigned long code = ERR_get_error()) {
    const char* reason = ERR_reason_error_string(code);
    text = reason != nullptr ? reason : fmt::format("error {:x}", code);
  }
  return text;
}

std::string text_of(BIO& memory) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(&memory, &bytes);
  return {bytes, static_cast<std::size_t>(std::max(0L, size))};
}

std::string subject_of(X509& certificate) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), &BIO_free);
  if (!text || X509_NAME_print_ex(text.get(), X509_get_subject_name(&certificate), 0, XN_FLAG_RFC2253) < 0)
    throw std::bad_alloc();
  return text_of(*text);
}

/// True if OpenSSL writes the name's bytes as they are: it writes other bytes as dots, and addresses of other lengths
/// as invalid, and those would all be one name.
bool is_written_as_it_is(const GENERAL_NAME& name) {
  const ASN1_STRING* const value = name.type == GEN_IPADD ? name.d.iPAddress : name.d.ia5;
  const std::span bytes(ASN1_STRING_get0_data(value), static_cast<std::size_t>(ASN1_STRING_length(value)));
  if (name.type == GEN_IPADD) return bytes.size() == 4 || bytes.size() == 16;
  return !bytes.empty() && std::ranges::all_of(bytes, [](unsigned char byte) { return byte >= ' ' && byte <= '~'; });
}

/// Returns the first of a certificate's alternative names that is a text of its own; only one, so that commas in it do
/// no harm. Empty without any, and for one that could be another's.
std::string alternative_name_of(X509& certificate) {
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      &GENERAL_NAMES_free);
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS && name->type != GEN_EMAIL && name->type != GEN_URI && name->type != GEN_IPADD) continue;
    if (!is_written_as_it_is(*name)) return "";
    const std::unique_ptr<BIO, decltype(&BIO_free)> text(BIO_new(BIO_s_mem()), &BIO_free);
    if (!text || GENERAL_NAME_print(text.get(), name) != 1) throw std::bad_alloc();
    return text_of(*text);
  }
  return "";
}

class TlsTransport : public Transport {
 public:
  TlsTransport(StreamSocket socket, SslPointer ssl) : Transport(std::move(socket)), ssl_(std::move(ssl)) {
    error_code ignored;
    socket_.native_non_blocking(true, ignored);
    SSL_set_fd(ssl_.get(), socket_.native_handle());
    SSL_set_accept_state(ssl_.get());
    SSL_set_msg_callback(ssl_.get(), [](int sent, int, int type, const void*, std::size_t, SSL*, void* self) {
      if (sent == 0 && type == SSL3_RT_HANDSHAKE) ++static_cast<TlsTransport*>(self)->handshake_messages_;
    });
    SSL_set_msg_callback_arg(ssl_.get(), this);
  }
  const char* name() const override { return "TLS"; }
  bool authenticated() const override { return authenticated_; }
  std::string subject() const override { return subject_; }

  asio::awaitable<void> open(const Offload& offload, error_code& error, std::string& why) override {
    co_await shake_hands(offload, error);
    why = std::move(why_);
    if (!why.empty()) co_await drain();
    X509* const certificate = error ? nullptr : SSL_get0_peer_certificate(ssl_.get());  // OpenSSL has verified it
    authenticated_ = certificate != nullptr;
    if (!authenticated_) co_return;
    subject_ = subject_of(*certificate);
    if (subject_.empty()) subject_ = alternative_name_of(*certificate);
    if (subject_.empty())
      why =
          "the client's certificate has no subject, and no subjectAltName of the kinds DNS, email, URI and IP, by one "
          "of which this server knows its clients, or the first of these is empty, not printable ASCII, or an invalid "
          "address; use a certificate with a name";
  }

  asio::awaitable<std::size_t> read_some(asio::mutable_buffer room, error_code& error) override {
    std::size_t n = 0;
    if ((error = std::exchange(later_, {}))) co_return n;
    if (++in_a_row_ == kTlsReadsInARow) co_await let_others();
    co_await retry(
        [&] {
          std::size_t got = 0;
          const int result = SSL_read_ex(ssl_.get(), static_cast<char*>(room.data()) + n, room.size() - n, &got);
          n += got;
          return result;
        },
        error);
    // A record holds at most 16 KiB; takes all that has arrived, so that the caller gets few and large pieces.
    for (int records = 1; !error && n < room.size() && records < kRecordsAtOnce; ++records) {
      std::size_t got = 0;
      ERR_clear_error();
      errno = 0;
      const int result = SSL_read_ex(ssl_.get(), static_cast<char*>(room.data()) + n, room.size() - n, &got);
      // The kernel tells of a reset once, and afterwards that the stream has ended: the next call says it.
      if (const int system = errno;
          result <= 0 && SSL_get_error(ssl_.get(), result) == SSL_ERROR_SYSCALL && system != 0)
        later_ = error_code(system, boost::system::system_category());
      if (result <= 0) break;
      n += got;
    }
    bytes_in_ += n;
    co_return n;
  }

  asio::awaitable<void> write(const std::vector<asio::const_buffer>& buffers, const Progress& progress,
                              error_code& error) override {
    std::uint64_t written = 0;
    int records = 0;
    for (asio::const_buffer rest : buffers) {
      while (rest.size() > 0 && !error) {
        std::size_t n = 0;
        if (++records % kRecordsAtOnce == 0) co_await let_others();
        co_await retry([&] { return SSL_write_ex(ssl_.get(), rest.data(), rest.size(), &n); }, error);
        rest += n;
        written += n;
        progress(written);
      }
    }
  }

  asio::awaitable<void> finish_writing() override {
    if (!SSL_is_init_finished(ssl_.get())) co_return;
    error_code ignored;
    // 0: our close_notify is sent and the peer's has not come. That is enough here.
    co_await retry(
        [this] {
          const int result = SSL_shutdown(ssl_.get());
          return result == 0 ? 1 : result;
        },
        ignored);
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  }

 protected:
  bool holds_input() const override { return SSL_has_pending(ssl_.get()) == 1; }

 private:
  /// The outcome of a call of OpenSSL's.
  struct Outcome {
    int reason = SSL_ERROR_NONE;
    int system = 0;         // errno
    std::string failure{};  // its text, from the queue of the thread that has called
  };
  template <class Call>
  Outcome call_once(Call call) {
    ERR_clear_error();
    errno = 0;
    const int result = call();
    if (result > 0) return {};
    const int system = errno, reason = SSL_get_error(ssl_.get(), result);
    return {reason, system, reason == SSL_ERROR_SSL ? take_error() : ""};
  }

  asio::awaitable<void> let_others() {
    in_a_row_ = 0;
    co_await asio::post(socket_.get_executor(), use_awaitable);
  }

  /// Waits for the socket where the call has to be made again.
  asio::awaitable<void> settle(const Outcome& outcome, error_code& error) {
    in_a_row_ = 0;
    switch (outcome.reason) {
      case SSL_ERROR_WANT_READ:
        co_await socket_.async_wait(StreamSocket::wait_read, redirect_error(use_awaitable, error));
        break;
      case SSL_ERROR_WANT_WRITE:
        co_await socket_.async_wait(StreamSocket::wait_write, redirect_error(use_awaitable, error));
        break;
      case SSL_ERROR_ZERO_RETURN:
        error = asio::error::eof;
        break;
      case SSL_ERROR_SYSCALL:
        error = outcome.system != 0 ? error_code(outcome.system, boost::system::system_category())
                                    : error_code(asio::error::eof);
        break;
      default:
        why_ = outcome.failure;
        error = asio::error::connection_reset;
        // OpenSSL 3 reports a connection that ends without close_notify as an error of its own. CLOSE tells whether a
        // scan is whole, so it counts as an end like that of a plain connection.
        if (why_.find("unexpected eof") != std::string::npos) error = asio::error::eof;
    }
  }

  /// Calls a function of OpenSSL until it has succeeded or failed, and waits for the socket in between.
  template <class Call>
  asio::awaitable<void> retry(Call call, error_code& error) {
    while (!error) {
      if (!socket_.is_open()) {
        error = asio::error::operation_aborted;
        co_return;
      }
      const Outcome outcome = call_once(call);
      if (handshake_messages_ > kHandshakeMessages + bytes_in_ / kBytesPerMessage)
        error = asio::error::connection_aborted;
      if (outcome.reason == SSL_ERROR_NONE || error) co_return;
      co_await settle(outcome, error);
    }
  }

  // Each step after the client's first message computes signatures, for whoever connects.
  asio::awaitable<void> shake_hands(const Offload& offload, error_code& error) {
    co_await socket_.async_wait(StreamSocket::wait_read, redirect_error(use_awaitable, error));
    bool begun = false;
    while (!error) {
      Outcome outcome;
      const std::function<void()> step = [&] {
        if (begun || !is_hung_up())
          outcome = call_once([this] { return SSL_do_handshake(ssl_.get()); });
        else
          outcome = {SSL_ERROR_SYSCALL, ECONNRESET};  // nobody is left to answer to
      };
      {
        const DeferredClose deferred(*this);
        if (!co_await offload(step) || !is_open()) error = asio::error::operation_aborted;
      }
      begun = true;
      if (error || outcome.reason == SSL_ERROR_NONE) co_return;
      co_await settle(outcome, error);
    }
  }

  /// True if the peer sends no more, whatever of it is still to read.
  bool is_hung_up() {
    pollfd state{socket_.native_handle(), POLLRDHUP, 0};
    return ::poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }

  // Reads on until the peer has seen why it was turned away: closing with unread bytes would reset the connection, and
  // the alert would be lost.
  asio::awaitable<void> drain() {
    error_code error;
    socket_.shutdown(asio::socket_base::shutdown_send, error);
    std::vector<std::byte> scratch(64 << 10);
    for (std::size_t drained = 0; !error && drained < kMostDrained;)
      drained += co_await socket_.async_read_some(asio::buffer(scratch), redirect_error(use_awaitable, error));
  }

  SslPointer ssl_;
  bool authenticated_ = false;
  std::string subject_;
  std::string why_;
  error_code later_;  // that came with bytes, which the caller got first
  int in_a_row_ = 0;  // reads since the last wait
  std::uint64_t bytes_in_ = 0, handshake_messages_ = 0;
};

[[noreturn]] void refuse(const std::string& what, const std::string& file, const std::string& hint) {
  const std::string reason = take_error();
  throw std::runtime_error(
      fmt::format("{} '{}' cannot be used{}{}; {}", what, file, reason.empty() ? "" : ": ", reason, hint));
}

void require_readable(const std::string& what, const std::string& option, const std::string& file) {
  if (file.empty())
    throw std::runtime_error(fmt::format("TLS needs both {} and its other half; {} is missing", what, option));
  if (!std::ifstream(file)) refuse(what, file, "there is no such file, or the server may not read it");
}

}  // namespace

struct TlsContext::Impl {
  std::unique_ptr<SSL_CTX, Free> context;
};

TlsContext::TlsContext(const std::string& certificate, const std::string& key, const std::string& client_ca,
                       const std::string& client_crl)
    : impl_(std::make_unique<Impl>()) {
  ERR_clear_error();
  impl_->context.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* context = impl_->context.get();
  if (context == nullptr) throw std::runtime_error("OpenSSL cannot start: " + take_error());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Forward secrecy and authenticated encryption for 1.2; those of 1.3 all have both.
  SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);  // a call would go on as long as the peer changes keys

  require_readable("certificate", "tls.certificate", certificate);
  require_readable("private key", "tls.key", key);
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1)
    refuse("certificate", certificate, "a PEM file is needed: the server's certificate first, then its issuers");
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    refuse("private key", key, "a PEM file without a passphrase is needed, the certificate's own");
  if (SSL_CTX_check_private_key(context) != 1)
    refuse("private key", key, fmt::format("it does not belong to the certificate '{}'", certificate));
  if (X509_cmp_current_time(X509_get0_notAfter(SSL_CTX_get0_certificate(context))) < 0)
    refuse("certificate", certificate, "it has expired");
  if (client_ca.empty() && !client_crl.empty())
    throw std::runtime_error("tls.client_crl is for certificates that tls.client_ca asks for, which is missing");
  if (client_ca.empty()) return;
  require_readable("client CA", "tls.client_ca", client_ca);
  if (SSL_CTX_load_verify_locations(context, client_ca.c_str(), nullptr) != 1)
    refuse("client CA", client_ca, "a PEM file of certificates is needed");
  if (STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(client_ca.c_str()))
    SSL_CTX_set_client_CA_list(context, names);
  if (!client_crl.empty()) {
    require_readable("revocation list", "tls.client_crl", client_crl);
    X509_STORE* const store = SSL_CTX_get_cert_store(context);
    X509_LOOKUP* const lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    if (lookup == nullptr || X509_load_crl_file(lookup, client_crl.c_str(), X509_FILETYPE_PEM) < 1)
      refuse("revocation list", client_crl, "a PEM file of CRLs is needed ('openssl ca -gencrl')");
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

TlsContext::~TlsContext() = default;

std::unique_ptr<Transport> TlsContext::make_transport(StreamSocket socket) const {
  SslPointer ssl(SSL_new(impl_->context.get()));
  if (!ssl) throw std::bad_alloc();
  return std::make_unique<TlsTransport>(std::move(socket), std::move(ssl));
}

}  // namespace echotrain::server
