// The end of a session whose peer takes nothing more.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <optional>
#include <thread>

#include "server/session/session.h"
#include "tests/server/comes_true.h"
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

/// A session whose client has sent kImages images of 1 MiB, which come back, and has read nothing of them.
class UnreadAtBudget : public testing::Test {
 protected:
  static constexpr std::size_t kImages = 16, kMiB = 1 << 20;
  ~UnreadAtBudget() override {
    ::close(pair_[0]);
    if (thread_.joinable()) thread_.join();
    environment_->end_texts();
  }
  /// The session then ends with `budget`.
  void end(double drain_timeout_s) {
    config::ServerOptions options;
    options.backend = config::BackendChoice::cpu;
    options.drain_timeout_s = drain_timeout_s;
    environment_.emplace(make_environment(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(),
                                          test_resources()));
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair_.data()), 0);
    asio::local::stream_protocol::socket socket(io_, asio::local::stream_protocol(), pair_[1]);
    session_ = std::make_shared<Session>(make_plain_transport(std::move(socket)), io_.get_executor(), "peer", 1,
                                         *environment_, [this] { ended_ = true; });
    queues_ = environment_->session_registry->list().front()->queues;
    asio::post(io_, [this] { session_->start(); });
    thread_ = std::jthread([this] { io_.run(); });
    std::string scan = wire::config("passthrough") + wire::header(wire::xml());
    for (std::uint16_t i = 1; i <= kImages; ++i) scan += wire::image(wire::image_head(512, i));
    ASSERT_EQ(::write(pair_[0], scan.data(), scan.size()), static_cast<ssize_t>(scan.size()));
    const auto status = environment_->session_registry->list().front();
    ASSERT_TRUE(comes_true([&] { return status->images == kImages; }));
    session_->stop({"budget", "others want it"});
  }
  std::string read_all() const {
    std::string all;
    std::array<char, 65536> some{};
    for (ssize_t n = 0; (n = ::read(pair_[0], some.data(), some.size())) > 0;)
      all.append(some.data(), static_cast<std::size_t>(n));
    return all;
  }

  std::optional<Environment> environment_;
  asio::io_context io_;
  std::array<int, 2> pair_{};
  std::shared_ptr<Session> session_;
  std::shared_ptr<QueueMemory> queues_;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

TEST_F(UnreadAtBudget, GoesToWhoReads) {
  ASSERT_NO_FATAL_FAILURE(end(40));
  const std::string all = read_all();
  EXPECT_GT(all.size(), kImages * kMiB);
  EXPECT_NE(all.find("ERROR    budget: others want it"), std::string::npos);
  EXPECT_TRUE(all.ends_with(wire::close()));
}

TEST_F(UnreadAtBudget, GoesFromMemoryAndWhoReadsLateGetsTheReason) {
  ASSERT_NO_FATAL_FAILURE(end(6));
  EXPECT_TRUE(comes_true([&] { return queues_->held() < kImages / 2 * kMiB; })) << "but for what is on its way";
  EXPECT_FALSE(ended_);
  const std::string all = read_all();
  EXPECT_LT(all.size(), 2 * kMiB);
  EXPECT_NE(all.find("ERROR    budget: others want it"), std::string::npos);
  EXPECT_TRUE(all.ends_with(wire::close()));
}

/// send_timeout_s is 60.
TEST_F(UnreadAtBudget, GoesWithWhoDoesNotReadWithinTheDrain) {
  ASSERT_NO_FATAL_FAILURE(end(0.4));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  EXPECT_TRUE(comes_true([&] { return ended_ || std::chrono::steady_clock::now() > until; }));
  EXPECT_TRUE(ended_);
  EXPECT_EQ(session_->outcome(), "peer gone");
  session_.reset();
  EXPECT_TRUE(comes_true([&] { return queues_->held() == 0; }));
}

}  // namespace
}  // namespace echotrain::server
