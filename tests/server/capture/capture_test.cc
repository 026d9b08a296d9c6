// Raw capture as a client and an operator see it: what is in the files, which of them stay, who is told what.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <future>

#include "tests/server/capture/capture_support.h"
#include "tests/server/gadgets/failing_gadgets.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Options = config::CaptureOptions;

const std::string kConfigAlone = wire::config("cartesian_plain");
const std::string kStart = kConfigAlone + wire::header(wire::xml());
const std::string kPassStart = wire::config("passthrough") + wire::header(wire::xml());
const std::string kScan = kStart + wire::frame(0) + wire::frame(1) + wire::close();

const std::string kBroken =
    wire::config_text("echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - broken\n") + wire::header(wire::xml());

class CaptureOf : public testing::Test {
 protected:
  config::ServerOptions options(Options::Policy policy = Options::Policy::always) const {
    config::ServerOptions options;
    options.capture = capture_to(folder_);
    options.capture.policy = policy;
    return options;
  }
  /// Succeeds if there is exactly one capture, with these bytes.
  testing::AssertionResult holds(const std::string& bytes) const {
    const std::string found = folder_.only();
    if (found == bytes) return testing::AssertionSuccess();
    return testing::AssertionFailure() << found.size() << " bytes, not " << bytes.size() << ": " << found.substr(0, 40);
  }
  TemporaryFolder folder_;
};

TEST_F(CaptureOf, AScanHoldsItsBytesHoweverTheyCame) {
  std::string images;
  for (std::uint16_t i = 1; i <= 3; ++i) images += wire::image(wire::image_head(200 * i, i));
  const std::string scans[] = {kScan, kPassStart + images + wire::waveform() + wire::close()};
  std::mt19937 random(3);
  for (const std::string& scan : scans) {
    for (const std::size_t largest : {scan.size() / 1000 + 1, std::size_t{3000}, scan.size()}) {
      {
        TestServer server(options());
        RawClient client(server.port());
        for (std::size_t at = 0; at < scan.size();) {
          const std::size_t n = std::min(scan.size() - at, 1 + random() % largest);
          ASSERT_TRUE(client.send(scan.substr(at, n)));
          at += n;
        }
        EXPECT_TRUE(client.receive_all().ended_well());
      }
      EXPECT_TRUE(holds(scan));
      folder_.clear();
    }
  }
}

TEST_F(CaptureOf, AScanIsThereWhenItsCloseComes) {
  TestServer server(options());
  EXPECT_TRUE(server.exchange(kScan).ended_well());
  EXPECT_TRUE(holds(kScan));
}

