// A pipeline slower than the scanner, with raw capture on: the scanner is never stopped, and nothing shows in the
// images.
#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/server/capture/capture_support.h"
#include "tests/server/gadgets/held_gadgets.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr int kFrames = 10;
constexpr int kChannels = 64, kSamples = 512;  // a readout of 256 KiB, a frame of 2 MiB

std::string start() {
  wire::Xml xml{.encoded_x = "512"};
  xml.recon_x = "512";
  return wire::config_text(
             "echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - slow\n  - cartesian_kspace\n"
             "  - fft: {direction: inverse}\n  - coil_combine: {method: rss}\n"
             "  - image: {component: magnitude, type: float}\n") +
         wire::header(xml.text());
}
std::string frame(int repetition) {
  std::string bytes;
  for (int line = 0; line < wire::kMatrix; ++line) {
    auto head = wire::readout_head(line, repetition);
    head.number_of_samples = kSamples;
    head.center_sample = kSamples / 2;
    head.available_channels = head.active_channels = kChannels;
    bytes += wire::acquisition(head, static_cast<float>(1 + repetition));
  }
  return bytes;
}
std::string frames() {
  std::string bytes;
  for (int i = 0; i < kFrames; ++i) bytes += frame(i);
  return bytes;
}

std::vector<std::string> pixels(const Conversation& conversation) {
  std::vector<std::string> all;
  for (const Received& message : conversation.messages)
    if (message.id == 1022) all.push_back(message.pixels());
  return all;
}

class Spill : public testing::Test {
 protected:
  Spill() {
    options_.capture = capture_to(folder_);
    options_.queue_mib = 1;
    options_.pause_s = 600;  // OnlyPlace keeps its place though it is silent
  }
  ~Spill() override { tap().reset(); }

  /// The images of the scan when nothing holds it up.
  static const std::vector<std::string>& truth() {
    static const std::vector<std::string> truth = [] {
      tap().reset();
      TestServer server({}, held_registry());
      return pixels(server.exchange(start() + frames() + wire::close()));
    }();
    return truth;
  }
  std::string file() const { return folder_.path() / *folder_.names().begin(); }
  /// The capture's bytes; 0 where it is not there yet, or is just getting its name.
  std::uintmax_t captured() const {
    const auto names = folder_.names();
    std::error_code error;
    const std::uintmax_t bytes = names.empty() ? 0 : std::filesystem::file_size(folder_.path() / *names.begin(), error);
    return error ? 0 : bytes;
  }

  TemporaryFolder folder_;
  config::ServerOptions options_;
};

TEST_F(Spill, ScannerIsNotStoppedAndImagesAreTheSame) {
  ASSERT_EQ(truth().size(), static_cast<std::size_t>(kFrames));
  const std::string scan = start() + frames() + wire::close();
  {
    TestServer server(options_, held_registry());
    tap().close();
    RawClient client(server.port());
    ASSERT_TRUE(client.send(scan));  // 20 MiB past a pipeline that takes none
    tap().open();
    const Conversation all = client.receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_TRUE(pixels(all) == truth());
  }
  EXPECT_TRUE(folder_.only() == scan);
}

TEST_F(Spill, WithoutCaptureTheScannerWaits) {
  options_.capture = {};
  TestServer server(options_, held_registry());
  tap().close();
  RawClient client(server.port());
  const std::string scan = start() + frames() + frames() + wire::close();
  EXPECT_LT(client.send_for(scan, 500ms), scan.size());
  tap().open();
}

TEST_F(Spill, ScannerIsNotStoppedWhileItsScanWaitsForAPlace) {
  options_.cpu_scans = 1;
  TestServer server(options_, held_registry());
  OnlyPlace other(server);
  for (const bool whole : {true, false}) {
    RawClient client(server.port());
    const std::string scan = start() + frames() + frames() + (whole ? wire::close() : "");
    ASSERT_EQ(client.send_for(scan, 20s), scan.size());  // 40 MiB, which no socket holds
    if (!whole) client.half_close();
    const auto told = client.receive();
    ASSERT_TRUE(told);
    EXPECT_THAT(told->text(), HasSubstr("waiting for a place on the cpu"));
    EXPECT_FALSE(client.receive(100ms));
    other.finish();
    const Conversation all = client.receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), whole ? testing::Matcher<std::string>(Not(HasSubstr("incomplete")))
                                   : testing::Matcher<std::string>(HasSubstr("incomplete")));
    ASSERT_EQ(pixels(all).size(), 2 * truth().size());
    for (std::size_t i = 0; i < pixels(all).size(); ++i) EXPECT_TRUE(pixels(all)[i] == truth()[i % kFrames]) << i;
    if (whole) other.take();
  }
}

