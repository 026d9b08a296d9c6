// The supervision tells the service manager of a server's life, and of a device that is lost.
#include "server/systemd_service.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/un.h>

#include <filesystem>

#include "tests/server/gadgets/failing_gadgets.h"
#include "tests/server/http_client.h"
#include "tests/support/matter_of_time.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

/// The manager's end of NOTIFY_SOCKET.
class Manager {
 public:
  explicit Manager(bool abstract) : fd_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    path_ = abstract ? "@echotrain-test-" + std::to_string(::getpid())
                     : (std::filesystem::temp_directory_path() / ("echotrain" + std::to_string(::getpid()))).string();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    if (abstract)
      address.sun_path[0] = '\0';
    else
      std::filesystem::remove(path_);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path_.size());
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), size) != 0) throw std::runtime_error("bind");
    ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
  }
  ~Manager() {
    ::close(fd_);
    if (path_[0] != '@') std::filesystem::remove(path_);
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }
  /// The next datagram, or nothing within `patience`.
  std::string receive(std::chrono::milliseconds patience = 20s) {
    pollfd poll_fd{fd_, POLLIN, 0};
    if (::poll(&poll_fd, 1, static_cast<int>(patience.count())) <= 0) return "";
    char bytes[4096];
    const ssize_t n = ::recv(fd_, bytes, sizeof(bytes), 0);
    return {bytes, static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
  }
  /// Reads until a datagram holds `text`.
  bool hears(const std::string& text) {
    for (;;) {
      const std::string datagram = receive();
      if (datagram.find(text) != std::string::npos) return true;
      if (datagram.empty()) return false;
    }
  }

 private:
  int fd_;
  std::string path_;
};

TEST(SystemdService, TellsReadyAliveAndStopping) {
  Manager manager(/*abstract=*/false);
  ::setenv("WATCHDOG_USEC", "40000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  TestServer server;
  EXPECT_EQ(manager.receive(), "READY=1");
  for (int i = 0; i < 5; ++i) EXPECT_THAT(manager.receive(), HasSubstr("WATCHDOG=1"));
  RawClient client(server.port());
  client.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame());
  EXPECT_TRUE(manager.hears("STATUS=ready: 1 session, 1 of them scanning"));
  server.ask_to_stop();
  EXPECT_TRUE(manager.hears("STOPPING=1"));
  // As long as the scan runs, the manager is asked for time.
  for (int i = 0; i < 3; ++i) {
    const std::string datagram = manager.receive();
    EXPECT_THAT(datagram, HasSubstr("EXTEND_TIMEOUT_USEC="));
    EXPECT_THAT(datagram, HasSubstr("WATCHDOG=1"));
    EXPECT_THAT(datagram, HasSubstr("STATUS=draining: 1 session"));
  }
  client.send(wire::close());
  client.receive_all();
  client.close();
  server.wait_for_end();
  while (!manager.receive(0ms).empty()) {
  }
  EXPECT_EQ(manager.receive(100ms), "");
}

// What has not ended in time hangs, or waits for a client: the manager need not be patient with it.
TEST(SystemdService, AsksForNoTimeAfterTheTimeoutOfTheShutdown) {
  Manager manager(/*abstract=*/true);
  ::setenv("WATCHDOG_USEC", "20000", 1);
  config::ServerOptions options;
  options.shutdown_timeout_s = 0.3;
  options.drain_timeout_s = 60;
  TestServer server(options);
  RawClient client(server.port());
  client.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame());
  EXPECT_TRUE(manager.hears("1 session, 1 of them scanning"));
  server.ask_to_stop();
  EXPECT_TRUE(manager.hears("EXTEND_TIMEOUT_USEC="));
  const auto begin = std::chrono::steady_clock::now();
  std::string datagram;
  do {
    datagram = manager.receive();
  } while (datagram.find("EXTEND_TIMEOUT_USEC=") != std::string::npos);
  EXPECT_THAT(datagram, HasSubstr("WATCHDOG=1"));
  EXPECT_THAT(datagram, HasSubstr("STATUS=draining: 1 session"));  // its client has not hung up
  int without = 0;
  for (datagram = manager.receive(); !datagram.empty(); datagram = manager.receive(200ms), ++without)
    EXPECT_THAT(datagram, Not(HasSubstr("EXTEND_TIMEOUT_USEC=")));
  EXPECT_GT(without, 5) << kMatterOfTime;
  server.wait_for_end();  // the client is cut off
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s) << kMatterOfTime;
}

TEST(SystemdService, WorksWithAnAbstractSocketAndWithoutWatchdog) {
  Manager manager(/*abstract=*/true);
  TestServer server;
  EXPECT_EQ(manager.receive(), "READY=1");
  EXPECT_THAT(manager.receive(), Not(HasSubstr("WATCHDOG")));
  EXPECT_EQ(manager.receive(100ms), "");  // the next line comes in seconds
}

