// `send` against a server made of a socket and the codec: the messages it sends, the images it keeps, and how it fails.
#include "clients/cpp/send/send.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>

#include "clients/cpp/base/image_pixels.h"
#include "clients/cpp/connection/exchange.h"
#include "clients/cpp/simulate/simulate.h"
#include "protocol/files/stream_file.h"
#include "tests/clients/cpp/support.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::client {
namespace {

using protocol::Buffer;

// Serves one connection on a free port of the loopback interface.
class FakeServer {
 public:
  using Talk = std::function<void(FakeServer&)>;
  explicit FakeServer(Talk talk) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this, talk = std::move(talk)] {
      socket_ = ::accept(listener_, nullptr, nullptr);
      talk(*this);
      ::close(socket_);
    });
  }
  ~FakeServer() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }

  // Reads messages until `last` has been read or the client is gone.
  template <class Last>
  void read_until() {
    while (true) {
      auto message = buffer_.next();
      ASSERT_TRUE(message) << message.error().message;
      if (message->has_value()) {
        received.push_back(std::move(**message));
        if (std::holds_alternative<Last>(received.back())) return;
        continue;
      }
      const auto room = buffer_.prepare();
      const ssize_t n = ::recv(socket_, room.data(), room.size(), 0);
      if (n <= 0) return;
      buffer_.commit(static_cast<std::size_t>(n));
    }
  }
  template <class M>
  void write(const M& message) {
    Buffer bytes;
    protocol::encode(message, bytes);
    ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void drain() {
    std::byte room[4096];
    ::shutdown(socket_, SHUT_WR);
    while (::recv(socket_, room, sizeof room, 0) > 0) {
    }
  }

  std::uint16_t port = 0;
  std::vector<protocol::Message> received;

 private:
  int listener_, socket_ = -1;
  protocol::MessageBuffer buffer_{protocol::Limits{}};
  std::thread thread_;
};

class Send : public ::testing::Test {
 protected:
  Send() {
    SimulateOptions scan;
    scan.output = folder_ / "scan.h5";
    scan.trajectory = "cartesian";
    scan.matrix = 8;
    scan.coils = 1;
    scan.frames = 2;
    std::ostringstream ignored;
    simulate(scan, ignored);
    options_.input = scan.output;
    options_.output = folder_ / "out.h5";
    options_.config = "cartesian_plain";
    options_.timeout_s = 10;
  }
  int run_send(std::uint16_t port) {
    options_.server.port = port;
    return send(options_, out_, err_);
  }
  std::size_t images_kept() { return protocol::DatasetReader(options_.output).images("image_1"); }
  std::ptrdiff_t files_here() {
    return std::distance(std::filesystem::directory_iterator(options_.output.parent_path()), {});
  }
  static protocol::Image image(std::uint16_t repetition) {
    auto made = make_image<float>(5, 8, 8, std::vector<float>(64, 0.5f));
    made.head.repetition = repetition;
    made.attributes =
        "<?xml "
        "version=\"1.0\"?>\n<ismrmrdMeta><meta><name>echotrain_backend</name><value>abacus</value></meta></"
        "ismrmrdMeta>";
    return made;
  }

  TemporaryFolder folder_;
  SendOptions options_;
  std::ostringstream out_, err_;
};

TEST_F(Send, SendsAScanInOrderAndKeepsWhatComesBack) {
  options_.truth = "";
  options_.summary = folder_ / "summary.txt";
  std::vector<protocol::Message> received;
  {
    FakeServer server([](FakeServer& s) {
      s.read_until<protocol::Close>();
      s.write(image(0));
      s.write(protocol::Text{protocol::format_log_text(protocol::Level::info, "two frames")});
      s.write(image(1));
      s.write(protocol::Close{});
      s.drain();
    });
    EXPECT_EQ(run_send(server.port), 0) << err_.str();
    received = std::move(server.received);
  }
  ASSERT_EQ(received.size(), 2u + 16 + 1);
  EXPECT_EQ(std::get<protocol::ConfigFile>(received[0]).name, "cartesian_plain");
  const protocol::DatasetReader reader(options_.input);
  EXPECT_EQ(std::get<protocol::HeaderText>(received[1]).xml, reader.header_xml());
  for (std::size_t i = 0; i < 16; ++i) {
    const auto& sent = std::get<protocol::Acquisition>(received[2 + i]);
    const auto stored = reader.acquisition(i);
    EXPECT_EQ(+sent.head.scan_counter, i);
    EXPECT_TRUE(
        std::equal(sent.data.bytes.begin(), sent.data.bytes.end(), stored.data.bytes.begin(), stored.data.bytes.end()));
  }
  EXPECT_EQ(images_kept(), 2u);
  EXPECT_NE(err_.str().find("two frames"), std::string::npos);
  // A constant 0.5 against the truth, computed here.
  const auto truth = read_array(options_.input, "dataset", "truth");
  double difference = 0, power = 0;
  for (const float t : truth.values) {
    difference += (t - 0.5) * (t - 0.5);
    power += t * t;
  }
  for (const std::string& fact :
       {std::string("readouts sent     16"), std::string("images received   2"), std::string("latency"),
        std::string("abacus"), fmt::format("median {:.4g}", std::sqrt(difference / power))}) {
    EXPECT_NE(out_.str().find(fact), std::string::npos) << fact << '\n' << out_.str();
  }
  EXPECT_TRUE(std::filesystem::exists(options_.summary));
}