TEST_F(Spill, WithoutCaptureAScannerWaitsWithItsScan) {
  options_.capture = {};
  options_.cpu_scans = 1;
  TestServer server(options_, held_registry());
  OnlyPlace other(server);
  RawClient client(server.port());
  const std::string scan = start() + frames() + frames() + wire::close();
  const std::size_t sent = client.send_for(scan, 500ms);
  EXPECT_LT(sent, scan.size());
  other.finish();
  std::thread sender([&] { client.send(scan.substr(sent)); });
  EXPECT_EQ(pixels(client.receive_all()).size(), 2 * truth().size());
  sender.join();
}

// What came with the header, in the same read, waits in the buffer and not on the disk.
TEST_F(Spill, ASmallScanWaitsForItsPlaceInOnePiece) {
  options_.cpu_scans = 1;
  TestServer server(options_, held_registry());
  OnlyPlace other(server);
  RawClient client(server.port());
  ASSERT_TRUE(client.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame() + wire::close()));
  ASSERT_TRUE(client.receive());
  other.finish();
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U);
}

// Bytes in pieces, a pipeline that is sometimes behind and sometimes not: all ways in and out of spilling.
TEST_F(Spill, NoTimingShowsInTheImages) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    std::mt19937 random(seed);
    TestServer server(options_, held_registry());
    tap().dawdle(seed);
    RawClient client(server.port());
    const std::string scan = start() + frames() + wire::close();
    Conversation all;
    std::thread reader([&] { all = client.receive_all(60s); });
    for (std::size_t at = 0; at < scan.size();) {
      const std::size_t n = std::min<std::size_t>(scan.size() - at, 1 + random() % (seed % 2 == 0 ? 300000 : 3000000));
      if (!client.send(scan.substr(at, n))) break;
      at += n;
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    }
    reader.join();
    EXPECT_TRUE(all.ended_well()) << seed;
    EXPECT_TRUE(pixels(all) == truth()) << seed;
  }
}

TEST_F(Spill, ClientMayWriteAllBeforeItReads) {
  TestServer server(options_, held_registry());
  std::string scan = wire::config("passthrough") + wire::header(wire::xml());
  std::vector<std::string> sent;
  for (std::uint16_t i = 1; i <= 48; ++i) {
    const std::string image = wire::image(wire::image_head(512, i));  // 1 MiB
    sent.push_back(image.substr(2));
    scan += image;
  }
  RawClient client(server.port(), /*receive_buffer=*/4096);
  ASSERT_TRUE(client.send(scan + wire::close()));  // the output queue and the socket hold a few MiB of the answer
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.images().size(), sent.size());
  EXPECT_TRUE(all.images() == sent);
}

// The output queue is full, so the pipeline waits, so input spills: nobody else would end this.
TEST_F(Spill, AClientThatNeitherSendsNorReadsLosesItsSession) {
  options_.idle_timeout_s = options_.send_timeout_s = 0.3;
  options_.max_sessions = 1;
  TestServer server(options_, held_registry());
  std::string scan = wire::config("passthrough") + wire::header(wire::xml());
  for (std::uint16_t i = 1; i <= 48; ++i) scan += wire::image(wire::image_head(512, i));  // 1 MiB
  RawClient client(server.port(), /*receive_buffer=*/4096);
  ASSERT_TRUE(client.send(scan));
  const auto end = Clock::now() + 60s;
  while (!server.works() && Clock::now() < end) std::this_thread::sleep_for(100ms);
  EXPECT_LT(Clock::now(), end) << "its session is still there";
}

