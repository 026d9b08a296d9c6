// Files on their way to clients that stay, that go away, and to those whom the server leaves.
#include "server/console/download/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;
using testing::EndsWith;
using testing::HasSubstr;

/// A file of three bytes, before which it works for long without giving any, as HDF5 does.
class SlowDownload final : public Download {
 public:
  SlowDownload(int steps, std::shared_ptr<std::atomic<int>> taken) : steps_(steps), taken_(std::move(taken)) {}
  void plan() override { name_ = "scan_7.h5"; }
  bool next(std::string& piece) override {
    const int step = (*taken_)++;
    if (step < steps_) {
      std::this_thread::sleep_for(1ms);
      return true;
    }
    if (step == steps_) piece = "abc";
    return step == steps_;
  }

 private:
  const int steps_;
  const std::shared_ptr<std::atomic<int>> taken_;
};

/// An answer on its way to a client, in this thread; the file is made on another.
class StreamTest : public testing::Test {
 protected:
  StreamTest() : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), client_(io_) {
    client_.connect(acceptor_.local_endpoint());
    stream_ = std::make_unique<boost::beast::tcp_stream>(acceptor_.accept());
  }
  ~StreamTest() override { pool_.join(); }

  void begin(int steps) {
    asio::co_spawn(
        io_,
        [this, steps]() -> asio::awaitable<void> {
          auto file = std::make_shared<SlowDownload>(steps, taken_);
          failure_ = co_await send_download(*stream_, std::move(file), pool_, {.patience = 60s});
        },
        [this](const std::exception_ptr& thrown) {
          EXPECT_FALSE(thrown);
          stream_->close();
          ended_ = true;
        });
  }
  void run_until(const std::function<bool()>& happened) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!happened() && std::chrono::steady_clock::now() < deadline) {
      io_.restart();
      io_.run_for(5ms);
    }
    ASSERT_TRUE(happened());
  }
  /// Returns the bytes that the client gets until the end.
  std::string answer() {
    std::string all;
    error_code error;
    asio::read(client_, asio::dynamic_buffer(all), error);
    return all;
  }

  static constexpr int kForEver = 20000;  // twice as long as anything here waits
  asio::io_context io_;
  asio::thread_pool pool_{1};
  tcp::acceptor acceptor_;
  tcp::socket client_;
  std::unique_ptr<boost::beast::tcp_stream> stream_;
  const std::shared_ptr<std::atomic<int>> taken_ = std::make_shared<std::atomic<int>>(0);
  std::optional<DownloadError> failure_;
  bool ended_ = false;
};

TEST_F(StreamTest, WhoStaysGetsTheWholeFile) {
  begin(200);  // longer than the time after which it is looked
  run_until([this] { return ended_; });
  EXPECT_FALSE(failure_);
  EXPECT_THAT(answer(), EndsWith("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
}

TEST_F(StreamTest, NothingMoreIsMadeForWhoHasGone) {
  begin(kForEver);
  run_until([this] { return *taken_ > 5; });
  client_.close();
  run_until([this] { return ended_; });
  EXPECT_EQ(taken_.use_count(), 1) << "the file is kept";
}

TEST_F(StreamTest, NothingMoreIsMadeForWhoHasReset) {
  begin(kForEver);
  run_until([this] { return *taken_ > 5; });
  client_.set_option(asio::socket_base::linger(true, 0));
  client_.close();
  run_until([this] { return ended_; });
}

TEST_F(StreamTest, NothingMoreIsMadeOnceTheServerHasClosed) {
  begin(kForEver);
  run_until([this] { return *taken_ > 5; });
  stream_->close();
  run_until([this] { return ended_; });
  EXPECT_EQ(answer(), "");
}

}  // namespace
}  // namespace echotrain::server