TEST_F(CaptureOf, ConnectionsWithoutAScanLeavesNothing) {
  {
    TestServer server(options());
    EXPECT_TRUE(server.exchange(wire::query("ismrmrd::version", 1) + wire::close()).ended_well());
    EXPECT_TRUE(server.exchange(wire::config("cartesian_plain") + wire::close()).ended_well());
    EXPECT_TRUE(server.exchange("GET / HTTP/1.1\r\n\r\n").ended_well());
    server.exchange("", /*half_close=*/true);
  }
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(CaptureOf, AScanThatEndedWellGoesWithOnError) {
  {
    TestServer server(options(Options::Policy::on_error));
    EXPECT_TRUE(server.exchange(kScan).ended_well());
  }
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(CaptureOf, AFailedReconstructionStaysAndTheClientHearsItsName) {
  const std::string scan = kBroken + wire::frame(0) + wire::frame(1) + wire::close();
  {
    TestServer server(options(Options::Policy::on_error), failing_registry());
    const Conversation all = server.exchange(scan);
    EXPECT_TRUE(all.ended_well());
    ASSERT_EQ(folder_.names().size(), 1U);
    const std::string name = *folder_.names().begin();
    EXPECT_THAT(all.texts(),
                HasSubstr("ERROR    recon-failed: the matrix is singular; the raw data are kept as " + name + "\n"));
    EXPECT_THAT(all.texts(), Not(HasSubstr(folder_.path())));
  }
  EXPECT_TRUE(holds(scan));
}

TEST_F(CaptureOf, WhatComesAfterAFailureIsKeptToo) {
  const std::string rest = wire::frame(1) + wire::frame(2) + wire::close();
  {
    TestServer server(options(), failing_registry());
    RawClient client(server.port());
    client.send(kBroken + wire::frame(0));
    ASSERT_TRUE(client.receive());  // the failure is reported
    client.send(rest);
    client.half_close();
    EXPECT_EQ(client.receive_all().count(4), 1U);
  }
  EXPECT_TRUE(holds(kBroken + wire::frame(0) + rest));
}

TEST_F(CaptureOf, ScansThatBreakOffStay) {
  TestServer server(options(Options::Policy::on_error));
  const std::string part = kStart + wire::frame(0) + wire::acquisition(0, 1).substr(0, 400);
  const Conversation all = server.exchange(part, /*half_close=*/true);
  EXPECT_THAT(all.texts(), HasSubstr("incomplete"));
  EXPECT_THAT(all.texts(), HasSubstr(*folder_.names().begin()));
  EXPECT_TRUE(holds(part));
  RawClient client(server.port());
  client.send(part);
  ASSERT_TRUE(client.receive());
  client.reset();
  EXPECT_TRUE(comes_true_soon([&] { return folder_.names().size() == 2; }));
  server.stop();
  for (const std::string& name : folder_.names()) EXPECT_TRUE(folder_.read(name) == part);
}

TEST_F(CaptureOf, ABadHeaderStays) {
  TestServer server(options(Options::Policy::on_error));
  wire::Xml xml;
  xml.fov = "-1";
  const std::string scan = wire::config("cartesian_plain") + wire::header(xml.text());
  EXPECT_THAT(server.exchange(scan).texts(), HasSubstr("ERROR    bad-header"));
  EXPECT_TRUE(holds(scan));
}

TEST_F(CaptureOf, OtherRefusalsBeforeTheScanLeaveNothing) {
  config::ServerOptions o = options();
  o.max_sessions = 1;
  o.connect_timeout_s = 3;
  TestServer server(o);
  RawClient silent(server.port());
  silent.send(kConfigAlone + wire::query("ismrmrd::version", 1));
  ASSERT_EQ(silent.receive()->id, 7);  // it has the session
  EXPECT_THAT(server.exchange(kScan).texts(), HasSubstr("ERROR    busy"));
  EXPECT_THAT(silent.receive_all().texts(), HasSubstr("ERROR    timeout: no header"));
  const std::string endless = wire::id(3) + wire::raw(std::uint32_t{2 << 20});
  EXPECT_THAT(server.exchange(wire::config("no_such") + endless).texts(), HasSubstr("ERROR    bad-header"));
  server.stop();
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(CaptureOf, AServerThatHasStoppedHasWrittenItsCaptures) {
  config::ServerOptions o = options();
  o.shutdown_timeout_s = o.drain_timeout_s = 0.1;
  const Disk slow{[](int descriptor, const iovec* parts, int count) {
                    std::this_thread::sleep_for(200ms);
                    return ::writev(descriptor, parts, count);
                  },
                  {},
                  {}};
  TestServer server(o, Registry::builtin(), slow);
  RawClient client(server.port());
  client.send(kStart + wire::frame(0));
  ASSERT_EQ(client.receive()->id, 1022);
  server.ask_to_stop();
  EXPECT_THAT(client.receive_all().texts(), HasSubstr("ERROR    shutdown"));
  server.wait_for_end();  // the server is still there: main() never destroys it
  EXPECT_EQ(verdict_of(folder_).state, protocol::Verdict::State::right) << verdict_of(folder_).text;
  EXPECT_TRUE(holds(kStart + wire::frame(0)));
}

TEST_F(CaptureOf, AFullDiskWarnsAndTheScanGoesOn) {
  {
    TestServer server(options(), Registry::builtin(), disk_of(5000));
    const Conversation all = server.exchange(kScan);
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 2U);
    EXPECT_THAT(all.texts(), HasSubstr("WARNING  the raw data are no longer kept: writing failed: No space left on "
                                       "device; the scan goes on\n"));
    EXPECT_EQ(all.count(5), 1U);
  }
  EXPECT_TRUE(holds(kScan.substr(0, 5000)));  // the part that fitted stays
}

TEST_F(CaptureOf, AFullDiskEndsTheSessionWhereThatIsWanted) {
  config::ServerOptions o = options();
  o.capture.when_full = Options::WhenFull::end_session;
  TestServer server(o, Registry::builtin(), disk_of(5000));
  const Conversation all = server.exchange(kScan);
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    capture: the raw data cannot be kept: writing failed: No space left"));
  EXPECT_THAT(all.texts(), HasSubstr("; the raw data until then are kept as "));
}

TEST_F(CaptureOf, AFileAtTheProcessesBoundIsAFullDisk) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  TestServer server(options());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string scan = kPassStart + wire::image(wire::image_head(700)) + wire::close();  // 1.9 MiB
  const Conversation all = server.exchange(scan);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U);
  EXPECT_THAT(all.texts(), HasSubstr("WARNING  the raw data are no longer kept: writing failed: File too large"));
  EXPECT_TRUE(holds(scan.substr(0, 1 << 20)));
}

