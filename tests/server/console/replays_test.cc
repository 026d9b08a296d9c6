#include "server/console/replay/replays.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "protocol/wire/codec.h"
#include "server/capture/capture_stream.h"
#include "tests/server/capture/capture_support.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr const char* kName = "20260131T120000Z-s17-8c1f03d2.mrd";

protocol::Buffer readout(std::size_t samples, float first) {
  protocol::Acquisition one;
  one.head.version = 1;
  one.head.number_of_samples = static_cast<std::uint16_t>(samples);
  one.head.active_channels = one.head.available_channels = 1;
  one.data = protocol::Payload::take(std::vector<std::complex<float>>(samples, first));
  protocol::Buffer bytes;
  protocol::encode(one, bytes);
  return bytes;
}

template <class... Messages>
std::string bytes_of(const Messages&... messages) {
  protocol::Buffer all;
  const auto add = [&](const auto& message) {
    if constexpr (std::is_same_v<std::decay_t<decltype(message)>, protocol::Buffer>)
      all.insert(all.end(), message.begin(), message.end());
    else
      protocol::encode(message, all);
  };
  (add(messages), ...);
  return {reinterpret_cast<const char*>(all.data()), all.size()};
}

const protocol::HeaderText kHeader{"<ismrmrdHeader/>"};

/// A session that keeps what it is sent.
struct Taker {
  AddSession session() {
    return [this](int socket, const std::string& from, const std::string& capture) -> protocol::Result<std::uint64_t> {
      peer = from;
      replayed = capture;
      thread = std::thread([this, socket] {
        std::array<char, 4096> room;
        while (!hangs_up) {
          const ssize_t n = ::read(socket, room.data(), room.size());
          if (n <= 0) break;
          got.append(room.data(), static_cast<std::size_t>(n));
        }
        ::close(socket);
        ended = true;
      });
      return std::uint64_t{42};
    };
  }
  void wait() {
    if (thread.joinable()) thread.join();
  }
  ~Taker() { wait(); }
  std::string got, peer, replayed;
  std::atomic<bool> hangs_up = false, ended = false;
  std::thread thread;
};

void write(const TemporaryFolder& folder, const std::string& bytes, const char* name = kName) {
  // Makes spdlog's registry before any thread writes: the thread sanitizer does not see the lock of that library.
  spdlog::default_logger_raw();
  std::ofstream(folder.path() / name, std::ios::binary) << bytes;
}

