// The transport under TLS, with a client of OpenSSL's in the same thread.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/net/transport.h"

namespace echotrain::server {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

/// A certificate that signs itself, and its key, as PEM files. `others`: its subjectAltName, as openssl.cnf has it.
void write_certificate(const std::string& certificate_file, const std::string& key_file,
                       const std::string& common_name = "localhost", const std::string& others = "") {
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const Owned<X509> certificate(X509_new());
  ASSERT_TRUE(key && certificate);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  if (!common_name.empty())
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(common_name.c_str()),
                               -1, -1, 0);
  if (!others.empty()) {
    const Owned<X509_EXTENSION> names(X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, others.c_str()));
    ASSERT_TRUE(names);
    ASSERT_EQ(X509_add_ext(certificate.get(), names.get(), -1), 1);
  }
  X509_set_issuer_name(certificate.get(), name);
  X509_set_pubkey(certificate.get(), key.get());
  ASSERT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  const Owned<std::FILE> to(std::fopen(certificate_file.c_str(), "w")), key_to(std::fopen(key_file.c_str(), "w"));
  ASSERT_TRUE(to && key_to);
  ASSERT_EQ(PEM_write_X509(to.get(), certificate.get()), 1);
  ASSERT_EQ(PEM_write_PrivateKey(key_to.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
}

/// Does the work here, in place of another thread.
asio::awaitable<bool> do_here(std::function<void()> work) {
  work();
  co_return true;
}

/// The outcome of a read: text, or an error.
struct Read {
  std::string text;
  error_code error;
};

Read read(asio::io_context& io, Transport& transport) {
  std::array<char, 64> room{};
  std::size_t n = 0;
  Read read;
  asio::co_spawn(
      io, [&]() -> asio::awaitable<void> { n = co_await transport.read_some(asio::buffer(room), read.error); },
      [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); });
  io.restart();
  io.poll();
  read.text.assign(room.data(), n);
  return read;
}

/// The facts that a server learns of a client with this certificate, which it trusts.
struct Known {
  bool opened = false;
  std::string subject, why;
};

Known known_by(const std::string& common_name, const std::string& others) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("transport_tls_known_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string certificate = folder / "certificate.pem", key = folder / "key.pem";
  const std::string of_client = folder / "client.pem", key_of_client = folder / "client_key.pem";
  write_certificate(certificate, key);
  write_certificate(of_client, key_of_client, common_name, others);
  const TlsContext context(certificate, key, of_client);
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  asio::io_context io;
  asio::local::stream_protocol::socket socket(io, asio::local::stream_protocol(), pair[0]);
  const std::unique_ptr<Transport> transport = context.make_transport(std::move(socket));
  Known known;
  bool ended = false;
  asio::co_spawn(
      io,
      [&]() -> asio::awaitable<void> {
        error_code error;
        co_await transport->open(do_here, error, known.why);
        known.opened = !error;
        known.subject = transport->subject();
        ended = true;
      },
      [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); });
  const Owned<SSL_CTX> clients(SSL_CTX_new(TLS_client_method()));
  EXPECT_EQ(SSL_CTX_use_certificate_file(clients.get(), of_client.c_str(), SSL_FILETYPE_PEM), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey_file(clients.get(), key_of_client.c_str(), SSL_FILETYPE_PEM), 1);
  const Owned<SSL> client(SSL_new(clients.get()));
  SSL_set_fd(client.get(), pair[1]);
  EXPECT_EQ(::fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
  for (int i = 0; i < 100 && !ended; ++i) {
    SSL_connect(client.get());
    io.restart();
    io.poll();
  }
  EXPECT_TRUE(ended);
  ::close(pair[1]);
  std::filesystem::remove_all(folder);
  return known;
}

TEST(TlsTransport, KnowsItsPeerBySubjectElseByAnotherName) {
  EXPECT_EQ(known_by("mr1", "DNS:other").subject, "CN=mr1");
  const Known other = known_by("", "RID:1.2.3.4,DNS:mr1,URI:urn:mr1");
  EXPECT_TRUE(other.opened) << other.why;
  EXPECT_EQ(other.subject, "DNS:mr1");
  EXPECT_EQ(known_by("", "IP:10.1.2.3").subject, "IP Address:10.1.2.3");
}

/// Its address would be its identity, and it would need no token.
TEST(TlsTransport, SaysWhyACertificateWithoutANameNamesNobody) {
  for (const char* others : {"", "RID:1.2.3.4"}) {
    const Known nobody = known_by("", others);
    EXPECT_TRUE(nobody.opened);
    EXPECT_EQ(nobody.subject, "");
    EXPECT_NE(nobody.why.find("has no subject, and no subjectAltName"), std::string::npos) << nobody.why;
  }
  EXPECT_EQ(known_by("mr1", "").why, "");
}

