// The end of a session whose peer takes nothing more.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "server/session/session.h"
#include "tests/server/wire.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

// GCC 12 takes the operators of Asio's coroutine frames for a mismatched pair here.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

/// Has a last word, as TLS does, and nobody has made room for it.
class LastWord final : public Transport {
 public:
  explicit LastWord(StreamSocket socket) : Transport(std::move(socket)) {}
  const char* name() const override { return "last word"; }
  bool authenticated() const override { return true; }
  asio::awaitable<void> open(const Offload&, error_code&, std::string&) override { co_return; }
  asio::awaitable<std::size_t> read_some(asio::mutable_buffer room, error_code& error) override {
    co_return co_await socket_.async_read_some(room, asio::redirect_error(asio::use_awaitable, error));
  }
  asio::awaitable<void> write(const std::vector<asio::const_buffer>& buffers, const Progress& progress,
                              error_code& error) override {
    progress(co_await asio::async_write(socket_, buffers, asio::redirect_error(asio::use_awaitable, error)));
  }
  asio::awaitable<void> finish_writing() override {
    error_code error;
    socket_.non_blocking(true, error);
    const std::array<char, 1024> word{};
    while (!error) socket_.write_some(asio::buffer(word), error);
    began = true;
    co_await socket_.async_wait(StreamSocket::wait_write, asio::redirect_error(asio::use_awaitable, error));
  }
  static inline bool began = false;
};
#pragma GCC diagnostic pop

TEST(Goodbye, TheLastWordHasSendTimeout) {
  config::ServerOptions options;
  options.send_timeout_s = 0.3;
  const Environment environment =
      make_environment(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(), test_resources());
  asio::io_context io;
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  asio::local::stream_protocol::socket socket(io, asio::local::stream_protocol(), pair[1]);
  bool ended = false;
  const auto session = std::make_shared<Session>(std::make_unique<LastWord>(std::move(socket)), io.get_executor(),
                                                 "peer", 1, environment, [&] { ended = true; });
  asio::post(io, [&] { session->start(); });
  const std::string close = wire::close();
  ASSERT_EQ(::write(pair[0], close.data(), close.size()), static_cast<ssize_t>(close.size()));
  io.run_for(seconds(20));  // returns as soon as nothing is left to do
  EXPECT_TRUE(LastWord::began);
  EXPECT_TRUE(ended);
  EXPECT_EQ(session->outcome(), "peer gone");
  ::close(pair[0]);
}

}  // namespace
}  // namespace echotrain::server
