// The metrics page is compared with what a client of plain sockets sent and received.
#include "server/metrics/metrics.h"

#include <gmock/gmock.h>

#include "server/console/admin/metrics_present.h"
#include "tests/server/http_client.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

double sessions(const Exposition& metrics, const std::string& outcome) {
  return metrics["echotrain_sessions_total{outcome=\"" + outcome + "\"}"];
}

double ended(const Exposition& metrics) {
  double all = 0;
  for (const auto& [name, value] : metrics.samples())
    if (name.starts_with("echotrain_sessions_total")) all += value;
  return all;
}

/// The numbers once `count` sessions have ended: clients hear the end before it is counted.
Exposition after(const TestServer& server, double count) {
  EXPECT_TRUE(eventually([&] { return ended(scrape(server.admin_port())) >= count; }));
  return scrape(server.admin_port());
}

std::size_t bytes_of(const Conversation& all) {
  std::size_t bytes = 0;
  for (const Received& message : all.messages) bytes += 2 + message.body.size();
  return bytes;
}

TEST(Metrics, CountWhatCameAndWent) {
  config::ServerOptions options;
  options.recent_images_mib = 0;  // none is still being copied for the live page after the end
  TestServer server(options);
  const std::string scan = wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame(0) +
                           wire::frame(1) + wire::frame(2) + wire::close();
  const Conversation all = server.exchange(scan);
  ASSERT_EQ(all.count(1022), 3U) << all.texts();
  const Exposition metrics = after(server, 1);
  EXPECT_EQ(sessions(metrics, "complete"), 1);
  EXPECT_EQ(ended(metrics), 1);
  EXPECT_EQ(metrics["echotrain_scans_total{backend=\"cpu\",outcome=\"complete\",pipeline=\"cartesian_plain\"}"], 1);
  EXPECT_EQ(metrics["echotrain_readouts_total{pipeline=\"cartesian_plain\"}"], 24);
  EXPECT_EQ(metrics["echotrain_images_total{pipeline=\"cartesian_plain\"}"], 3);
  EXPECT_EQ(metrics["echotrain_received_bytes_total"], scan.size());
  EXPECT_EQ(metrics["echotrain_sent_bytes_total"], bytes_of(all));
  for (const char* part : {"latency", "queue", "compute", "copy", "send"}) {
    const std::string name = "echotrain_image_" + std::string(part) + "_seconds";
    const std::string labels = "{pipeline=\"cartesian_plain\"}";
    EXPECT_EQ(metrics[name + "_count" + labels], 3) << name;
    EXPECT_GT(metrics[name + "_sum" + labels], 0) << name;
    EXPECT_LT(metrics[name + "_sum" + labels], 60) << name;
    EXPECT_EQ(metrics[name + "_bucket{pipeline=\"cartesian_plain\",le=\"+Inf\"}"], 3) << name;
    EXPECT_EQ(metrics.types().at(name), "histogram");
  }
  const auto sum = [&](const std::string& part) {
    return metrics["echotrain_image_" + part + "_seconds_sum{pipeline=\"cartesian_plain\"}"];
  };
  EXPECT_NEAR(sum("queue") + sum("compute") + sum("copy") + sum("send"), sum("latency"), 1e-6);
  EXPECT_EQ(metrics["echotrain_sessions{state=\"scanning\"}"], 0);
  EXPECT_EQ(metrics["echotrain_queue_bytes"], 0);
  // A session is counted as ended a moment before its queues go.
  EXPECT_TRUE(eventually([&] { return scrape(server.admin_port())["echotrain_memory_bytes"] == 0; }));
  EXPECT_GT(metrics["echotrain_memory_bound_bytes"], 1e6);
  EXPECT_EQ(metrics["echotrain_ready"], 1);
  EXPECT_GT(metrics["process_resident_memory_bytes"], 1e6);
  EXPECT_GT(metrics["process_open_fds"], 5);
  EXPECT_GT(metrics["process_cpu_seconds_total"], 0);
  EXPECT_GT(metrics["echotrain_start_time_seconds"], 1.7e9);
}