// The readout that the server names counts, not the last one with the image's counters.
TEST_F(Send, LatencyIsCountedFromTheReadoutThatTheServerNames) {
  options_.latency = true;
  options_.rate = 20;  // all readouts of a frame are 0.4 s apart
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Close>();
    for (const auto& [repetition, readout] : {std::pair<std::uint16_t, int>{0, 1}, {1, 9}}) {
      auto answer = image(repetition);
      const std::size_t end = answer.attributes.find("</ismrmrdMeta>");
      answer.attributes.insert(end, fmt::format("<meta><name>echotrain_last_readout</name><value>{}</value></meta>"
                                                "<meta><name>echotrain_queue_ms</name><value>{}.125</value></meta>",
                                                readout, readout));
      s.write(answer);
    }
    s.write(protocol::Close{});
    s.drain();
  });
  ASSERT_EQ(run_send(server.port), 0) << err_.str();
  // The frames' first readouts were sent 0.75 s and 0.35 s before the end of the scan, their last ones 0.4 s and 0 s.
  double p50 = 0, p90 = 0;
  const std::string text = out_.str();
  const std::size_t at = text.find("  p50 ");
  ASSERT_NE(at, std::string::npos) << text;
  ASSERT_EQ(std::sscanf(text.c_str() + at, "  p50 %lf ms, p90 %lf ms", &p50, &p90), 2) << text;
  EXPECT_GE(p50, 250) << text;
  EXPECT_GE(p90, 600) << text;
  EXPECT_NE(text.find("latency of 2 images"), std::string::npos) << text;
  EXPECT_NE(text.find("queue                          1.125     9.125     9.125     9.125"), std::string::npos) << text;
}

TEST_F(Send, APipelineFileIsSentAsText) {
  options_.config = (folder_ / "mine.yaml").string();
  {
    std::FILE* file = std::fopen(options_.config.c_str(), "w");
    std::fputs("echotrain: 1\n", file);
    std::fclose(file);
  }
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Close>();
    s.write(protocol::Close{});
    s.drain();
    EXPECT_EQ(std::get<protocol::ConfigText>(s.received.at(0)).text, "echotrain: 1\n");
  });
  EXPECT_EQ(run_send(server.port), 0) << err_.str();
}

TEST_F(Send, AnErrorTextFailsAndEarlierImagesAreKept) {
  options_.rate = 1;  // the server ends the scan long before all is sent
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Acquisition>();
    s.write(image(0));
    s.write(protocol::Text{protocol::format_log_text(protocol::Level::error, "recon-failed: no such trick")});
    s.write(protocol::Close{});
    s.drain();
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run_send(server.port), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << kMatterOfTime << "it stopped sending";
  EXPECT_NE(err_.str().find("no such trick"), std::string::npos);
  EXPECT_EQ(images_kept(), 1u);
}

TEST_F(Send, ARefusalComesBeforeTheCountsAndLeavesAnOlderFile) {
  protocol::DatasetWriter(options_.output).append(image(0));
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Close>();
    s.write(protocol::Text{protocol::format_log_text(protocol::Level::error, "unknown-config: no such pipeline")});
    s.write(protocol::Close{});
    s.drain();
  });
  options_.server.port = server.port;
  EXPECT_EQ(send(options_, out_, out_), 1);
  const std::string text = out_.str();
  EXPECT_EQ(text.find("error: the server ended the scan: unknown-config: no such pipeline\n"), 0u) << text;
  EXPECT_LT(text.find("out.h5 is as it was"), text.find("readouts sent")) << text;
  EXPECT_EQ(images_kept(), 1u);
  EXPECT_EQ(files_here(), 2) << "a temporary file beside scan and images";
}

TEST_F(Send, TheFileHasItsNameFromTheFirstImageOn) {
  std::ofstream(options_.output) << "older";
  std::uintmax_t before = 0, after = 0;
  FakeServer server([&](FakeServer& s) {
    s.read_until<protocol::Close>();
    before = std::filesystem::file_size(options_.output);
    s.write(image(0));
    for (int i = 0; i < 1000 && after <= before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      after = std::filesystem::file_size(options_.output);
    }
    s.write(image(1));
    s.write(protocol::Close{});
    s.drain();
  });
  EXPECT_EQ(run_send(server.port), 0) << err_.str();
  EXPECT_EQ(before, 5u);
  EXPECT_GT(after, before);
  EXPECT_EQ(images_kept(), 2u);
  EXPECT_EQ(files_here(), 2);
}