/// OpenSSL writes all that is not printable ASCII as dots, so that two such names would be one client.
TEST(TlsTransport, RefusesAlternativeNamesThatCannotTellClientsApart) {
  const char* const kEmpty = "DER:30:02:82:00";           // a DNS name of no bytes
  const char* const kShort = "DER:30:05:87:03:0A:01:02";  // an IP of three bytes
  for (const char* others : {"URI:urn:mr\xC3\xA4", "email:mr\xC3\xB6@clinic", "DNS:mr\x01,DNS:mr1", kEmpty, kShort}) {
    const Known nobody = known_by("", others);
    EXPECT_EQ(nobody.subject, "") << others;
    EXPECT_NE(nobody.why.find("printable ASCII"), std::string::npos) << others << ": " << nobody.why;
  }
  EXPECT_EQ(known_by("mr1", "URI:urn:mr\xC3\xA4").subject, "CN=mr1");
}

/// A server's side of a connection, and a client of OpenSSL's.
class OpenTls : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    const std::string certificate = folder_ / "certificate.pem", key = folder_ / "key.pem";
    ASSERT_NO_FATAL_FAILURE(write_certificate(certificate, key));
    const TlsContext context(certificate, key, "");
    std::array<int, 2> pair{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    peer_ = pair[1];
    transport_ =
        context.make_transport(asio::local::stream_protocol::socket(io_, asio::local::stream_protocol(), pair[0]));
    bool opened = false;
    asio::co_spawn(
        io_,
        [&]() -> asio::awaitable<void> {
          error_code error;
          std::string why;
          co_await transport_->open(do_here, error, why);
          opened = !error;
        },
        [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); });
    SSL_set_fd(client_.get(), peer_);
    ASSERT_EQ(::fcntl(peer_, F_SETFL, O_NONBLOCK), 0);
    for (int i = 0; i < 100 && !(opened && SSL_is_init_finished(client_.get())); ++i) {
      SSL_connect(client_.get());
      io_.restart();
      io_.poll();
    }
    ASSERT_TRUE(opened);
  }
  ~OpenTls() override {
    ::close(peer_);
    std::filesystem::remove_all(folder_);
    std::signal(SIGPIPE, before_);
  }

  void (*const before_)(int) = std::signal(SIGPIPE, SIG_IGN);  // as servers do
  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("transport_tls_test_" + std::to_string(::getpid()));
  asio::io_context io_;
  const Owned<SSL_CTX> clients_{SSL_CTX_new(TLS_client_method())};
  const Owned<SSL> client_{SSL_new(clients_.get())};
  std::unique_ptr<Transport> transport_;
  int peer_ = -1;
};

/// The kernel tells of it once, here behind the last bytes; after that it says that the stream has ended, as if the
/// peer had said all.
TEST_F(OpenTls, TellsOfAResetThatCameWithBytes) {
  error_code failed;
  asio::co_spawn(
      io_,
      [&]() -> asio::awaitable<void> {
        const std::vector<asio::const_buffer> buffers{asio::buffer("xyz", 3)};
        const Transport::Progress none = [](std::uint64_t) {};
        co_await transport_->write(buffers, none, failed);
      },
      [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); });
  io_.restart();
  io_.poll();
  ASSERT_FALSE(failed);
  ASSERT_EQ(SSL_write(client_.get(), "ef", 2), 2);
  ::close(std::exchange(peer_, -1));  // with bytes of the server that nobody has read, which resets

  const Read first = read(io_, *transport_);
  EXPECT_EQ(first.text, "ef");
  EXPECT_FALSE(first.error);
  EXPECT_EQ(read(io_, *transport_).error, asio::error::connection_reset);
}

/// A million of them are one read of 1 MiB: nobody else would have a turn meanwhile.
TEST_F(OpenTls, TakesTinyRecordsByTurns) {
  constexpr int kRecords = 200;
  for (int i = 0; i < kRecords; ++i) ASSERT_EQ(SSL_write(client_.get(), "a", 1), 1);
  std::array<char, 1024> room{};
  std::vector<std::size_t> reads;
  int turns = 0;  // of others, before all is read
  bool done = false;
  asio::co_spawn(
      io_,
      [&]() -> asio::awaitable<void> {
        error_code error;
        for (std::size_t all = 0; !error && all < kRecords;) {
          reads.push_back(co_await transport_->read_some(asio::buffer(room), error));
          all += reads.back();
        }
        EXPECT_FALSE(error);
        done = true;
      },
      [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); });
  io_.restart();
  while (!done && io_.poll_one() > 0) ++turns;
  ASSERT_TRUE(done);
  EXPECT_EQ(reads, (std::vector<std::size_t>{64, 64, 64, 8}));
  EXPECT_GE(turns, 2) << "the fourth read was put off";
}

/// Keys may change; but whoever does nothing else keeps a thread of the server at work.
TEST_F(OpenTls, EndsAConnectionThatOnlyChangesKeys) {
  const auto change_keys = [this](int times) {
    for (int i = 0; i < times; ++i) {
      if (SSL_key_update(client_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return;
      SSL_do_handshake(client_.get());
    }
  };
  change_keys(10);
  ASSERT_EQ(SSL_write(client_.get(), "ef", 2), 2);
  const Read good = read(io_, *transport_);
  EXPECT_EQ(good.text, "ef");
  EXPECT_FALSE(good.error);
  change_keys(100);
  ASSERT_EQ(SSL_write(client_.get(), "ef", 2), 2);
  EXPECT_EQ(read(io_, *transport_).error, asio::error::connection_aborted);
}

}  // namespace
}  // namespace echotrain::server