TEST(Replays, SendTheScanWithAnotherConfiguration) {
  const TemporaryFolder folder;
  const auto first = readout(200'000 / 8, 1),
             second = readout(60'000, 2);  // beyond one look, and beyond a socket's room
  write(folder, bytes_of(protocol::ConfigFile{"old"}, protocol::Query{1, "what"}, kHeader, protocol::Text{"set up"},
                         first, protocol::Text{"said"}, protocol::Query{2, "what"}, second, protocol::Close{}) +
                    "what comes after the end");
  Taker taker;
  ReplayRefusal refusal;
  {
    Replays replays(folder.path(), {}, taker.session());
    EXPECT_EQ(replays.start(kName, "new", "10.1.2.3:4", refusal), 42U) << refusal.text;
    taker.wait();
  }
  EXPECT_EQ(taker.peer, "10.1.2.3:4");
  EXPECT_EQ(taker.replayed, kName);
  EXPECT_TRUE(taker.got ==
              bytes_of(protocol::ConfigFile{"new"}, kHeader, first, protocol::Text{"said"}, second, protocol::Close{}))
      << taker.got.size();
}

TEST(Replays, SendWhatIsThereOfAScanThatBrokeOff) {
  const TemporaryFolder folder;
  const auto first = readout(100, 1);
  write(folder, bytes_of(protocol::ConfigFile{"old"}, kHeader, first) + bytes_of(first).substr(0, 500));
  Taker taker;
  ReplayRefusal refusal;
  Replays replays(folder.path(), {}, taker.session());
  EXPECT_NE(replays.start(kName, "new", "", refusal), 0U);
  taker.wait();
  EXPECT_TRUE(taker.got == bytes_of(protocol::ConfigFile{"new"}, kHeader, first)) << taker.got.size();
}

TEST(Replays, OneAtATimeAndNoneForEver) {
  const TemporaryFolder folder;
  const auto much = readout(60'000, 2);
  write(folder, bytes_of(kHeader, much, much, much, much));
  int held = -1;
  ReplayRefusal refusal;
  {
    Replays replays(folder.path(), {},
                    [&](int socket, const std::string&, const std::string&) -> protocol::Result<std::uint64_t> {
                      held = socket;  // reads nothing
                      return std::uint64_t{1};
                    });
    EXPECT_EQ(replays.start(kName, "new", "", refusal), 1U);
    EXPECT_EQ(replays.start(kName, "new", "", refusal), 0U);
    EXPECT_EQ(refusal.status, 503U);
    EXPECT_THAT(refusal.text, HasSubstr("one capture runs at a time"));
    EXPECT_EQ(nlohmann::json::parse(replays.json())["running"], kName);
  }  // ends it
  ::close(held);
  Taker taker;
  taker.hangs_up = true;  // as a session that is refused
  Replays replays(folder.path(), {}, taker.session());
  EXPECT_NE(replays.start(kName, "new", "", refusal), 0U);
  taker.wait();
  for (int i = 0; i < 2000 && nlohmann::json::parse(replays.json())["running"] != ""; ++i)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(nlohmann::json::parse(replays.json())["running"], "");
}

TEST(Replays, SayWhyThereIsNone) {
  const TemporaryFolder folder;
  Taker taker;
  Replays replays(folder.path(), {}, taker.session());
  const auto refused = [&](Replays& all, const char* name) {
    ReplayRefusal refusal;
    EXPECT_EQ(all.start(name, "new", "", refusal), 0U);
    return fmt::format("{} {}", refusal.status, refusal.text);
  };
  EXPECT_THAT(refused(replays, "../../etc/passwd"), HasSubstr("404 there is no capture of this name"));
  EXPECT_THAT(refused(replays, kName), HasSubstr("404 there is no capture 2026"));
  ASSERT_EQ(::symlink("/etc/passwd", (folder.path() / kName).c_str()), 0);
  EXPECT_THAT(refused(replays, kName), HasSubstr("404 there is no capture 2026"));
  folder.clear();
  write(folder, bytes_of(protocol::ConfigFile{"old"}, readout(8, 1)));
  EXPECT_THAT(refused(replays, kName), HasSubstr("409 20260131T120000Z-s17-8c1f03d2.mrd has no header"));
  write(folder, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(refused(replays, kName), HasSubstr("no message begins at byte 0"));
  write(folder, bytes_of(kHeader));
  {
    const CaptureFile writing(folder.path(), "20260131T120000Z-s18-8c1f03d2.mrd");
    EXPECT_THAT(refused(replays, "20260131T120000Z-s18-8c1f03d2.mrd"),
                HasSubstr("409 20260131T120000Z-s18-8c1f03d2.mrd is "
                          "still being written"));
  }
  Replays none("", {}, taker.session());
  EXPECT_THAT(refused(none, kName), HasSubstr("capture.directory is not set"));
  Replays full(folder.path(), {},
               [](int socket, const std::string&, const std::string&) -> protocol::Result<std::uint64_t> {
                 ::close(socket);
                 return protocol::Error{"busy", "the server has no room"};
               });
  EXPECT_THAT(refused(full, kName), HasSubstr("503 the server has no room"));
}

TEST(Replays, ListTheNewestFirst) {
  const TemporaryFolder folder;
  for (int i = 0; i < 205; ++i) write(folder, "1234", fmt::format("20260131T12{:04}Z-s{}-8c1f03d2.mrd", i, i).c_str());
  write(folder, "", "notes.mrd");
  const auto json = nlohmann::json::parse(Replays(folder.path(), {}, {}).json());
  ASSERT_EQ(json["captures"].size(), Replays::kMostListed);
  EXPECT_TRUE(json["more"]);
  EXPECT_EQ(json["captures"][0]["name"], "20260131T120204Z-s204-8c1f03d2.mrd");
  EXPECT_EQ(json["captures"][199]["name"], "20260131T120005Z-s5-8c1f03d2.mrd");
  EXPECT_EQ(json["captures"][0]["bytes"], 4);
}

}  // namespace
}  // namespace echotrain::server
