// A chain hands its calls on from gadget to gadget.
#include "gadgets/engine/chain/chain.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/progress.h"
#include "tests/gadgets/scan.h"
#include "tests/gadgets/sent_images.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

/// Notes at its start how many steps the scan has made.
class Starter final : public Gadget<Image, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "starter";
  static constexpr std::string_view kSummary = "Notes when it starts.";
  static Parameters<Options> parameters() { return {}; }
  explicit Starter(Options) {}
  void start(const protocol::Header&, Scan&) override {
    steps.push_back(numerics::Progress::of_thread()->steps());
    if (stop) stop->request_stop();
  }
  void process(Image&& image, const Emit<Image>& emit) override { emit(std::move(image)); }
  static inline std::vector<std::uint64_t> steps;
  static inline std::stop_source* stop = nullptr;
};

/// Works 4 ms on an image, and 20 ms after it has left, for which it does not wait.
class Busy final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "busy";
  static constexpr std::string_view kSummary = "Takes its time.";
  static Parameters<Options> parameters() { return {}; }
  explicit Busy(Options) {}
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    emit(std::move(images));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
};

class ChainStartTest : public ::testing::Test {
 protected:
  ChainStartTest() {
    numerics::Progress::of_thread() = std::make_shared<numerics::Progress>();
    Starter::steps.clear();
  }
  ~ChainStartTest() override {
    numerics::Progress::of_thread() = nullptr;
    Starter::stop = nullptr;
  }
  static void start(const std::string& gadgets, std::stop_token stop = {}) {
    Registry registry;
    registry.add<Starter>();
    numerics::ContextOptions options;
    options.stop_token = std::move(stop);
    numerics::Context compute(Backend::cpu, test_resources(), options);
    Pipeline pipeline(
        PipelinePlan::check(config::read_pipeline(yaml(gadgets, "input: images\n"), "test.yaml"), registry), compute,
        {[](protocol::Image&&, const ImageTimes&) {}, [](protocol::Level, const std::string&) {}});
    pipeline.start(header({.encoded = {1, 8, 1}}));
  }
};

/// Gadgets may prepare much: many of them are no hanging scan.
TEST_F(ChainStartTest, EachGadgetIsAStep) {
  start("  - starter\n  - starter\n  - starter\n");
  ASSERT_EQ(Starter::steps.size(), 3u);
  EXPECT_GT(Starter::steps[1], Starter::steps[0]);
  EXPECT_GT(Starter::steps[2], Starter::steps[1]);
}

TEST_F(ChainStartTest, AStopIsHeardBetweenGadgets) {
  std::stop_source stop;
  Starter::stop = &stop;
  EXPECT_THROW(start("  - starter\n  - starter\n", stop.get_token()), numerics::Stopped);
  EXPECT_EQ(Starter::steps.size(), 1u);
}

/// An image says which gadgets it went through, and the time of each without that of those behind it: all together have
/// no more than has passed. A branch's images have not been in the gadgets behind the branch, nor others in a branch's.
TEST(ChainTest, ImagesTellTheirSteps) {
  using Clock = std::chrono::steady_clock;
  Registry registry = Registry::builtin();
  registry.add<Busy>();
  numerics::Context compute(Backend::cpu, test_resources());
  std::vector<protocol::Image> images;
  std::vector<Clock::duration> passed;
  Clock::time_point begin;
  Pipeline pipeline(PipelinePlan::check(
                        config::read_pipeline(
                            yaml("  - busy\n  - branch: {pipeline: [scale, image]}\n  - orient\n  - busy\n  - image\n",
                                 "input: images\n"),
                            "test.yaml"),
                        registry),
                    compute,
                    {[&](protocol::Image&& image, const ImageTimes&) {
                       images.push_back(std::move(image));
                       passed.push_back(Clock::now() - begin);
                     },
                     [](protocol::Level, const std::string&) {}});
  pipeline.start(no_measurement());
  for (int i = 0; i < 2; ++i) {
    begin = Clock::now();
    pipeline.push(sent_image(std::vector<float>{1, 2}, {2, 1, 1}));
  }
  pipeline.finish(End::complete);
  pipeline.wait();
  ASSERT_EQ(images.size(), 4u);
  const std::vector<std::string> branch{"busy", "scale", "image"}, rest{"busy", "orient", "busy", "image"};
  for (std::size_t i = 0; i < images.size(); ++i) {
    std::vector<std::string> names;
    std::chrono::microseconds all{0};
    for (const std::string& step : meta_of(images[i], "echotrain_step_us")) {
      names.push_back(step.substr(0, step.find(' ')));
      const std::chrono::microseconds spent(std::stol(step.substr(step.find(' '))));
      EXPECT_GE(spent, std::chrono::milliseconds(names.back() == "busy" ? 4 : 0));
      all += spent;
    }
    EXPECT_EQ(names, i % 2 == 0 ? branch : rest);
    EXPECT_LE(all, passed[i] + std::chrono::microseconds(names.size()));  // they are rounded
  }
}

}  // namespace
}  // namespace echotrain::testing
