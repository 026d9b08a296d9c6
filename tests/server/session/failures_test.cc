// The failures are those behind the protocol: a reconstruction that fails, memory that ends. docs/protocol.md,
// "Validation and answers", rows `recon-failed`, `resources` and `budget`.
#include <gmock/gmock.h>

#include "server/base/queue_memory.h"
#include "tests/server/gadgets/failing_gadgets.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr std::int64_t kMiB = 1 << 20;

std::string scan_with(const std::string& gadget) {
  return wire::config_text("echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - " + gadget + "\n") +
         wire::header(wire::xml()) + wire::frame() + wire::close();
}

TEST(Failures, FailureOfAGadgetIsToldAndOnlyEndsItsSession) {
  TestServer server({}, failing_registry());
  const Conversation all = server.exchange(scan_with("broken"));
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    recon-failed: the matrix is singular"));
  EXPECT_TRUE(server.works());
}

TEST(Failures, ScanLargerThanTheSessionsMemoryIsToldSo) {
  config::ServerOptions options;
  options.session_memory_mib = 1;
  TestServer server(options, failing_registry());
  for (const std::string& scan : {scan_with("hoarder"), [] {
                                    // 512 x 512 samples of two channels are 4 MiB; the eight lines that are sent are 64
                                    // KiB.
                                    wire::Xml xml{.encoded_x = "512"};
                                    xml.encoded_y = xml.recon_x = xml.recon_y = "512";
                                    std::string bytes = wire::config("cartesian_plain") + wire::header(xml.text());
                                    for (int line = 0; line < wire::kMatrix; ++line) {
                                      auto head = wire::readout_head(line);
                                      head.number_of_samples = 512;
                                      head.center_sample = 256;
                                      bytes += wire::acquisition(head);
                                    }
                                    return bytes + wire::close();
                                  }()}) {
    const Conversation all = server.exchange(scan);
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("ERROR    resources: "));
    EXPECT_EQ(all.count(1022), 0U);
    EXPECT_TRUE(server.works());
  }
}

TEST(Failures, MemoryOfAllSessionsTogetherIsBounded) {
  config::ServerOptions options;
  options.queue_mib = 1;
  options.memory_mib = options.session_memory_mib = 16;
  TestServer server(options, failing_registry());
  const std::string start = wire::config("passthrough") + wire::header(wire::xml());
  const std::string image = wire::image(wire::image_head(1448));  // 8 MiB
  EXPECT_TRUE(server.exchange(scan_with("hoarder")).texts().empty());

  // An unfinished message of 8 MiB, and then 12 MiB of arrays or 12 MiB of another message.
  RawClient first(server.port());
  first.send(start + image.substr(0, image.size() - 10));
  const std::string larger = wire::image(wire::image_head(1800)).substr(0, 12 * kMiB);
  for (const std::string& second : {scan_with("hoarder"), start + larger}) {
    Conversation all;
    // Until all bytes of the first client have arrived.
    for (int i = 0; i < 300 && all.texts().find("budget") == std::string::npos; ++i)
      all = server.exchange(second, /*half_close=*/true);
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("ERROR    budget: "));
    EXPECT_THAT(all.texts(), HasSubstr("memory_mib"));
  }
  EXPECT_TRUE(server.works());  // there is room for a small scan

  // The other sessions have given back their memory, also one that was refused and stays.
  RawClient stays(server.port());
  stays.send(start + larger);
  EXPECT_THAT(stays.receive_all().texts(), HasSubstr("ERROR    budget: "));
  first.send(image.substr(image.size() - 10) + wire::close());
  const Conversation rest = first.receive_all();
  EXPECT_TRUE(rest.ended_well());
  EXPECT_EQ(rest.count(1022), 1U) << rest.texts();
  EXPECT_EQ(server.exchange(scan_with("hoarder")).texts(), "");
}

TEST(Failures, MemoryBoundBelowOneSessionsQueuesIsRefusedAtStart) {
  config::ServerOptions options;
  options.queue_mib = 64;
  options.memory_mib = 255;
  EXPECT_THROW(TestServer{options}, std::invalid_argument);
  options.memory_mib = 256;
  EXPECT_TRUE(TestServer(options).works());
}

TEST(QueueMemory, AddsUpSharesAndTakesThemBack) {
  const auto memory = std::make_shared<QueueMemory>(100);
  QueueMemory::Share first(memory);
  first.set(60);
  {
    QueueMemory::Share second(memory);
    second.set(70);
    EXPECT_EQ(memory->used(), 130U);
    EXPECT_THROW(memory->check(), OverBudget);
    second.set(40);
    EXPECT_EQ(memory->used(), 100U);
    EXPECT_NO_THROW(memory->check());
  }
  EXPECT_EQ(memory->used(), 60U);
  QueueMemory::Share nobody;
  nobody.set(1000);
  EXPECT_EQ(memory->used(), 60U);
}

TEST(QueueMemory, QueuesCountWhatTheyHold) {
  const auto memory = std::make_shared<QueueMemory>(1 << 20);
  {
    Inbox inbox(
        1000, [] {}, memory);
    protocol::Waveform waveform;
    auto bytes = std::make_shared<std::vector<std::byte>>(5000);
    waveform.data = {bytes, *bytes};
    inbox.push(Work(waveform));
    const std::uint64_t one = memory->used();
    EXPECT_GT(one, 5000 + sizeof(protocol::Waveform));
    inbox.push(Work(waveform));
    EXPECT_EQ(memory->used(), 2 * one);
    inbox.take();
    inbox.take();  // the first one is done, the second is being worked on
    EXPECT_EQ(memory->used(), one);
    inbox.push(Work(waveform));
    inbox.cancel();
    EXPECT_EQ(memory->used(), 2 * one);
    inbox.hand_over();
    EXPECT_EQ(memory->used(), one);
  }
  EXPECT_EQ(memory->used(), 0U);
  {
    Outbox outbox(
        1000, [] {}, memory);
    outbox.response({1, std::string(5000, 'x')});
    EXPECT_GT(memory->used(), 18U + 5000U);  // id, correlation id, length
    std::vector<Outgoing> messages;
    outbox.take(messages, 1);
    EXPECT_EQ(memory->used(), messages[0].held_bytes());
    outbox.sent(messages);
    EXPECT_EQ(memory->used(), 0U);
    outbox.close();
    EXPECT_GT(memory->used(), 2U);
  }
  EXPECT_EQ(memory->used(), 0U);
}

}  // namespace
}  // namespace echotrain::server