TEST(SystemdService, WatchdogOfAnotherProcessIsNotOurs) {
  Manager manager(/*abstract=*/true);
  ::setenv("WATCHDOG_USEC", "1000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_FALSE(SystemdNotifier().watchdog());
  ::unsetenv("WATCHDOG_PID");
  EXPECT_EQ(SystemdNotifier().watchdog(), 1000us);
  ::setenv("WATCHDOG_USEC", "1000x", 1);
  EXPECT_FALSE(SystemdNotifier().watchdog());
}

TEST(SystemdService, ManagersThatAreNotThereDoNoHarm) {
  for (const char* path : {"/nowhere/notify", "relative", "vsock:2:1234", "@", ""}) {
    ::setenv("NOTIFY_SOCKET", path, 1);
    TestServer server;
    EXPECT_TRUE(server.works()) << path;
  }
  ::setenv("NOTIFY_SOCKET", ("/" + std::string(300, 'x')).c_str(), 1);
  EXPECT_FALSE(SystemdNotifier().on());
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_FALSE(SystemdNotifier().on());
}

std::string scan_with(const std::string& gadget) {
  return wire::config_text("echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - " + gadget + "\n") +
         wire::header(wire::xml()) + wire::frame() + wire::close();
}
std::string scan_that_kills() { return scan_with("killer"); }

TEST(DeviceLost, EndsTheServerWithAnErrorAfterTheScansThatRun) {
  config::ServerOptions options;
  options.shutdown_timeout_s = 60;
  TestServer server(options, failing_registry());
  RawClient runs(server.port());
  runs.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame(0));
  ASSERT_TRUE(runs.receive());
  HttpClient admin(server.admin_port());
  EXPECT_EQ(admin.get("/readyz")->status, 200);

  const Conversation all = server.exchange(scan_that_kills());
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    resources: CUDA: copying memory failed"));
  const auto page = admin.get("/readyz");
  ASSERT_EQ(page->status, 503);
  EXPECT_THAT(page->body, HasSubstr("broken: a GPU is lost: CUDA: copying memory failed"));
  EXPECT_TRUE(eventually([&] {
    try {
      RawClient late(server.port());
      return false;
    } catch (const std::runtime_error&) {
      return true;  // nobody listens any more
    }
  }));

  runs.send(wire::frame(1) + wire::close());
  const Conversation rest = runs.receive_all();
  EXPECT_TRUE(rest.ended_well());
  EXPECT_EQ(rest.count(1022), 1U) << rest.texts();
  runs.close();
  EXPECT_EQ(server.wait_for_end(), Server::End::broken);
}

// A server that is to stop goes on accepting for a while, so that balancers notice, but not once its device is lost.
TEST(DeviceLost, EndsTheDelayOfAShutdown) {
  config::ServerOptions options;
  options.shutdown_delay_s = 3600;
  TestServer server(options, failing_registry());
  server.ask_to_stop();
  EXPECT_THAT(server.exchange(scan_that_kills()).texts(), HasSubstr("ERROR    resources: CUDA: copying memory failed"));
  EXPECT_EQ(server.wait_for_end(), Server::End::broken);
}

// Errors that may pass end the server only when another process finds the device broken.
TEST(DeviceLost, IsToldByANewProcessAfterScansThatFailInARow) {
  TestServer server({}, failing_registry());
  server.use_canary({"/bin/sh", "-c", fmt::format("exit {}", Canary::kBroken)});
  for (int i = 1; i < Canary::kFailures; ++i)
    EXPECT_THAT(server.exchange(scan_with("failing")).texts(), HasSubstr("ERROR    resources: CUDA: choosing"));
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(HttpClient(server.admin_port()).get("/readyz")->status, 200);
  server.exchange(scan_with("failing"));
  EXPECT_EQ(server.wait_for_end(), Server::End::broken);
}

// A lack of memory is no reason to end.
TEST(DeviceLost, IsNotWhatAnotherResourceErrorIs) {
  config::ServerOptions options;
  options.session_memory_mib = 1;
  TestServer server(options);
  wire::Xml xml{.encoded_x = "512"};
  xml.encoded_y = xml.recon_x = xml.recon_y = "512";
  auto head = wire::readout_head(0);
  head.number_of_samples = 512;
  head.center_sample = 256;
  const Conversation all = server.exchange(wire::config("cartesian_plain") + wire::header(xml.text()) +
                                           wire::acquisition(head) + wire::close());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    resources: "));
  EXPECT_EQ(HttpClient(server.admin_port()).get("/readyz")->status, 200);
  server.ask_to_stop();
  EXPECT_EQ(server.wait_for_end(), Server::End::asked);
}

}  // namespace
}  // namespace echotrain::server