TEST(Metrics, CountEndsByKind) {
  TestServer server;
  const std::string start = wire::config("cartesian_plain") + wire::header(wire::xml());
  server.exchange(wire::config("nothing_like_it") + wire::header(wire::xml()) + wire::close());
  server.exchange(start + wire::header(wire::xml()));                  // a second header
  server.exchange(start + wire::header(wire::xml()));                  // and again
  server.exchange(start + wire::acquisition(0), /*half_close=*/true);  // no CLOSE
  server.exchange("", /*half_close=*/true);                            // connects and sends nothing
  { RawClient(server.port()).reset(); }                                // connects and resets
  const Exposition metrics = after(server, 6);
  EXPECT_EQ(sessions(metrics, "error"), 3);
  EXPECT_EQ(metrics["echotrain_errors_total{code=\"unknown-config\"}"], 1);
  EXPECT_EQ(metrics["echotrain_errors_total{code=\"duplicate-header\"}"], 2);
  EXPECT_EQ(sessions(metrics, "incomplete"), 1);
  EXPECT_EQ(sessions(metrics, "no_scan") + sessions(metrics, "peer_gone"), 2);
  EXPECT_GE(sessions(metrics, "no_scan"), 1);
  EXPECT_EQ(ended(metrics), 6);
}

TEST(Metrics, CountWhatIsLeftOutByKind) {
  TestServer server;
  auto wide = wire::readout_head(0);
  wide.number_of_samples = 12;  // the first readout of the group had 8
  auto nan = wire::readout_head(1);
  std::string bytes = wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame() +
                      wire::acquisition(wide) + wire::acquisition(wide) +
                      wire::acquisition(nan, std::numeric_limits<float>::quiet_NaN()) + wire::close();
  const Conversation all = server.exchange(bytes);
  EXPECT_EQ(all.count(1022), 1U);
  const Exposition metrics = after(server, 1);
  double skipped = 0;
  std::vector<double> counts;
  for (const auto& [name, value] : metrics.samples())
    if (name.starts_with("echotrain_skipped_total")) counts.push_back(value);
  for (const double count : counts) skipped += count;
  EXPECT_EQ(skipped, 3) << all.texts();
  EXPECT_THAT(counts, testing::UnorderedElementsAre(1, 2));
  EXPECT_EQ(metrics["echotrain_readouts_total{pipeline=\"cartesian_plain\"}"], 11);
}

// More than a scan follows: whoever has the time looks for numbers that are none.
TEST(Metrics, CountWhatIsLeftOutOfAFlood) {
  TestServer server;
  std::string bytes = wire::config("cartesian_plain") + wire::header(wire::xml());
  constexpr int kFrames = 40, kChannels = 1000;
  for (int frame = 0; frame < kFrames; ++frame)
    for (int line = 0; line < wire::kMatrix; ++line) {
      auto head = wire::readout_head(line, frame % 10);
      head.active_channels = head.available_channels = kChannels;
      bytes += wire::acquisition(head, line % 2 == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f);
    }
  server.exchange(bytes + wire::close());
  const Exposition metrics = after(server, 1);
  double skipped = 0;
  for (const auto& [name, value] : metrics.samples())
    if (name.starts_with("echotrain_skipped_total")) skipped += value;
  EXPECT_EQ(skipped, kFrames * wire::kMatrix / 2);
}

TEST(Metrics, LabelsTakeNothingFromClients) {
  TestServer server;
  const std::string marker = "mueller_anna_1970";
  const std::string yaml =
      "echotrain: 1\nname: " + marker + "\ndescription: " + marker + "\npipeline:\n  - passthrough\n";
  EXPECT_TRUE(server.exchange(wire::config_text(yaml) + wire::header(wire::xml()) + wire::text(marker) + wire::close())
                  .ended_well());
  server.exchange(wire::config(marker) + wire::header(wire::xml()) + wire::close());
  // A text that says it is one of the server's pipelines is not.
  const std::string forged = "echotrain: 1\nname: cartesian_plain\ndescription: x\npipeline:\n  - passthrough\n";
  server.exchange(wire::config_text(forged) + wire::header(wire::xml()) + wire::acquisition(0) + wire::close());
  const Exposition metrics = after(server, 3);
  for (const auto& [name, value] : metrics.samples()) EXPECT_THAT(name, Not(HasSubstr(marker)));
  EXPECT_EQ(metrics["echotrain_readouts_total{pipeline=\"inline\"}"], 1);
  EXPECT_EQ(metrics["echotrain_readouts_total{pipeline=\"cartesian_plain\"}"], 0);
  // An empty text takes the default; an alias is counted under the pipeline's name.
  config::ServerOptions options;
  options.default_pipeline = "cartesian_plain";
  TestServer other(options);
  other.exchange(wire::config_text(" ") + wire::header(wire::xml()) + wire::acquisition(0) + wire::close());
  other.exchange(wire::config("simplefft") + wire::header(wire::xml()) + wire::acquisition(0) + wire::close());
  EXPECT_EQ(after(other, 2)["echotrain_readouts_total{pipeline=\"cartesian_plain\"}"], 2);
}