TEST_F(Send, AnOutputThatIsALinkStaysOne) {
  std::ofstream(folder_ / "real.h5") << "older";
  std::filesystem::create_symlink("real.h5", options_.output);
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Close>();
    s.write(image(0));
    s.write(protocol::Close{});
    s.drain();
  });
  EXPECT_EQ(run_send(server.port), 0) << err_.str();
  EXPECT_TRUE(std::filesystem::is_symlink(options_.output));
  EXPECT_EQ(protocol::DatasetReader(folder_ / "real.h5").images("image_1"), 1u);
}

TEST_F(Send, CtrlCKeepsAllImagesThatHaveCome) {
  options_.png = folder_ / "png";
  FakeServer server([&](FakeServer& s) {
    s.read_until<protocol::Close>();
    for (std::uint16_t i = 0; i < 3; ++i) s.write(image(i));
    const auto pictures = [&] {
      std::error_code none;
      return std::distance(std::filesystem::directory_iterator(options_.png, none), {});
    };
    for (int i = 0; i < 1000 && pictures() < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::kill(::getpid(), SIGINT);
    s.read_until<protocol::Close>();  // until the client is gone
  });
  EXPECT_EQ(run_send(server.port), 130);
  EXPECT_NE(err_.str().find("error: interrupted\n3 images received before that"), std::string::npos) << err_.str();
  EXPECT_EQ(images_kept(), 3u);
}

TEST_F(Send, AnErrorTextAfterTheWholeScanFailsToo) {
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Close>();
    s.write(protocol::Text{protocol::format_log_text(protocol::Level::error, "recon-failed: out of ink")});
    s.write(protocol::Close{});
    s.drain();
  });
  EXPECT_EQ(run_send(server.port), 1);
  EXPECT_NE(err_.str().find("out of ink"), std::string::npos);
}

TEST_F(Send, ALostConnectionSaysWhatWasReceived) {
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Close>();
    s.write(image(0));
  });
  EXPECT_EQ(run_send(server.port), 1);
  EXPECT_NE(err_.str().find("without CLOSE"), std::string::npos) << err_.str();
  EXPECT_NE(err_.str().find("1 image received before"), std::string::npos) << err_.str();
  EXPECT_EQ(images_kept(), 1u);
}

TEST_F(Send, ASilentServerTimesOut) {
  options_.timeout_s = 0.3;
  std::atomic<bool> done = false;
  FakeServer server([&done](FakeServer& s) {
    s.read_until<protocol::Close>();
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  EXPECT_EQ(run_send(server.port), 1);
  done = true;
  EXPECT_NE(err_.str().find("--timeout"), std::string::npos) << err_.str();
}

// Reconstruction may take longer than any limit that makes sense while sending.
TEST_F(Send, AfterCloseTheClientWaitsForAsLongAsItTakes) {
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Close>();
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    s.write(image(0));
    s.write(protocol::Close{});
    s.drain();
  });
  DatasetSource source(options_.input, "dataset");
  ExchangeTimeouts patience;
  EXPECT_FALSE(patience.after_close);  // what `send` uses unless --timeout is given
  patience.sending = std::chrono::milliseconds(200);
  Exchange exchange({"127.0.0.1", server.port, {}}, patience, {}, source, 0);
  std::size_t images = 0;
  while (!exchange.over()) images += exchange.next(std::chrono::milliseconds(20)) ? 1 : 0;
  EXPECT_EQ(exchange.failure(), "");
  EXPECT_TRUE(exchange.closed_by_server());
  EXPECT_EQ(images, 1u);
}

TEST_F(Send, ImagesAreSentWhenThereAreNoReadouts) {
  options_.input = folder_ / "images.h5";
  {
    protocol::DatasetWriter writer(options_.input);
    writer.append(image(0));
    writer.append(image(1));
  }
  FakeServer server([](FakeServer& s) {
    s.read_until<protocol::Close>();
    for (const auto& message : s.received) {
      if (const auto* came = std::get_if<protocol::Image>(&message)) s.write(*came);
    }
    s.write(protocol::Close{});
    s.drain();
    EXPECT_EQ(std::get<protocol::HeaderText>(s.received.at(1)).xml, "Dummy XML header");
  });
  EXPECT_EQ(run_send(server.port), 0) << err_.str();
  EXPECT_EQ(images_kept(), 2u);
}

TEST_F(Send, NoServerIsAnErrorThatSaysSo) {
  std::uint16_t free_port = 0;
  {
    FakeServer server([](FakeServer&) {});
    free_port = server.port;
  }
  const auto result = command({"send", options_.input.string(), "-c", "cartesian_plain", "-o", options_.output.string(),
                               "-p", std::to_string(free_port)});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("echotrain-server"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace echotrain::client
