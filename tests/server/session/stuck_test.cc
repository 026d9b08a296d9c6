// A scan whose thread does not come back: its client hears so, and neither its session nor the server waits for it.
#include <gmock/gmock.h>

#include <regex>

#include "tests/server/capture/capture_support.h"
#include "tests/server/gadgets/held_gadgets.h"
#include "tests/server/http_client.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

std::string slow_pipeline() {
  return wire::config_text(
             "echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - slow\n  - cartesian_kspace\n"
             "  - fft: {direction: inverse}\n  - coil_combine: {method: rss}\n"
             "  - image: {component: magnitude, type: float}\n") +
         wire::header(wire::xml());
}
std::string scan_that_hangs() { return slow_pipeline() + wire::frame() + wire::close(); }

/// Made after a server: who waits for the scan's thread, as the server does when it is destroyed, need not wait longer.
struct OpensAtTheEnd {
  ~OpensAtTheEnd() { tap().open(); }
};

class Stuck : public testing::Test {
 protected:
  // Other scans on a busy machine show a sign of life within this time.
  Stuck() {
    options_.max_step_s = 3;
    options_.cpu_scans = 2;
    options_.shutdown_timeout_s = 20;
    tap().close();
  }
  ~Stuck() override { tap().reset(); }

  static double stuck(const TestServer& server) {
    return scrape(server.admin_port())["echotrain_stuck_scans{backend=\"cpu\"}"];
  }
  config::ServerOptions options_;
};

TEST_F(Stuck, IsToldItsClientAndOthersGoOn) {
  const TemporaryFolder folder;
  options_.capture = capture_to(folder);
  options_.capture.policy = config::CaptureOptions::Policy::on_error;
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  RawClient client(server.port());
  client.send(scan_that_hangs());
  EXPECT_TRUE(eventually([&] { return scrape(server.admin_port())["echotrain_step_seconds{backend=\"cpu\"}"] > 0.2; }));
  EXPECT_TRUE(server.works());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    timeout: the gadget 'slow' has shown no sign of life for 3 s"));
  EXPECT_THAT(all.texts(), HasSubstr("the raw data are kept as "));
  client.close();
  EXPECT_TRUE(eventually([&] { return stuck(server) == 1; }));
  EXPECT_EQ(folder.only(), scan_that_hangs());
  EXPECT_THAT(HttpClient(server.admin_port()).get("/sessions")->body, HasSubstr("\"state\": \"stuck\""));
  // One of the two places is lost, and works as soon as its thread has come back.
  EXPECT_TRUE(server.works());
  EXPECT_EQ(HttpClient(server.admin_port()).get("/readyz")->status, 200);
  EXPECT_EQ(scrape(server.admin_port())["echotrain_place_scans{backend=\"cpu\",device=\"0\"}"], 1);
  tap().open();
  EXPECT_TRUE(eventually([&] { return stuck(server) == 0; }));
  EXPECT_TRUE(eventually(
      [&] { return scrape(server.admin_port())["echotrain_place_scans{backend=\"cpu\",device=\"0\"}"] == 0; }));
  EXPECT_THAT(HttpClient(server.admin_port()).get("/sessions")->body, Not(HasSubstr("stuck")));
}

// The gadget comes back while its client, which has been told already, has not hung up.
TEST_F(Stuck, IsNotWhoHasStoppedBeforeItsSessionEnds) {
  options_.cpu_scans = 1;
  options_.drain_timeout_s = 60;
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  RawClient client(server.port());
  client.send(scan_that_hangs());
  ASSERT_TRUE(client.receive());  // the error
  const auto step_s = [&] { return scrape(server.admin_port())["echotrain_step_seconds{backend=\"cpu\"}"]; };
  EXPECT_GT(step_s(), 0);
  tap().open();
  EXPECT_TRUE(eventually([&] { return step_s() == 0; }));
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  client.close();
  EXPECT_TRUE(server.works());
  EXPECT_EQ(stuck(server), 0);
  EXPECT_EQ(HttpClient(server.admin_port()).get("/readyz")->status, 200);
}

