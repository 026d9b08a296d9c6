// The latency of images is told by images and summaries.
#include "server/metrics/latency.h"

#include <gmock/gmock.h>
#include <ismrmrd/meta.h>

#include <thread>

#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

Instant at(int microseconds) { return Instant{} + 1h + std::chrono::microseconds(microseconds); }

const ImageTimes kTimes{{at(0), at(250), 7}, at(1750), at(2000)};

TEST(Latency, PartsAddUp) {
  const auto latency = latency_of(kTimes, at(5000));
  ASSERT_TRUE(latency);
  EXPECT_FLOAT_EQ(latency->queue, 0.25f);
  EXPECT_FLOAT_EQ(latency->compute, 1.5f);
  EXPECT_FLOAT_EQ(latency->copy, 0.25f);
  EXPECT_FLOAT_EQ(latency->send, 3.0f);
  EXPECT_FLOAT_EQ(latency->until_ready(), 2.0f);
  EXPECT_FLOAT_EQ(latency->until_sent(), 5.0f);
  EXPECT_FLOAT_EQ(latency_of(kTimes)->send, 0.0f);
  EXPECT_FALSE(latency_of(ImageTimes{}));  // the client's own image
}

TEST(Latency, AttributesStayADocument) {
  ISMRMRD::MetaContainer before;
  before.set("DataRole", "Image");
  std::ostringstream text;
  ISMRMRD::serialize(before, text);
  std::string attributes = text.str();
  add_latency(attributes, *latency_of(kTimes), 12.5f);
  ISMRMRD::MetaContainer meta;
  ISMRMRD::deserialize(attributes.c_str(), meta);
  EXPECT_STREQ(meta.as_str("DataRole"), "Image");
  EXPECT_STREQ(meta.as_str("echotrain_latency_ms"), "2.000");
  EXPECT_STREQ(meta.as_str("echotrain_queue_ms"), "0.250");
  EXPECT_STREQ(meta.as_str("echotrain_compute_ms"), "1.500");
  EXPECT_STREQ(meta.as_str("echotrain_copy_ms"), "0.250");
  EXPECT_STREQ(meta.as_str("echotrain_last_send_ms"), "12.500");
  std::string empty;
  add_latency(empty, *latency_of(kTimes), std::nullopt);
  EXPECT_EQ(empty, "");
}

TEST(Latency, SummaryTellsMedianP99AndMaximumOfEachPart) {
  EXPECT_EQ(latency_text({}), "");
  std::vector<ImageLatency> latencies;
  for (int i = 1; i <= 200; ++i) latencies.push_back({static_cast<float>(i), 1000, 10 * static_cast<float>(i), 0.5f});
  EXPECT_EQ(latency_text(latencies),
            " after_last_readout_ms=2100.50/3178.50/3200.50 queue_ms=100.00/198.00/200.00 "
            "compute_ms=1000.00/1000.00/1000.00 copy_ms=1000.00/1980.00/2000.00 send_ms=0.50/0.50/0.50 "
            "(median/p99/max)");
}

TEST(Latency, OutboxStampsWhatIsWhole) {
  Outbox outbox(1 << 20, [] {});
  protocol::Image image;
  image.head = wire::image_head(1);
  image.pixels = protocol::Payload::take(std::vector<float>(1));
  ImageTimes times = kTimes;
  times.copied = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) outbox.image(protocol::Image(image), times);
  outbox.text(protocol::Level::info, "words");
  std::vector<Outgoing> messages;
  outbox.take(messages, 16);
  ASSERT_EQ(messages.size(), 3u);
  note_written(messages, messages[0].bytes() + messages[1].bytes() - 1);
  EXPECT_NE(messages[0].written, Instant{});
  EXPECT_EQ(messages[1].written, Instant{});
  const Instant first = messages[0].written;
  std::this_thread::sleep_for(1ms);
  note_written(messages, messages[0].bytes() + messages[1].bytes() + messages[2].bytes());
  EXPECT_EQ(messages[0].written, first);
  EXPECT_GE(messages[1].written, first + 1ms);
  outbox.sent(messages);
  ASSERT_EQ(outbox.latencies().size(), 2u);
  EXPECT_LT(outbox.latencies()[0].send + 0.9f, outbox.latencies()[1].send);
}

std::string attributes(const Received& image) {
  std::uint64_t size;
  std::memcpy(&size, image.body.data() + 198, 8);
  return image.body.substr(206, size);
}

double number(const std::string& xml, const char* name) {
  ISMRMRD::MetaContainer meta;
  ISMRMRD::deserialize(xml.c_str(), meta);
  return meta.length(name) == 1 ? meta.as_double(name) : -1;
}

TEST(Latency, EachImageSaysHowLongItTook) {
  TestServer server;
  RawClient client(server.port());
  const auto begin = std::chrono::steady_clock::now();
  client.send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame(0));
  const auto first = client.receive();
  ASSERT_TRUE(first);
  // The readout that closes this frame comes much later than the frame's last one.
  std::string unfinished;
  for (int line = 0; line < wire::kMatrix - 1; ++line) unfinished += wire::acquisition(line, 1);
  client.send(unfinished);
  std::this_thread::sleep_for(300ms);
  client.send(wire::close());
  const Conversation rest = client.receive_all();
  const double all_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_EQ(rest.count(1022), 1u) << rest.texts();
  const std::string one = attributes(*first), two = attributes(rest.messages.front());
  for (const std::string& xml : {one, two}) {
    const double latency = number(xml, "echotrain_latency_ms"), queue = number(xml, "echotrain_queue_ms"),
                 compute = number(xml, "echotrain_compute_ms"), copy = number(xml, "echotrain_copy_ms");
    EXPECT_GE(queue, 0) << xml;
    EXPECT_GT(compute, 0) << xml;
    EXPECT_GT(copy, 0) << xml;
    EXPECT_NEAR(latency, queue + compute + copy, 0.003) << xml;
    EXPECT_LT(latency, all_ms) << xml;
  }
  EXPECT_EQ(number(one, "echotrain_last_readout"), 8);
  EXPECT_EQ(number(two, "echotrain_last_readout"), 15);
  EXPECT_EQ(number(one, "echotrain_last_send_ms"), -1);
  EXPECT_GT(number(two, "echotrain_last_send_ms"), 0) << two;
  EXPECT_GE(number(two, "echotrain_queue_ms"), 100);  // most of the wait for the end of the frame
}

TEST(Latency, ImagesOfTheClientGetNoAttributes) {
  TestServer server;
  const std::string image = wire::image(wire::image_head(4), "<ismrmrdMeta></ismrmrdMeta>");
  const Conversation all =
      server.exchange(wire::config("passthrough") + wire::header(wire::xml()) + wire::frame(0) + image + wire::close());
  ASSERT_EQ(all.count(1022), 1u) << all.texts();
  EXPECT_EQ(all.messages.front().body, image.substr(2));
}

}  // namespace
}  // namespace echotrain::server
