#include "server/console/live/live_scan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "server/console/live/live_scan_registry.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;

std::string attributes_kept(bool subject, const std::string& attributes) {
  const auto budget = std::make_shared<numerics::MemoryBudget>();
  const auto images = std::make_shared<RecentImages>(1 << 20, budget);
  RecentLatency delays;
  LiveScan scan(std::make_shared<SessionStatus>(1, "here", budget), images, delays, subject);
  protocol::Image image;
  image.head.data_type = 5;
  image.head.matrix_size[0] = image.head.matrix_size[1] = image.head.matrix_size[2] = image.head.channels = 1;
  image.pixels = protocol::Payload::take(std::vector<float>(1));
  image.attributes = attributes;
  scan.image(image);
  for (int i = 0; i < 5000 && images->newest().number == 0; ++i) std::this_thread::sleep_for(1ms);
  const auto kept = images->newest(1);
  return kept ? kept->image.attributes : "not kept";
}

TEST(LiveScan, KeepsNoAttributesOfTheSubjectUnlessToldTo) {
  const std::string named =
      "<ismrmrdMeta><meta><name>PatientName</name><value>O'Neill</value></meta>"
      "<meta><name>SUBJECT_ID</name><value>4711</value></meta>"
      "<meta><name>DataRole</name><value>a &lt; b &amp; c</value></meta></ismrmrdMeta>";
  EXPECT_EQ(attributes_kept(true, named), named);
  const std::string left = attributes_kept(false, named);
  EXPECT_EQ(left.find("Neill"), std::string::npos);
  EXPECT_EQ(left.find("4711"), std::string::npos);
  EXPECT_NE(left.find("<value>a &lt; b &amp; c</value>"), std::string::npos) << left;
  EXPECT_EQ(attributes_kept(false, "no XML of patient 4711"), "");
  const std::string nameless = "<ismrmrdMeta><meta><name>DataRole</name><value>Image</value></meta></ismrmrdMeta>";
  EXPECT_EQ(attributes_kept(false, nameless), nameless);
}

TEST(LiveScanRegistry, SessionsThatAskForNothingPushNoScanOut) {
  const auto budget = std::make_shared<numerics::MemoryBudget>();
  LiveScanRegistry registry(0, false, budget);
  const auto end = [&](std::uint64_t id, bool scans) {
    const auto status = std::make_shared<SessionStatus>(id, "here", budget);
    status->bytes_in = 1;
    const auto one = registry.session(status);
    if (scans) one->begin("a pipeline", {}, config::TrajectoryUnit::cycles_per_pixel, "one.mrd");
    one->error({"bad-config", "garbage"});
    registry.ended(*one, {});
    return one->origin() != nullptr;
  };
  EXPECT_TRUE(end(1, true));
  for (std::uint64_t id = 2; id < 200; ++id) EXPECT_FALSE(end(id, false));
  EXPECT_TRUE(end(200, true));
  EXPECT_FALSE(end(201, false));
  const nlohmann::ordered_json ended = registry.json()["ended"];
  ASSERT_EQ(ended.size(), LiveScanRegistry::kMostRefused + 2);
  EXPECT_EQ(ended[0]["id"], 201);  // the newest first, whatever they were
  EXPECT_EQ(ended[1]["id"], 200);
  EXPECT_EQ(ended.back()["id"], 1);
  EXPECT_NE(registry.origin(1), nullptr);
  EXPECT_EQ(registry.origin(201), nullptr);
  // What "Diagnose" shows stays as long as the scan itself.
  EXPECT_NE(registry.diagnoses()->find(1), nullptr);
  EXPECT_EQ(registry.diagnoses()->find(201), nullptr);
}

/// 50 scans are kept in all.
TEST(LiveScanRegistry, ScansOfOneClientPushOutNoneOfAnother) {
  const auto budget = std::make_shared<numerics::MemoryBudget>();
  LiveScanRegistry registry(0, false, budget);
  const auto end = [&](std::uint64_t id, const std::string& peer) {
    const auto status = std::make_shared<SessionStatus>(id, peer, budget);
    status->bytes_in = 1;
    const auto one = registry.session(status);
    one->begin("a pipeline", {}, config::TrajectoryUnit::cycles_per_pixel, "one.mrd");
    registry.ended(*one, {});
  };
  for (std::uint64_t id = 1; id <= 20; ++id) end(id, "10.1.2.3:" + std::to_string(id));
  for (std::uint64_t id = 21; id <= 120; ++id) end(id, "[2001:db8::" + std::to_string(id) + "]:1");  // one network
  EXPECT_EQ(registry.json()["ended"].size(), 50U);
  for (const std::uint64_t id : {1, 20, 91, 120}) {
    EXPECT_NE(registry.origin(id), nullptr) << id;
    EXPECT_NE(registry.diagnoses()->find(id), nullptr) << id;
  }
  EXPECT_EQ(registry.origin(90), nullptr);
  EXPECT_EQ(registry.diagnoses()->find(90), nullptr) << "it goes with its scan";
  for (std::uint64_t id = 121; id <= 160; ++id) end(id, "10.1.2.3:1");
  EXPECT_NE(registry.origin(160), nullptr);
  EXPECT_EQ(registry.origin(1), nullptr) << "its own went";
  EXPECT_NE(registry.origin(96), nullptr) << "an equal part stays";
}

}  // namespace
}  // namespace echotrain::server