TEST_F(CaptureOf, ASlowDiskHoldsTheClientBackAndLosesNothing) {
  config::ServerOptions o = options();
  o.capture.queue_mib = 1;
  Gate gate;
  std::string scan = kPassStart;
  for (std::uint16_t i = 1; i <= 24; ++i) scan += wire::image(wire::image_head(512, i));  // 24 MiB
  scan += wire::close();
  {
    TestServer server(o, Registry::builtin(), gate.disk());
    RawClient client(server.port());
    std::string got;
    Conversation all;
    std::thread reader([&] { all = client.receive_all(60s); });
    std::thread sender([&] { client.send(scan); });
    std::this_thread::sleep_for(300ms);
    EXPECT_TRUE(holds(""));  // the file is there, and nothing in it
    gate.open();
    sender.join();
    reader.join();
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 24U);
  }
  EXPECT_TRUE(holds(scan));
}

TEST_F(CaptureOf, ASlowDiskStopsTheCaptureWhereThatIsWanted) {
  config::ServerOptions o = options();
  o.capture.queue_mib = 1;
  o.capture.when_slow = Options::WhenSlow::stop_capture;
  o.capture.when_full = Options::WhenFull::end_session;  // does not apply here
  Gate gate;
  TestServer server(o, Registry::builtin(), gate.disk());
  std::string scan = kPassStart;
  for (std::uint16_t i = 1; i <= 4; ++i) scan += wire::image(wire::image_head(512, i));
  const Conversation all = server.exchange(scan + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 4U);
  EXPECT_THAT(all.texts(), HasSubstr("WARNING  the raw data are no longer kept: the disk is slower than the data"));
  gate.open();
}

TEST_F(CaptureOf, ADiskThatHangsKeepsNoClientFromItsClose) {
  config::ServerOptions o = options();
  o.send_timeout_s = 0.4;
  Gate gate;
  TestServer server(o, Registry::builtin(), gate.disk());
  RawClient client(server.port());
  const auto began = std::chrono::steady_clock::now();
  client.send(kScan);
  EXPECT_TRUE(client.receive_all().ended_well());
  EXPECT_GE(std::chrono::steady_clock::now() - began, 400ms);  // CLOSE waited for the disk
  gate.open();
}

