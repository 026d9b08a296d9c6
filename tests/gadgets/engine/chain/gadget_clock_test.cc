// The gadget clock says to which gadget the time of a scan's thread goes.
#include "gadgets/engine/chain/gadget_clock.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "gadgets/api/gadget.h"
#include "tests/gadgets/scan.h"
#include "tests/gadgets/sent_images.h"
#include "tests/support/matter_of_time.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

using Wall = std::chrono::steady_clock;
using ::testing::ElementsAre;

double ms_since(Wall::time_point then) { return std::chrono::duration<double, std::milli>(Wall::now() - then).count(); }

void spend(double ms) {
  const auto begin = Wall::now();
  while (ms_since(begin) < ms) {
  }
}

/// An image for each batch that has readouts; 3 ms before it, 2 ms after it, 1 ms when the batch is over.
class Maker final : public Gadget<RawBatch, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "maker";
  static constexpr std::string_view kSummary = "Makes an image of a batch.";
  static Parameters<Options> parameters() { return {}; }
  explicit Maker(Options) {}
  void process(RawBatch&&, const Emit<Image>& emit) override {
    spend(3);
    emit(Image{nullptr, sent_image(std::vector<float>{1}, {1, 1, 1}), nullptr});
    spend(2);
  }
  void rest(const Emit<Image>&) override { spend(1); }
};

/// 4 ms for each image, and another one at the end of the scan.
class Worker final : public Gadget<Image, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "worker";
  static constexpr std::string_view kSummary = "Takes its time.";
  static Parameters<Options> parameters() { return {}; }
  explicit Worker(Options) {}
  void process(Image&& image, const Emit<Image>& emit) override {
    spend(4);
    emit(std::move(image));
  }
  void finish(End, const Emit<Image>& emit) override {
    spend(5);
    emit(Image{nullptr, sent_image(std::vector<float>{1}, {1, 1, 1}), nullptr});
  }
};

struct Seen {
  std::vector<FrameTimes> frames;
  std::vector<std::string> names;
  std::vector<double> wall;  // of each push
  int images = 0;
};

Seen watch(const std::string& gadgets, int pushes, double at_sink_ms) {
  Registry registry;
  registry.add<Maker>();
  registry.add<Worker>();
  Seen seen;
  numerics::Context compute(Backend::cpu, test_resources());
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(yaml(gadgets), "test.yaml"), registry), compute,
                    {[&](protocol::Image&&, const ImageTimes&) {
                       ++seen.images;
                       spend(at_sink_ms);
                     },
                     [](protocol::Level, const std::string&) {}});
  pipeline.watch({[&](const FrameTimes& times, const std::vector<std::string>& names) {
                    seen.frames.push_back(times);
                    seen.names = names;
                  },
                  nullptr});
  pipeline.start(header({.encoded = {1, 8, 1}}));
  for (int i = 0; i < pushes; ++i) {
    const auto begin = Wall::now();
    pipeline.push(std::vector<Acquisition>{readout(1, {cfloat(1, 0)})});
    seen.wall.push_back(ms_since(begin));
    spend(2);  // outside
  }
  pipeline.finish(End::complete);
  pipeline.wait();
  return seen;
}

/// The time of a push after its frame's end, a few instructions, which counts for the next frame.
constexpr double kTail = 0.5;  // [ms]

/// Each place has at least what was spent there. All places together have no more than the push took, so that the
/// excess of one is at most what the push took beyond what was spent: the bound holds on a busy machine, too.
void expect_times(const FrameTimes& times, const std::vector<double>& spent, double wall) {
  ASSERT_EQ(times.ms.size(), spent.size());
  double all = 0, all_spent = 0;
  for (const double one : spent) all_spent += one;
  ASSERT_GE(wall, all_spent);
  for (std::size_t i = 0; i < spent.size(); ++i) {
    EXPECT_GE(times.ms[i], spent[i] - 1e-6) << i;
    EXPECT_LE(times.ms[i], spent[i] + (wall - all_spent) + kTail) << kMatterOfTime << i;
    all += times.ms[i];
  }
  EXPECT_NEAR(times.whole_ms, all, 1e-9);
  EXPECT_LE(all, wall + kTail) << kMatterOfTime;
}

