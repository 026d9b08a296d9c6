// The view "Diagnose" of a scan is compared with the scan itself.
#include "server/console/live/scan_diagnosis.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "server/console/live/diagnosis_json.h"
#include "server/console/live/heart_intervals.h"
#include "server/console/live/scan_diagnoses.h"
#include "server/console/live/trajectory_sample.h"
#include "tests/support/resources.h"

namespace echotrain::server {
namespace {

using numerics::cdouble;
using testing::ElementsAre;
using testing::Pointwise;

std::shared_ptr<numerics::MemoryBudget> budget(std::uint64_t bytes = 0) {
  return std::make_shared<numerics::MemoryBudget>(bytes);
}

FrameTimes times(std::uint64_t number, std::vector<double> ms) {
  FrameTimes one{number, 1, std::move(ms), 0};
  for (const double value : one.ms) one.whole_ms += value;
  return one;
}

TEST(ScanDiagnosis, TellsTheNewestFrameAndTheMean) {
  ScanDiagnosis scan(7, budget());
  EXPECT_TRUE(scan.json(false)["times"].is_null());
  const std::vector<std::string> names{"outside", "entrance", "exit", "fft"};
  scan.frame(times(1, {0, 1, 2, 3}), names);
  scan.frame(times(2, {0, 2, 4, 7}), names);
  scan.sent({1, 2, 3, 4});
  const auto told = scan.json(false)["times"];
  EXPECT_EQ(told["frames"], 2);
  EXPECT_EQ(told["last_ms"], 13);
  EXPECT_EQ(told["mean_ms"], 9.5);
  ASSERT_EQ(told["gadgets"].size(), 3U);         // without who called
  EXPECT_EQ(told["gadgets"][1]["name"], "fft");  // where it stands in the chain
  EXPECT_EQ(told["gadgets"][1]["last_ms"], 7);
  EXPECT_EQ(told["gadgets"][1]["mean_ms"], 5);
  EXPECT_EQ(told["gadgets"][2]["name"], "exit");
  EXPECT_EQ(told["latency"]["compute_ms"], 2);
}

TEST(ScanDiagnosis, TellsCorrelationsByLabel) {
  ScanDiagnosis scan(7, budget());
  // Variances 2 and 8: standard deviations 1 and 2 of the real parts; |1.2 + 1.6i| / sqrt(2 * 8) = 0.5.
  const std::vector<cdouble> covariance{{2, 0}, {1.2, 1.6}, {1.2, -1.6}, {8, 0}};
  const std::vector<std::string> labels{"A\x01", "B"}, too_few{"A"};
  scan.noise({2, covariance, labels, 100, true});
  auto told = scan.json(false)["noise"];
  EXPECT_EQ(told["labels"], (std::vector<std::string>{"A?", "B"}));
  EXPECT_EQ(told["std"], (std::vector<float>{1, 2}));
  EXPECT_EQ(told["correlation"], (std::vector<std::vector<double>>{{1, 0.5}, {0.5, 1}}));
  EXPECT_EQ(told["of_another_scan"], true);
  const std::uint64_t bytes = scan.bytes();
  for (int i = 1; i < 50; ++i) scan.noise({2, covariance, too_few, 100 + i, false});
  EXPECT_EQ(scan.bytes(), bytes);
  told = scan.json(false)["noise"];
  EXPECT_EQ(told["samples"], 149);
  EXPECT_TRUE(told["labels"].empty());  // they do not name all coils
}

TEST(ScanDiagnosis, KeepsNothingThatDoesNotFit) {
  const auto small = budget(20'000);
  {
    ScanDiagnosis scan(7, small);
    std::vector<cdouble> covariance(64 * 64);  // 16 KiB as float, more with labels
    for (std::size_t c = 0; c < 64; ++c) covariance[65 * c] = 2;
    scan.noise({64, covariance, {}, 100, false});
    const auto told = scan.json(false);
    EXPECT_TRUE(told["noise"].is_null());
    EXPECT_EQ(told["left_out"], true);
    EXPECT_EQ(small->used(), 0U);
    scan.frame(times(1, {0, 1, 2}), {"outside", "entrance", "exit"});
    EXPECT_FALSE(scan.json(false)["times"].is_null());
    EXPECT_EQ(small->used(), scan.bytes());
    EXPECT_GT(scan.bytes(), 0U);
  }
  EXPECT_EQ(small->used(), 0U);
}

TEST(ScanDiagnosis, RefusesMoreCoilsThanItShows) {
  ScanDiagnosis scan(7, budget());
  const auto coils = static_cast<std::size_t>(ScanDiagnosis::kMostCoils) + 1;
  const std::vector<cdouble> covariance(coils * coils, cdouble(1, 0));
  scan.noise({static_cast<int>(coils), covariance, {}, 100, false});
  EXPECT_TRUE(scan.json(false)["noise"].is_null());
  EXPECT_EQ(scan.json(false)["left_out"], true);
}

/// A scan needs the memory: what ended scans have left goes, the oldest first; who runs keeps its own.
TEST(ScanDiagnoses, TheOldestEndedScanGoesFirst) {
  const auto bound = budget(100'000);
  ScanDiagnoses scans(bound);
  const std::vector<std::string> names{"outside", "entrance", "exit", std::string(30'000, 'x')};
  std::vector<std::shared_ptr<ScanDiagnosis>> all;
  for (std::uint64_t session = 1; session <= 3; ++session) {
    all.push_back(scans.make(session));
    all.back()->frame(times(1, {0, 1, 2, 3}), names);
  }
  EXPECT_FALSE(scans.unused_since());
  scans.ended(all[0]);
  scans.ended(all[1]);
  ASSERT_TRUE(bound->take(30'000));
  EXPECT_EQ(all[0]->json(false)["forgotten"], true);
  EXPECT_TRUE(all[0]->json(false)["times"].is_null());
  EXPECT_FALSE(all[1]->json(false)["times"].is_null());
  EXPECT_FALSE(all[2]->json(false)["times"].is_null());
  ASSERT_TRUE(bound->take(30'000));
  EXPECT_EQ(all[1]->json(false)["forgotten"], true);
  EXPECT_FALSE(bound->take(60'000));
  EXPECT_FALSE(all[2]->json(false)["times"].is_null());  // it runs
  EXPECT_EQ(scans.find(3), all[2]);
  EXPECT_EQ(scans.find(1), all[0]);
  scans.ended(all[2]);
  EXPECT_EQ(scans.find(2), all[1]);
  all.clear();
  scans.forget(1);
  EXPECT_EQ(scans.find(1), nullptr);
  EXPECT_NE(scans.find(3), nullptr);
}

/// Readouts of a frame: kx is the readout's number, ky the sample's, the same in units of `unit`.
Readouts part(std::uint64_t frame, int first, int count, bool begins, bool ends, std::int64_t samples = 48,
              std::int64_t axes = 2) {
  static const auto resources = test_resources();
  numerics::Context compute(numerics::Backend::cpu, resources);
  Readouts out;
  auto of = std::make_shared<Frame>();
  of->id = frame;
  out.frame = of;
  out.first = begins;
  out.last = ends;
  out.trajectory = compute.allocate_host<float>({count, samples, axes});
  float* to = out.trajectory.data();
  for (int r = first; r < first + count; ++r)
    for (std::int64_t s = 0; s < samples; ++s)
      for (std::int64_t a = 0; a < axes; ++a) *to++ = a == 0 ? static_cast<float>(r) : static_cast<float>(s);
  return out;
}

std::vector<int> numbers(const TrajectorySample::Shown& shown) {
  std::vector<int> all;
  for (std::size_t i = 0; i < shown.points.size(); i += TrajectorySample::kPoints * shown.axes)
    all.push_back(static_cast<int>(shown.points[i]));
  return all;
}

TEST(TrajectorySample, SpreadsOverAFrameHoweverItComes) {
  for (const int batch : {1, 7, 64, 1000}) {
    TrajectorySample sample({1, 1, 1});
    for (int at = 0; at < 1000; at += batch) {
      const int count = std::min(batch, 1000 - at);
      sample.add(part(0, at, count, at == 0, at + count == 1000));
    }
    const auto& shown = sample.shown();
    EXPECT_EQ(shown.every, 16U);  // 1000 / 16 = 62.5
    std::vector<int> expected;
    for (int r = 0; r < 1000; r += 16) expected.push_back(r);
    EXPECT_EQ(numbers(shown), expected) << batch;
  }
}

TEST(TrajectorySample, KeepsTheEndsOfReadoutsAndScales) {
  TrajectorySample sample({0.5, 0.25, 1});
  sample.add(part(0, 3, 1, true, true, 640));
  const auto& shown = sample.shown();
  ASSERT_EQ(shown.points.size(), 2 * TrajectorySample::kPoints);
  EXPECT_EQ(shown.points[0], 1.5F);
  EXPECT_EQ(shown.points[1], 0);
  EXPECT_EQ(shown.points.back(), 0.25F * 639);
}

TEST(TrajectorySample, FollowsOneFrameAndThenTheNext) {
  TrajectorySample sample({1, 1, 1});
  sample.add(part(0, 0, 20, true, false));
  sample.add(part(1, 100, 20, true, false));  // open beside it
  sample.add(part(0, 20, 20, false, true));
  sample.add(part(1, 120, 20, false, true));
  std::vector<int> expected(40);
  for (int i = 0; i < 40; ++i) expected[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(numbers(sample.shown()), expected);
  sample.add(part(2, 200, 2, true, false));
  EXPECT_EQ(numbers(sample.shown()), expected);  // until enough has come, the frame before
  sample.add(part(2, 202, 18, false, true));
  sample.add(part(3, 300, 1, true, false));
  EXPECT_EQ(numbers(sample.shown()).front(), 200);
  // Frames of a window that bring few readouts are shown together.
  TrajectorySample window({1, 1, 1});
  for (int i = 0; i < 12; ++i) window.add(part(static_cast<std::uint64_t>(i), 2 * i, 2, true, true));
  EXPECT_EQ(numbers(window.shown()).size(), 16U);
  // A frame that never ends is left after a while.
  sample.add(part(200, 900, 20, true, false));
  sample.add(part(200, 920, 20, false, true));
  sample.add(part(201, 950, 20, true, true));
  EXPECT_EQ(numbers(sample.shown()).front(), 900);
}

protocol::AcquisitionHeader stamped(std::uint32_t time, std::uint32_t since) {
  protocol::AcquisitionHeader head{};
  head.acquisition_time_stamp = time;
  head.physiology_time_stamp[0] = since;
  return head;
}

TEST(HeartIntervals, AreThoseBetweenTheBeats) {
  HeartIntervals heart;
  const std::vector<std::uint32_t> beats{1000, 1320, 1700, 2000, 9000, 9400};  // 7000 ticks: a pause of the scan
  for (std::uint32_t time = 1003; time < 9500; time += 7)
    for (std::size_t b = beats.size(); b-- > 0;)
      if (time >= beats[b]) {
        // Rounded otherwise now and then.
        heart.add(stamped(time, time - beats[b] + (time % 3 == 0 ? 1 : 0)));
        break;
      }
  EXPECT_EQ(heart.beats(), 6U);
  ASSERT_EQ(heart.intervals().size(), 4U);
  // A tick is 2.5 ms; each beat is known to a tick.
  EXPECT_THAT(heart.intervals(), Pointwise(testing::FloatNear(2.5F * 1 + 1e-3F), {800.0F, 950.0F, 750.0F, 1000.0F}));
}

TEST(HeartIntervals, GoOnAfterMidnight) {
  HeartIntervals heart;
  constexpr std::uint32_t kDay = 24 * 3600 * 400;  // ticks
  for (const std::uint32_t beat : {kDay - 800, kDay - 400, 100U, 500U}) heart.add(stamped(beat + 5, 5));
  EXPECT_EQ(heart.beats(), 4U);
  EXPECT_THAT(heart.intervals(), ElementsAre(1000.0F, 1000.0F));  // that over midnight is not known
}

TEST(HeartIntervals, NoStampsAreNoHeart) {
  HeartIntervals heart;
  for (std::uint32_t time = 0; time < 5000; ++time) heart.add(stamped(time, 0));
  EXPECT_EQ(heart.beats(), 0U);
  EXPECT_TRUE(heart.intervals().empty());
}

TEST(HeartIntervals, KeepsTheNewest) {
  HeartIntervals heart;
  for (std::uint32_t beat = 0; beat < 3 * HeartIntervals::kMost; ++beat)
    heart.add(stamped(1000 * beat + 5 + beat, 5));  // intervals of 1001
  EXPECT_EQ(heart.intervals().size(), HeartIntervals::kMost);
  EXPECT_EQ(heart.intervals().front(), 1001 * 2.5F);
}

/// Coil images [4, 1, 200, 100], coil c has values (c + 1) times 10 in the left half and 0 elsewhere.
TEST(ScanDiagnosis, PicksCoilImagesWhenAsked) {
  const auto resources = test_resources();
  numerics::Context compute(numerics::Backend::cpu, resources);
  auto images = compute.zeros<numerics::cfloat>({4, 1, 200, 100});
  for (std::int64_t i = 0; i < images.size(); ++i)
    if (i % 100 < 50) images.data()[i] = numerics::cfloat(0, static_cast<float>(10 * (i / 20000 + 1)));
  const auto memory = budget();
  ScanDiagnosis scan(7, memory);
  scan.coil_images(images.cview(), compute);
  EXPECT_TRUE(scan.json(true)["coils"].is_null());
  EXPECT_FALSE(scan.wants_coil_images());
  scan.want_coil_images();
  EXPECT_TRUE(scan.wants_coil_images());
  scan.coil_images(compute.zeros<numerics::cfloat>({1, 1, 200, 100}).cview(), compute);  // joined already
  EXPECT_TRUE(scan.wants_coil_images());
  scan.coil_images(images.cview(), compute);
  EXPECT_FALSE(scan.wants_coil_images());
  const auto told = scan.json(true)["coils"];
  EXPECT_EQ(told["number"], 1);
  EXPECT_EQ(told["coils"], 4);
  EXPECT_EQ(told["height"], 50);  // every fourth pixel: at most 64 along the longer side
  EXPECT_EQ(told["width"], 25);
  EXPECT_FALSE(scan.json(false)["coils"].contains("pixels"));
  EXPECT_EQ(memory->used(), 4U * 50 * 25);
  // 255 * (1/4, 2/4, 3/4, 1), 13 left columns of 25: column 12 is picked at x = 50.
  const std::string text = told["pixels"];
  EXPECT_EQ(text.size(), 5000U / 3 * 4 + 4);
  const auto at = [&](std::size_t byte) {
    const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned four = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t found = letters.find(text[byte / 3 * 4 + i]);
      four = four << 6 | static_cast<unsigned>(found == std::string::npos ? 0 : found);
    }
    return four >> (16 - 8 * (byte % 3)) & 255;
  };
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_EQ(at(c * 1250), 255 * (c + 1) / 4);
    EXPECT_EQ(at(c * 1250 + 11), 255 * (c + 1) / 4);
    EXPECT_EQ(at(c * 1250 + 12), 0U);
    EXPECT_EQ(at(c * 1250 + 24), 0U);
  }
}

TEST(WhyFacts, AreThoseOfTheKeptImages) {
  const auto memory = budget();
  const auto images = std::make_shared<RecentImages>(1 << 20, memory);
  ScanDiagnosis scan(1, memory);
  EXPECT_TRUE(nlohmann::json::parse(diagnosis_json(scan, images.get(), false))["images"].is_null());
  EXPECT_TRUE(nlohmann::json::parse(diagnosis_json(scan, nullptr, false))["images"].is_null());
  for (const char* level : {"0.02", "0.01", "none"}) {
    protocol::Image image;
    image.head.data_type = 5;
    image.head.matrix_size[0] = image.head.matrix_size[1] = image.head.matrix_size[2] = image.head.channels = 1;
    image.pixels = protocol::Payload::take(std::vector<float>(1));
    image.attributes = std::string("<ismrmrdMeta><meta><name>ghost_level</name><value>") + level +
                       "</value></meta><meta><name>other</name><value>1</value></meta></ismrmrdMeta>";
    images->add(1, image);
  }
  for (int i = 0; i < 5000 && images->extent(1).count < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto told = nlohmann::json::parse(diagnosis_json(scan, images.get(), false))["images"];
  EXPECT_EQ(told["looked_at"], 3);
  ASSERT_EQ(told["facts"].size(), 1U);
  EXPECT_EQ(told["facts"][0]["name"], "ghost_level");
  EXPECT_EQ(told["facts"][0]["newest"], "none");
  EXPECT_EQ(told["facts"][0]["values"], (std::vector<double>{0.02, 0.01}));
}

}  // namespace
}  // namespace echotrain::server
