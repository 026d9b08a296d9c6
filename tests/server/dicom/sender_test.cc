#include "server/dicom/sender.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/server/dicom/dicom_support.h"

namespace echotrain::server {
namespace {

using Kind = DicomReply::Kind;

/// A sender on a thread of its own.
class RunningSender {
 public:
  explicit RunningSender(const config::DicomOptions& options = {.retry_s = 0.05, .echo_s = 3600})
      : spool(std::make_shared<Spool>(folder.path(), Spool::Limits{1000}, std::vector<std::string>{"pacs"})),
        peer(std::make_shared<FakePeer>()),
        sender(DicomPeer{"pacs", "PACS", "host", 104, false}, std::make_unique<FakeLink>(peer), spool, options) {}
  ~RunningSender() {
    sender.stop();
    if (thread.joinable()) thread.join();
  }
  void start() {
    thread = std::thread([this] { sender.run(); });
  }
  void put(const std::string& bytes) {
    EXPECT_EQ(spool->put("pacs", bytes), "");
    sender.wake();
  }

  SpoolFolder folder;
  std::shared_ptr<Spool> spool;
  std::shared_ptr<FakePeer> peer;
  DicomSender sender;
  std::thread thread;
};

TEST(DicomSender, SendsWhatWaitsInOrderAndWhatComes) {
  RunningSender it;
  it.put("1");
  it.put("2");
  it.start();
  EXPECT_TRUE(comes_true([&] { return it.peer->stored().size() == 2; }));
  it.put("3");
  EXPECT_TRUE(comes_true([&] { return it.sender.status().sent == 3; }));
  EXPECT_EQ(it.peer->stored(), (std::vector<std::string>{"1", "2", "3"}));
  EXPECT_EQ(it.sender.status().waiting.files, 0U);
  EXPECT_EQ(it.sender.status().reachable, true);
}

TEST(DicomSender, TriesAgainUntilThePeerAnswers) {
  RunningSender it;
  it.peer->answer({{Kind::failed, "no connection"}, {Kind::failed, "no connection"}});
  it.put("1");
  it.start();
  EXPECT_TRUE(comes_true([&] { return it.sender.status().sent == 1; }));
  EXPECT_EQ(it.sender.status().failures, 2U);
  EXPECT_EQ(it.peer->stored(), std::vector<std::string>{"1"});
  EXPECT_EQ(it.sender.status().reachable, true);
  EXPECT_EQ(it.sender.status().error, "");
}

TEST(DicomSender, PutsAsideWhatIsRefusedAndGoesOn) {
  RunningSender it;
  it.peer->answer({{Kind::refused, "status a900"}});
  it.put("bad");
  it.put("good");
  it.start();
  EXPECT_TRUE(comes_true([&] { return it.sender.status().sent == 1; }));
  EXPECT_EQ(it.peer->stored(), std::vector<std::string>{"good"});
  EXPECT_EQ(it.sender.status().refused, 1U);
  EXPECT_EQ(it.sender.status().waiting.refused, 1U);
}

TEST(DicomSender, AFileThatAPeerNeverTakesLetsOthersPassAndIsPutAside) {
  for (const Kind kind : {Kind::not_taken, Kind::no_room}) {
    RunningSender it({.tries = 3, .retry_s = 0.02, .echo_s = 3600});
    it.peer->answer_to("bad", {kind, "it breaks off"});
    for (const char* bytes : {"bad", "1", "2"}) it.put(bytes);
    it.start();
    ASSERT_TRUE(comes_true([&] { return it.sender.status().sent == 2; }));
    EXPECT_EQ(it.peer->stored(), (std::vector<std::string>{"1", "2"}));
    ASSERT_TRUE(comes_true([&] { return it.sender.status().waiting.refused == 1; }));
    const DicomPeerStatus status = it.sender.status();
    EXPECT_EQ(status.given_up, 1U);
    EXPECT_EQ(status.failing, 0U);
    EXPECT_EQ(status.waiting.files, 0U);
    EXPECT_EQ(status.reachable, true);
    const auto tried = it.peer->tried();
    EXPECT_EQ(std::count(tried.begin(), tried.end(), "bad"), 3);
  }
}

TEST(DicomSender, AFileThatAPeerNeverTakesIsPutAsideAlsoAlone) {
  RunningSender it({.tries = 3, .retry_s = 0.02, .echo_s = 3600});
  it.peer->answer_to("bad", {Kind::not_taken, "it breaks off"});
  it.peer->answer_to("worse", {Kind::not_taken, "it breaks off"});
  it.put("bad");
  it.put("worse");
  it.start();
  ASSERT_TRUE(comes_true([&] { return it.sender.status().waiting.refused == 2; }));
  EXPECT_GE(it.peer->echoes(), 2) << "each time the peer answered otherwise";
}

TEST(DicomSender, APeerWithoutRoomOrWithoutAnyAnswerKeepsAllFilesWaiting) {
  for (const Kind kind : {Kind::not_taken, Kind::no_room}) {
    RunningSender it({.tries = 2, .retry_s = 0.002, .echo_s = 3600});
    it.peer->answer_to("1", {kind, "no"});
    it.peer->answer_to("2", {kind, "no"});
    // With not_taken, a C-ECHO must not be answered either; a full peer answers it.
    if (kind == Kind::not_taken) it.peer->answer(std::deque<DicomReply>(4000, {Kind::not_taken, "silence"}));
    it.put("1");
    it.put("2");
    it.start();
    ASSERT_TRUE(comes_true([&] { return it.sender.status().failures >= 20; }));
    const DicomPeerStatus status = it.sender.status();
    EXPECT_EQ(status.given_up, 0U);
    EXPECT_EQ(status.waiting.files, 2U);
    EXPECT_EQ(status.failing, 2U);
    EXPECT_EQ(status.error, kind == Kind::no_room ? "no" : "silence");
  }
}

TEST(DicomSender, AsksAPeerForWhichNothingWaits) {
  RunningSender it({.retry_s = 0.05, .echo_s = 0.05});
  it.peer->answer({{Kind::failed, "nobody there"}});
  it.start();
  EXPECT_TRUE(comes_true([&] { return it.peer->echoes() >= 3; }));
  EXPECT_TRUE(comes_true([&] { return it.sender.status().reachable == true; }));
  EXPECT_EQ(it.sender.status().failures, 1U);
}

TEST(DicomSender, EndsWhileAPeerHangsAndLosesNothing) {
  RunningSender it;
  it.peer->hang();
  it.put("1");
  it.start();
  it.sender.stop();
  it.thread.join();
  EXPECT_TRUE(it.sender.stopped());
  EXPECT_EQ(it.sender.status().waiting.files, 1U);
}

}  // namespace
}  // namespace echotrain::server