// A disk whose synchronisation waits for the test.
class SyncGate {
 public:
  Disk disk() {
    return {{},
            [wait = opened_.get_future().share()](int descriptor) {
              wait.wait();
              return ::fdatasync(descriptor);
            },
            {}};
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

TEST_F(CaptureOf, CloseComesWhenTheDiskHasItWhereThatIsWanted) {
  config::ServerOptions o = options();
  o.capture.sync = Options::Sync::before_close;
  SyncGate gate;
  TestServer server(o, Registry::builtin(), gate.disk());
  RawClient client(server.port());
  client.send(kScan);
  for (int image = 0; image < 2; ++image) {
    const auto message = client.receive();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->id, 1022);
  }
  EXPECT_FALSE(client.receive(300ms));  // and no CLOSE
  EXPECT_TRUE(holds(kScan));
  EXPECT_EQ(verdict_of(folder_).state, protocol::Verdict::State::right);
  gate.open();
  const auto close = client.receive();
  ASSERT_TRUE(close);
  EXPECT_EQ(close->id, 4);
}

TEST_F(CaptureOf, ADiskThatDoesNotTakeItInTimeIsTold) {
  for (const Options::WhenFull when : {Options::WhenFull::stop_capture, Options::WhenFull::end_session}) {
    config::ServerOptions o = options();
    o.send_timeout_s = 0.4;
    o.capture.sync = Options::Sync::before_close;
    o.capture.when_full = when;
    SyncGate gate;
    TestServer server(o, Registry::builtin(), gate.disk());
    const Conversation all = server.exchange(kScan);
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(),
                HasSubstr(when == Options::WhenFull::stop_capture
                              ? "WARNING  the raw data are no longer kept: the disk did not take it within 0.4 s"
                              : "ERROR    capture: the raw data cannot be kept: the disk did not take it"));
    gate.open();
  }
}

TEST_F(CaptureOf, TooMuchBeforeTheHeaderIsNotKept) {
  std::string scan = wire::config("cartesian_plain");
  for (int i = 0; i < 40; ++i) scan += wire::text(std::string(1 << 20, 'x'));
  scan += wire::header(wire::xml()) + wire::frame(0) + wire::close();
  {
    TestServer server(options());
    const Conversation all = server.exchange(scan);
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 1U);
    EXPECT_THAT(all.texts(), HasSubstr("WARNING  the raw data are no longer kept: too much came before its header"));
  }
  EXPECT_THAT(folder_.names(), IsEmpty());
}

TEST_F(CaptureOf, MemoryBoundMustHoldItsQueue) {
  config::ServerOptions o = options();
  o.memory_mib = 4 * o.queue_mib + o.capture.queue_mib - 1;
  try {
    TestServer server(o);
    FAIL() << "no error";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr("capture.queue_mib = 512 MiB"));
  }
}

std::shared_ptr<Capture> begin_one(CaptureStore& store, std::uint64_t session) {
  const std::shared_ptr<Capture> capture = store.open(session, [] {});
  capture->append(protocol::Payload::take(std::vector<char>{'a', 'b', 'c'}));
  return capture;
}

/// A disk that synchronises nothing until `go`: `begun` says that it was asked to.
struct HeldSync {
  std::promise<void> begun, go;
  std::atomic<int> one_by_one = 0, together = 0;
  Disk disk() {
    const auto hold = [this, wait = go.get_future().share()] {
      if (one_by_one + together == 1) begun.set_value();
      wait.wait();
    };
    return {{},
            [this, hold](int descriptor) {
              ++one_by_one;
              hold();
              return ::fdatasync(descriptor);
            },
            {},
            [this, hold](int descriptor) {
              ++together;
              hold();
              return ::syncfs(descriptor);
            }};
  }
};