TEST(GadgetClock, AGadgetHasItsOwnTimeAndNotThatOfThoseItCalls) {
  const Seen seen = watch("  - maker\n  - worker\n", 3, 1);
  EXPECT_THAT(seen.names, ElementsAre("outside", "entrance", "exit", "maker", "worker"));
  ASSERT_EQ(seen.frames.size(), 4u);  // the last one by the end of the scan
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(seen.frames[i].number, i + 1);
    EXPECT_EQ(seen.frames[i].images, 1u);
    expect_times(seen.frames[i], {0, 0, 1, 6, 4}, seen.wall[i]);
    EXPECT_EQ(seen.frames[i].ms[GadgetClock::kOutside], 0);
  }
  EXPECT_GE(seen.frames[3].ms[4], 5);
  EXPECT_GE(seen.frames[3].ms[2], 1);
  // What is spent between pushes is nobody's. A frame's time is that from the images before: each began from zero.
  const auto quickest = std::min_element(seen.wall.begin(), seen.wall.end());
  EXPECT_LT(seen.frames[static_cast<std::size_t>(quickest - seen.wall.begin())].ms[3], *quickest - 4) << kMatterOfTime;
}

TEST(GadgetClock, BranchesHavePlacesOfTheirOwn) {
  const Seen seen =
      watch("  - maker\n  - branch: {pipeline: [worker]}\n  - branch: {pipeline: [worker]}\n  - worker\n", 1, 0);
  EXPECT_THAT(seen.names, ElementsAre("outside", "entrance", "exit", "maker", "branches", "branch 1: worker",
                                      "branch 2: worker", "worker"));
  ASSERT_EQ(seen.frames.size(), 2u);
  EXPECT_EQ(seen.frames[0].images, 3u);
  expect_times(seen.frames[0], {0, 0, 0, 6, 0, 4, 4, 4}, seen.wall[0]);
}

TEST(GadgetClock, GadgetsThatRunAsOneHaveOnePlace) {
  const std::string text = yaml("  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n");
  const protocol::Header measurement = header({.encoded = {8, 8, 1}, .limits = step_limit(8)});
  std::mt19937 random(1);
  std::vector<Acquisition> scan;
  for (std::uint16_t line = 0; line < 8; ++line) {
    scan.push_back(readout(2, noise(16, random)));
    scan.back().head.idx.kspace_encode_step_1 = line;
  }
  std::vector<std::string> names;
  std::vector<ItemType> taken;
  std::vector<protocol::Image> images;
  numerics::Context compute(Backend::cpu, test_resources());
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
                    {[&](protocol::Image&& image, const ImageTimes&) { images.push_back(std::move(image)); },
                     [](protocol::Level, const std::string&) {}});
  pipeline.watch({[&](const FrameTimes&, const std::vector<std::string>& now) { names = now; },
                  [&](const AnyGadget& gadget, const Item& item) {
                    EXPECT_EQ(item.index(), static_cast<std::size_t>(gadget.takes()));
                    taken.push_back(gadget.takes());
                  }});
  pipeline.start(measurement);
  pipeline.push(std::vector<Acquisition>(scan));
  pipeline.finish(End::complete);
  pipeline.wait();
  EXPECT_THAT(names, ElementsAre("outside", "entrance", "exit", "noise_adjust", "cartesian_kspace + fft + coil_combine",
                                 "image"));
  taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
  EXPECT_THAT(taken, ElementsAre(ItemType::readouts, ItemType::coil_images));
  // Watching changes nothing.
  const Outcome alone = run(text, measurement, scan);
  ASSERT_EQ(images.size(), 1u);
  ASSERT_EQ(alone.images.size(), 1u);
  EXPECT_TRUE(std::ranges::equal(images[0].pixels.bytes, alone.images[0].pixels.bytes));
}

}  // namespace
}  // namespace echotrain::testing
