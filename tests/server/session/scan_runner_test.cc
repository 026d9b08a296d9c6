// A scan of a session that ends: what it leaves goes, and not on the threads that move bytes.
#include "server/session/scan_runner.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/server/gadgets/held_gadgets.h"
#include "tests/server/session/handled_session.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using testing::HasSubstr;

/// Bytes that say which thread has freed them.
class Traced {
 public:
  protocol::Payload payload(std::size_t bytes) {
    auto* const held = new std::vector<std::byte>(bytes);
    return {std::shared_ptr<const std::vector<std::byte>>(held,
                                                          [this](const std::vector<std::byte>* all) {
                                                            delete all;
                                                            here_ = std::this_thread::get_id() == mine_;
                                                            freed_ = true;
                                                          }),
            *held};
  }
  bool freed() const { return freed_; }
  bool freed_here() const { return here_; }

 private:
  const std::thread::id mine_ = std::this_thread::get_id();
  std::atomic<bool> freed_ = false, here_ = false;
};

protocol::Image image_of(protocol::Payload pixels) {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = 1;  // uint16
  image.head.matrix_size[0] = static_cast<std::uint16_t>(1024);
  image.head.matrix_size[1] = static_cast<std::uint16_t>(pixels.bytes.size() / 2048);
  image.head.matrix_size[2] = image.head.channels = 1;
  image.pixels = std::move(pixels);
  return image;
}

const std::string kSlow = wire::config_text(
                              "echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - slow\n  - cartesian_kspace\n"
                              "  - fft\n  - image\n") +
                          wire::header(wire::xml());

class ScanRunnerTest : public testing::Test {
 protected:
  explicit ScanRunnerTest(std::uint64_t memory_mib = 0) {
    numerics::ResourceOptions resources = test_resource_options();
    resources.memory_budget = memory_mib << 20;
    config::ServerOptions options;
    options.backend = config::BackendChoice::cpu;
    options.pause_s = 0.05;
    if (memory_mib > 0) {
      options.memory_mib = static_cast<std::int64_t>(memory_mib);
      options.queue_mib = 8;
    }
    environment_.emplace(make_environment(options, config::PipelineLibrary({shipped_pipelines()}), held_registry(),
                                          std::make_shared<numerics::Resources>(resources)));
    handled_.emplace(io_, *environment_, "10.0.0.1:1");
  }
  ~ScanRunnerTest() override {
    tap().reset();
    handled_->connection.drop();
    handled_->scan.abandon();
    handled_.reset();
    environment_->end_texts();
  }
  void start_scan() {
    handled_->take(io_, kSlow + wire::acquisition(0));
    ASSERT_TRUE(runs_until(io_, [this] { return handled_->done && handled_->scan.started(); }));
  }

  asio::io_context io_;
  std::optional<Environment> environment_;
  std::optional<Handled> handled_;
};

TEST_F(ScanRunnerTest, WhatWaitsForAScanThatStopsIsFreedElsewhere) {
  Traced traced;
  tap().close();
  start_scan();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the worker has the readout, most likely
  std::vector<protocol::Acquisition> batch(1);
  batch[0].data = traced.payload(5000);
  handled_->scan.push(std::move(batch));
  handled_->scan.cancel();
  tap().open();
  EXPECT_TRUE(runs_until(io_, [&] { return traced.freed(); }));
  EXPECT_FALSE(traced.freed_here());
}

TEST_F(ScanRunnerTest, WhatAPeerThatIsGoneDidNotReadIsFreedElsewhere) {
  Traced traced;
  handled_->connection.outbox->image(image_of(traced.payload(2048)));
  handled_->connection.drop();
  EXPECT_TRUE(runs_until(io_, [&] { return traced.freed(); }));
  EXPECT_FALSE(traced.freed_here());
}

class GivesWay : public ScanRunnerTest {
 protected:
  GivesWay() : ScanRunnerTest(64) {}
};

/// A client that does not read keeps its images; where others have waited for their memory, the scan ends, and they go.
TEST_F(GivesWay, UnreadImagesGoWithTheScanThatEndsForOthers) {
  start_scan();
  constexpr std::uint64_t mib = 1 << 20;
  Outbox& outbox = *handled_->connection.outbox;
  for (int i = 0; i < 40; ++i) outbox.image(image_of(protocol::Payload::take(std::vector<std::byte>(mib))));
  std::vector<Outgoing> in_hand;
  outbox.take(in_hand, 1);
  const auto others = std::make_shared<numerics::MemoryAccount>(environment_->memory);
  const auto ticket = environment_->memory_admission->ask({others, 20 * mib, "10.0.0.2"}, [] {});
  ASSERT_TRUE(ticket);
  EXPECT_FALSE(ticket->granted());
  EXPECT_TRUE(runs_until(io_, [&] {
    environment_->memory_admission->reconsider();
    handled_->scan.check();
    return handled_->connection.ending();
  }));
  ASSERT_TRUE(handled_->connection.end.over_budget());
  EXPECT_THAT(handled_->connection.end.error->message, HasSubstr("others have waited for memory"));
  EXPECT_TRUE(runs_until(io_, [&] {
    environment_->memory_admission->reconsider();
    return ticket->granted();
  }));
  EXPECT_EQ(outbox.dropped(), 39u);
  outbox.fatal(*handled_->connection.end.error);
  outbox.close();
  outbox.sent(in_hand);
  in_hand.clear();
  outbox.take(in_hand, 16);
  EXPECT_EQ(in_hand.size(), 2u) << "what is left to send";
}

}  // namespace
}  // namespace echotrain::server