TEST_F(Spill, EndOfTheStreamIsSeenBehindWhatIsSpilled) {
  const std::string scan = start() + frames() + frame(0).substr(0, 100000);
  TestServer server(options_, held_registry());
  tap().close();
  RawClient client(server.port());
  ASSERT_TRUE(client.send(scan));
  client.half_close();
  std::this_thread::sleep_for(100ms);
  tap().open();
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("incomplete"));
  EXPECT_TRUE(pixels(all) == truth());
}

/// Neither the disk nor what waits for it holds the scan, however late the writer learns that the disk is full.
TEST_F(Spill, FullDiskBringsBackPressureBackAndLosesNothing) {
  options_.capture.queue_mib = 8;
  Disk late = disk_of(4 << 20);
  late.write = [write = late.write, begin = std::chrono::steady_clock::now() + 1s](auto... of) {
    std::this_thread::sleep_until(begin);
    return write(of...);
  };
  TestServer server(options_, held_registry(), std::move(late));
  tap().close();
  RawClient client(server.port());
  const std::string scan = start() + frames() + frames() + frames() + wire::close();
  const std::size_t sent = client.send_for(scan, 500ms);
  EXPECT_LT(sent, scan.size());
  tap().open();
  std::thread sender([&] { client.send(scan.substr(sent)); });
  const Conversation all = client.receive_all();
  sender.join();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("WARNING  the raw data are no longer kept: writing failed: No space left"));
  ASSERT_GE(pixels(all).size(), truth().size());
  for (std::size_t i = 0; i < pixels(all).size(); ++i) EXPECT_TRUE(pixels(all)[i] == truth()[i % kFrames]) << i;
}

TEST_F(Spill, ClientIsNotBlamedForAPipelineThatIsBehind) {
  options_.idle_timeout_s = options_.message_timeout_s = options_.send_timeout_s = 0.2;
  TestServer server(options_, held_registry());
  tap().close();
  RawClient client(server.port());
  const std::string begun = frame(0).substr(0, 100000);
  ASSERT_TRUE(client.send(start() + frames() + begun));
  std::this_thread::sleep_for(1s);  // five timeouts
  tap().open();
  // Now everything is parsed, and the client is to blame for the unfinished message.
  const Conversation all = client.receive_all();
  EXPECT_TRUE(pixels(all) == truth());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    timeout: a message stopped after 100000 bytes"));
}

TEST_F(Spill, FailureIsToldAndTheCaptureHasItAll) {
  const std::string scan = start() + frames() + wire::close();
  {
    TestServer server(options_, held_registry());
    tap().close();
    RawClient client(server.port());
    ASSERT_TRUE(client.send(scan));
    tap().fail();
    tap().open();
    const Conversation all = client.receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("ERROR    recon-failed: no inverse; the raw data are kept as "));
    tap().reset();
    EXPECT_TRUE(server.works());
  }
  std::set<std::string> names = folder_.names();
  EXPECT_EQ(names.size(), 2U);
  EXPECT_TRUE(std::any_of(names.begin(), names.end(), [&](const auto& name) { return folder_.read(name) == scan; }));
}

TEST_F(Spill, PeerThatVanishesEndsTheSession) {
  TestServer server(options_, held_registry());
  tap().close();
  {
    RawClient client(server.port());
    ASSERT_TRUE(client.send(start() + frames()));
    client.reset();
  }
  std::this_thread::sleep_for(50ms);
  tap().open();
  EXPECT_TRUE(server.works());
  server.stop();
}

TEST_F(Spill, CaptureThatCannotBeReadBackIsFatal) {
  TestServer server(options_, held_registry());
  tap().close();
  RawClient client(server.port());
  const std::string scan = start() + frames();
  ASSERT_TRUE(client.send(scan));
  ASSERT_TRUE(comes_true_soon([&] { return captured() == scan.size(); }));
  ASSERT_EQ(::truncate(file().c_str(), 100), 0);
  tap().open();
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    capture: the raw capture "));
  EXPECT_THAT(all.texts(), HasSubstr("cannot be read back"));
}

}  // namespace
}  // namespace echotrain::server