// Nothing is left to do its work: a new process has its places again.
TEST_F(Stuck, EndsTheServerWhenItHasTheLastPlace) {
  options_.cpu_scans = 1;
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  EXPECT_THAT(server.exchange(scan_that_hangs()).texts(), HasSubstr("(max_step_s)"));
  EXPECT_EQ(server.wait_for_end(), Server::End::broken);  // while the thread is still in the gadget
}

TEST_F(Stuck, IsGivenUpThoughItsClientHasGone) {
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  {
    RawClient client(server.port());
    client.send(scan_that_hangs());
    EXPECT_TRUE(eventually([&] { return scrape(server.admin_port())["echotrain_step_seconds{backend=\"cpu\"}"] > 0; }));
    client.reset();
  }
  EXPECT_TRUE(eventually([&] { return stuck(server) == 1; }));
}

TEST_F(Stuck, ServerStopsWithoutIt) {
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  EXPECT_THAT(server.exchange(scan_that_hangs()).texts(), HasSubstr("(max_step_s)"));
  server.ask_to_stop();
  EXPECT_EQ(server.wait_for_end(), Server::End::asked);
}

// A client may send nothing for as long as idle_timeout_s lets it.
TEST_F(Stuck, IsNotWhoWaitsForData) {
  tap().open();
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  RawClient client(server.port());
  client.send(slow_pipeline() + wire::frame(0));
  ASSERT_TRUE(client.receive());
  std::this_thread::sleep_for(5s);  // more than max_step_s
  client.send(wire::frame(1) + wire::close());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U) << all.texts();
}

// Nor need it read at once: images of 64 KiB, more than queue and sockets take.
TEST_F(Stuck, IsNotWhoWaitsForRoom) {
  constexpr int kImages = 256, kPoints = 2048;
  tap().open();
  options_.queue_mib = 1;
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  std::string bytes = wire::config("cartesian_plain");
  wire::Xml xml{.encoded_x = std::to_string(kPoints)};
  xml.recon_x = xml.encoded_x;
  bytes += wire::header(std::regex_replace(xml.text(), std::regex("<maximum>9</maximum>"), "<maximum>255</maximum>"));
  for (int repetition = 0; repetition < kImages; ++repetition)
    for (int line = 0; line < wire::kMatrix; ++line) {
      auto head = wire::readout_head(line, repetition);
      head.number_of_samples = kPoints;
      head.center_sample = kPoints / 2;
      bytes += wire::acquisition(head);
    }
  bytes += wire::close();
  RawClient client(server.port(), 4096);
  std::thread sender([&] { client.send(bytes); });
  EXPECT_TRUE(eventually([&] { return scrape(server.admin_port())["echotrain_queue_bytes"] > 1 << 20; }));
  std::this_thread::sleep_for(5s);  // more than max_step_s
  const Conversation all = client.receive_all();
  sender.join();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), static_cast<std::size_t>(kImages)) << all.texts();
}

// Images are sent as at the end of a scan on a GPU, whose thread waits until all images are complete.
TEST_F(Stuck, IsNotWhoSendsImages) {
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  const Conversation all = server.exchange(
      wire::config_text("echotrain: 1\nname: mine\ndescription: x\ninput: images\npipeline:\n  - dripping\n") +
      wire::header(wire::xml()) + wire::image(wire::image_head(8)) + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 8U) << all.texts();
}

TEST_F(Stuck, IsNobodyWithoutABound) {
  options_.max_step_s = 0;
  TestServer server(options_, held_registry());
  const OpensAtTheEnd opens;
  RawClient client(server.port());
  client.send(scan_that_hangs());
  EXPECT_TRUE(eventually([&] { return scrape(server.admin_port())["echotrain_step_seconds{backend=\"cpu\"}"] > 1; }));
  tap().open();
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U) << all.texts();
}

}  // namespace
}  // namespace echotrain::server