TEST(Metrics, ShowWhatWaitsWhileItWaits) {
  TestServer server;
  RawClient client(server.port());
  const std::string image = wire::image(wire::image_head(1448));  // 8 MiB
  client.send(wire::config("passthrough") + wire::header(wire::xml()) + image.substr(0, image.size() - 1));
  EXPECT_TRUE(eventually(
      [&] { return scrape(server.admin_port())["echotrain_queue_bytes"] == static_cast<double>(image.size() - 1); }));
  const Exposition metrics = scrape(server.admin_port());
  EXPECT_GE(metrics["echotrain_memory_bytes"], metrics["echotrain_queue_bytes"]);
  EXPECT_EQ(metrics["echotrain_sessions{state=\"scanning\"}"], 1);
  client.close();
  EXPECT_EQ(after(server, 1)["echotrain_queue_bytes"], 0);
}

TEST(Metrics, ServersCountForThemselves) {
  TestServer one, other;
  EXPECT_TRUE(one.works());
  EXPECT_EQ(after(one, 1)["echotrain_readouts_total{pipeline=\"cartesian_plain\"}"], 8);
  EXPECT_EQ(ended(scrape(other.admin_port())), 0);
}

TEST(Metrics, PlansThatAreFoundAreHits) {
  TestServer server;
  wire::Xml xml{.trajectory = "radial"};
  std::string scan = wire::config("radial_2d") + wire::header(xml.text());
  for (int line = 0; line < wire::kMatrix; ++line) scan += wire::spoke(line);
  scan += wire::close();
  const auto count = [&](const char* what) {
    return scrape(server.admin_port())["echotrain_cache_" + std::string(what) + "{cache=\"plan\"}"];
  };
  server.exchange(scan);
  const double hits = count("hits_total"), misses = count("misses_total");
  EXPECT_GT(misses, 0);
  EXPECT_GT(count("bytes"), 0);
  EXPECT_GT(count("entries"), 0);
  server.exchange(scan);
  EXPECT_GT(count("hits_total"), hits);
  EXPECT_EQ(count("misses_total"), misses);
}

// One thread counts while another one reads.
TEST(Metrics, AreCountedAndReadAtTheSameTime) {
  const Environment environment =
      make_environment({}, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(), test_resources());
  Metrics& metrics = *environment.metrics;
  constexpr int kThreads = 4, kRounds = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      const auto status = environment.session_registry->add(static_cast<std::uint64_t>(t), "peer", environment.memory);
      const std::shared_ptr<ScanMeter> meter = metrics.scan(t % 2 == 0 ? "even" : "odd", status);
      meter->set_backend("cpu");
      ScanCounts so_far;
      for (int i = 0; i < kRounds; ++i) {
        so_far.readouts += 3;
        ++so_far.skipped[i % 2 == 0 ? "a" : "b"];
        meter->progress(so_far);
        meter->image();
        meter->sent({.queue = 0.5f, .compute = 0.75f, .copy = 0.125f, .send = 0.125f});  // 1.5 ms
        metrics.add_bytes_in(10);
      }
      ScanSummary summary;
      summary.outcome = "complete";
      summary.scan = so_far;
      metrics.add_session(*status, summary, "");
    });
  for (int i = 0; i < 50; ++i) Exposition(metrics_text(environment));
  for (std::thread& thread : threads) thread.join();
  const Exposition counted(metrics_text(environment));
  EXPECT_EQ(counted["echotrain_readouts_total{pipeline=\"even\"}"], kThreads / 2 * kRounds * 3);
  EXPECT_EQ(counted["echotrain_skipped_total{kind=\"a\"}"], kThreads * kRounds / 2);
  EXPECT_EQ(counted["echotrain_received_bytes_total"], kThreads * kRounds * 10);
  EXPECT_EQ(sessions(counted, "complete"), kThreads);
  const auto bucket = [&](const char* bound) {
    return counted["echotrain_image_latency_seconds_bucket{pipeline=\"odd\",le=\"" + std::string(bound) + "\"}"];
  };
  EXPECT_EQ(bucket("0.001"), 0);
  EXPECT_EQ(bucket("0.002"), kThreads / 2 * kRounds);
  EXPECT_EQ(bucket("10"), kThreads / 2 * kRounds);
  EXPECT_EQ(counted["echotrain_images_total{pipeline=\"odd\"}"], kThreads / 2 * kRounds);
  EXPECT_NEAR(counted["echotrain_image_queue_seconds_sum{pipeline=\"odd\"}"], kThreads / 2 * kRounds * 0.5e-3, 1e-9);
  EXPECT_EQ(counted["echotrain_sessions{state=\"connecting\"}"], 0);  // all are gone
}

}  // namespace
}  // namespace echotrain::server
