// The plain transport of a stream that is so dense that others write while the strand reads.
#include "server/net/transport.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace echotrain::server {
namespace {

bool is_descriptor(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

/// A transport on the strand's context, its peer, and the context that others serve. Nothing runs by itself.
class PlainTransport : public ::testing::Test {
 protected:
  PlainTransport() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
    socket_ = pair[0];
    peer_ = pair[1];
    asio::local::stream_protocol::socket socket(strand_, asio::local::stream_protocol(), socket_);
    // Any two reads of two bytes are dense, however long the machine has been up.
    transport_ =
        make_plain_transport(std::move(socket), true, {others_.get_executor(), 2, std::chrono::hours(1 << 16)});
  }
  ~PlainTransport() override {
    if (peer_ >= 0) ::close(peer_);
  }

  static std::size_t run(asio::io_context& context) {
    context.restart();
    return context.poll();
  }

  void say(const std::string& text) const {
    ASSERT_EQ(::send(peer_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  }

  std::string read() {
    std::array<char, 64> room{};
    std::size_t n = 0;
    asio::co_spawn(
        strand_, [&]() -> asio::awaitable<void> { n = co_await transport_->read_some(asio::buffer(room), error_); },
        [](const std::exception_ptr& thrown) { EXPECT_FALSE(thrown); });
    run(strand_);
    return {room.data(), n};
  }

  void make_dense() {
    for (int i = 0; i < 2; ++i) {
      say("ab");
      EXPECT_EQ(read(), "ab");
    }
  }

  void begin_write(std::vector<asio::const_buffer> buffers) {
    buffers_ = std::move(buffers);
    progress_ = [this](std::uint64_t n) {
      EXPECT_GE(n, written_);
      written_ = n;
    };
    asio::co_spawn(
        strand_, [this]() -> asio::awaitable<void> { co_await transport_->write(buffers_, progress_, error_); },
        [this](const std::exception_ptr& thrown) {
          EXPECT_FALSE(thrown);
          done_ = true;
        });
    run(strand_);
  }

  /// Returns the bytes that have come at the peer.
  std::string heard() const {
    std::string all;
    std::vector<char> room(1 << 20);
    for (ssize_t n; (n = ::recv(peer_, room.data(), room.size(), MSG_DONTWAIT)) > 0;)
      all.append(room.data(), static_cast<std::size_t>(n));
    return all;
  }

  asio::io_context strand_, others_;
  int socket_ = -1, peer_ = -1;
  std::unique_ptr<Transport> transport_;
  std::vector<asio::const_buffer> buffers_;
  Transport::Progress progress_;
  std::uint64_t written_ = 0;
  error_code error_;
  bool done_ = false;
};

TEST_F(PlainTransport, WritesOnItsStrandWhereLittleComes) {
  say("ab");
  EXPECT_EQ(read(), "ab");
  begin_write({asio::buffer("xyz", 3)});
  EXPECT_TRUE(done_);
  EXPECT_EQ(heard(), "xyz");
  EXPECT_EQ(run(others_), 0u);
}

TEST_F(PlainTransport, LeavesTheWritesOfADenseStreamToOthers) {
  make_dense();
  begin_write({asio::buffer("xy", 2), asio::buffer("", 0), asio::buffer("z", 1)});
  EXPECT_FALSE(done_);
  EXPECT_EQ(heard(), "");
  say("cd");
  EXPECT_EQ(read(), "cd");  // meanwhile
  EXPECT_GT(run(others_), 0u);
  EXPECT_EQ(heard(), "xyz");
  run(strand_);
  EXPECT_TRUE(done_);
  EXPECT_FALSE(error_);
  EXPECT_EQ(written_, 3u);
}

TEST_F(PlainTransport, OthersWriteWhatTheKernelTakesInPieces) {
  make_dense();
  std::vector<std::string> parts;
  std::string all;
  for (std::size_t i = 0; i < 150; ++i) {  // more than one call of the kernel takes, in number and in bytes
    parts.emplace_back(i * 400, static_cast<char>('a' + i % 26));
    all += parts.back();
  }
  std::vector<asio::const_buffer> buffers;
  for (const std::string& part : parts) buffers.push_back(asio::buffer(part));
  begin_write(buffers);
  std::string came;
  int pieces = 0;
  for (; !done_ && pieces < 10'000; ++pieces) {
    run(others_);
    run(strand_);
    came += heard();
  }
  came += heard();
  EXPECT_TRUE(done_);
  EXPECT_FALSE(error_);
  EXPECT_EQ(written_, all.size());
  EXPECT_GT(pieces, 3);
  EXPECT_TRUE(came == all) << came.size() << " bytes";
}

TEST_F(PlainTransport, TellsTheEndOfADenseStream) {
  make_dense();
  say("ef");
  ::close(peer_);
  peer_ = -1;
  EXPECT_EQ(read(), "ef");
  EXPECT_FALSE(error_);
  EXPECT_EQ(read(), "");
  EXPECT_EQ(error_, asio::error::eof);
}

// The kernel tells it once; after that it says that the stream has ended, as if the peer had said all.
TEST_F(PlainTransport, TellsThatThePeerHasResetADenseStream) {
  make_dense();
  ASSERT_EQ(::send(socket_, "x", 1, 0), 1);  // a peer that closes without having read it resets
  say("ef");
  ::close(peer_);
  peer_ = -1;
  EXPECT_EQ(read(), "ef");
  EXPECT_FALSE(error_);
  EXPECT_EQ(read(), "");
  EXPECT_EQ(error_, asio::error::connection_reset);
}

TEST_F(PlainTransport, TellsThatThePeerIsGoneWhileOthersWrite) {
  make_dense();
  ::close(peer_);
  peer_ = -1;
  begin_write({asio::buffer("xyz", 3)});
  run(others_);
  run(strand_);
  EXPECT_TRUE(done_);
  EXPECT_EQ(error_, asio::error::broken_pipe);
  EXPECT_EQ(written_, 0u);
}

// The number of a closed descriptor may be another connection's at once.
TEST_F(PlainTransport, ClosesItsDescriptorWhenOthersHaveLetItGo) {
  make_dense();
  const std::string much(16 << 20, 'x');
  begin_write({asio::buffer(much)});
  transport_->reset();
  EXPECT_FALSE(transport_->is_open());
  EXPECT_TRUE(is_descriptor(socket_));
  run(others_);
  EXPECT_TRUE(is_descriptor(socket_));
  run(strand_);
  EXPECT_FALSE(is_descriptor(socket_));
  EXPECT_TRUE(done_);
  EXPECT_EQ(error_, asio::error::operation_aborted);
  EXPECT_LT(written_, much.size());
}

}  // namespace
}  // namespace echotrain::server
