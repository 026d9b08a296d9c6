#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/detached/detached_store.h"
#include "server/detached/scan_record.h"
#include "tests/server/comes_true.h"
#include "tests/server/detached/detached_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

/// A store whose folder has whole scans without clients. Their sessions are sockets on which nothing happens.
class Turns {
 public:
  Turns(int scans, Clock::duration ages) {
    const fs::path detached = folder_.path() / "detached";
    fs::create_directories(detached);
    for (int i = 0; i < scans; ++i) {
      ScanRecord record;
      record.id = std::string(32, static_cast<char>('a' + i));
      record.identity = {"address:127.0.0.1", "address:127.0.0.1"};
      EXPECT_EQ(write_record(detached, record, false), "");
      std::ofstream(detached / journal_name(record.id), std::ios::binary)
          << head_of_scan() << joined(messages_of_scan(1));
    }
    store_.emplace(detaching(folder_).detached, nullptr, protocol::kServerLimits, Disk{}, ages);
    store_->serve(
        [this](int socket, const SessionOrigin&) -> protocol::Result<std::uint64_t> {
          const std::scoped_lock lock(mutex_);
          sessions_.push_back(socket);
          return sessions_.size();
        },
        [this] {
          ++asked_;
          return live_.load();
        });
  }
  ~Turns() {
    store_->stop();
    end_one(SIZE_MAX);
    store_.reset();
  }
  std::size_t begun() {
    const std::scoped_lock lock(mutex_);
    return begun_before_ + sessions_.size();
  }
  /// Ends so many of the sessions, which have CLOSE in them.
  void end_one(std::size_t most = 1) {
    const std::scoped_lock lock(mutex_);
    for (; most > 0 && !sessions_.empty(); --most) {
      const std::uint16_t close = 4;
      EXPECT_EQ(::write(sessions_.back(), &close, sizeof(close)), 2);
      ::close(sessions_.back());
      sessions_.pop_back();
      ++begun_before_;
    }
  }

  std::atomic<bool> live_ = true;  // scans of clients that are there wait
  std::atomic<int> asked_ = 0;

 private:
  const TemporaryFolder folder_;
  std::mutex mutex_;
  std::vector<int> sessions_;
  std::size_t begun_before_ = 0;
  std::optional<DetachedStore> store_;
};

TEST(DetachedTurns, ScansWithoutAClientLetLiveOnesGoFirst) {
  Turns turns(1, 24h);
  ASSERT_TRUE(comes_true([&] { return turns.asked_ >= 5; }));
  EXPECT_EQ(turns.begun(), 0U);
  turns.live_ = false;
  EXPECT_TRUE(comes_true([&] { return turns.begun() == 1; }));
}

TEST(DetachedTurns, WhoHasWaitedLongWaitsNoMore) {
  Turns turns(1, 300ms);
  EXPECT_TRUE(comes_true([&] { return turns.begun() == 1; })) << "though live ones always wait";
  EXPECT_GE(turns.asked_, 1) << "at first it waited";
}

TEST(DetachedTurns, TwoRunAtATime) {
  Turns turns(4, 24h);
  turns.live_ = false;
  ASSERT_TRUE(comes_true([&] { return turns.begun() == 2; }));
  std::this_thread::sleep_for(400ms);  // several looks
  EXPECT_EQ(turns.begun(), 2U);
  turns.end_one();
  EXPECT_TRUE(comes_true([&] { return turns.begun() == 3; }));
  turns.end_one(2);
  EXPECT_TRUE(comes_true([&] { return turns.begun() == 4; }));
}

}  // namespace
}  // namespace echotrain::server