TEST(CaptureStore, ACrowdOfEndedCapturesReachesTheDiskInOneGo) {
  const TemporaryFolder folder;
  HeldSync held;
  constexpr int kCrowd = 40;
  {
    CaptureStore store(capture_to(folder), nullptr, held.disk());
    begin_one(store, 0)->finish(true);
    held.begun.get_future().wait();
    for (int i = 1; i <= kCrowd; ++i) begin_one(store, static_cast<std::uint64_t>(i))->finish(true);
    // The writer serves captures in the order of their calls: what comes last is written when the others have ended.
    const auto last = begin_one(store, kCrowd + 1);
    EXPECT_TRUE(comes_true_soon([&] { return last->written(3); }));
    held.go.set_value();
  }
  EXPECT_EQ(held.together, 1);
  EXPECT_LE(held.one_by_one, 4);  // two for the first; two for the last, where it came after the crowd
  EXPECT_EQ(folder.names().size(), kCrowd + 2U);
}

/// Whatever waits in the writer's queue before this has been looked at when it returns.
void pass_writer(Capture& capture) {
  std::byte room{};
  capture.fetch(0, {&room, 1});
  EXPECT_TRUE(comes_true_soon([&] { return capture.fetched().has_value(); }));
}

/// Bytes that before_close has forced to the disk are not forced there once more.
TEST(CaptureStore, ACrowdThatIsOnTheDiskWaitsForNoOther) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.sync = Options::Sync::before_close;
  std::promise<void> begun, go;
  std::atomic<bool> holds = false;
  std::atomic<int> together = 0;
  const Disk disk{{},
                  [&](int descriptor) {
                    if (holds.exchange(false)) {
                      begun.set_value();
                      go.get_future().wait();
                    }
                    return ::fdatasync(descriptor);
                  },
                  {},
                  [&](int) { return ++together, 0; }};
  CaptureStore store(options, nullptr, disk);
  std::vector<std::shared_ptr<Capture>> crowd;
  for (std::uint64_t i = 1; i <= 40; ++i) {
    crowd.push_back(begin_one(store, i));
    crowd.back()->seal();
  }
  for (const auto& capture : crowd) EXPECT_TRUE(comes_true_soon([&] { return capture->sealed(); }));
  holds = true;
  begin_one(store, 0)->finish(true);
  begun.get_future().wait();
  for (const auto& capture : crowd) capture->finish(true);
  pass_writer(*begin_one(store, 41));
  go.set_value();
  store.finish();
  EXPECT_EQ(together, 0);
  EXPECT_EQ(folder.names().size(), 42U);
}

/// Each ended capture keeps two files open until the disk has it, and the server needs descriptors for connections:
/// further ones wait in memory, as for a slow disk, and lose nothing.
TEST(CaptureStore, ADiskThatDoesNotSynchroniseKeepsABoundedNumberOfFilesOpen) {
  const TemporaryFolder folder;
  Options options = capture_to(folder);
  options.queue_mib = 1;
  HeldSync held;
  const auto memory = std::make_shared<QueueMemory>(UINT64_MAX);
  std::string name;
  {
    CaptureStore store(options, memory, held.disk());
    for (std::uint64_t i = 0; i < 300; ++i) begin_one(store, i)->finish(true);
    const auto last = begin_one(store, 300);
    name = last->name();
    pass_writer(*last);
    EXPECT_EQ(folder.names().size(), 256U);
    EXPECT_FALSE(last->stopped());
    EXPECT_FALSE(last->written(3));
    EXPECT_EQ(memory->used(), 3 * 45U);
    last->append(protocol::Payload::take(std::vector<char>(1 << 20, 'd')));
    EXPECT_TRUE(last->full()) << "its client is held back";
    held.go.set_value();
    EXPECT_TRUE(comes_true_soon([&] { return last->written(3 + (1 << 20)); }));
    EXPECT_FALSE(last->stopped());
  }
  EXPECT_EQ(folder.names().size(), 301U);
  for (const std::string& each : folder.names())
    EXPECT_EQ(folder.read(each), each == name ? "abc" + std::string(1 << 20, 'd') : "abc");
}

}  // namespace
}  // namespace echotrain::server
