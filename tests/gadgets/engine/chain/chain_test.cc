// A chain hands its calls on from gadget to gadget.
#include "gadgets/engine/chain/chain.h"

#include <gmock/gmock.h>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/progress.h"
#include "tests/gadgets/scan.h"
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

}  // namespace
}  // namespace echotrain::testing
