// The delivery is how the data of frames reach the gadgets of a chain.
#include "gadgets/engine/chain/delivery.h"

#include <gtest/gtest.h>

#include "gadgets/api/gadget.h"
#include "gadgets/engine/pipeline.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

Delivery of(const std::string& gadgets, const Registry& registry = Registry::builtin()) {
  return PipelinePlan::check(config::read_pipeline(yaml(gadgets), "p.yaml"), registry)->delivery();
}
std::string gridding(const std::string& before, const std::string& density, const std::string& options = "{}") {
  return before + "  - density_compensation: " + density + "\n  - gridding: " + options +
         "\n  - fft\n  - deapodization\n  - image\n";
}

/// A gadget that says nothing of its delivery.
class Plain final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "plain";
  static constexpr std::string_view kSummary = "Passes readouts.";
  static Parameters<Options> parameters() { return {}; }
  explicit Plain(Options /*options*/) {}
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override { emit(std::move(readouts)); }
};

TEST(DeliveryTest, WindowsMoveWhereNoWeightDependsOnOtherReadouts) {
  EXPECT_EQ(of(gridding("  - noise_adjust\n", "{method: ramp, share: equal}")), Delivery::windows);
  EXPECT_EQ(of(gridding("  - radial_trajectory\n", "{method: from_data}")), Delivery::windows);
  EXPECT_EQ(of(gridding("", "{method: none}")), Delivery::windows);
  EXPECT_EQ(of(gridding("", "{method: ramp}")), Delivery::parts);
  EXPECT_EQ(of(gridding("", "{method: none, normalize: area}")), Delivery::parts);
}

TEST(DeliveryTest, GriddingMayAskForWholeFrames) {
  EXPECT_EQ(of(gridding("", "{method: from_data}", "{incremental: false}")), Delivery::frames);
}

TEST(DeliveryTest, LeastSquaresTakesWholeWindows) {
  EXPECT_EQ(of("  - density_compensation: {method: from_data}\n  - fhd\n  - pcg\n  - image\n"), Delivery::parts);
}

TEST(DeliveryTest, NoWindowMovesPastAGadgetThatDoesNotSaySo) {
  Registry registry = Registry::builtin();
  registry.add<Plain>();
  EXPECT_EQ(of(gridding("  - plain\n", "{method: from_data}"), registry), Delivery::parts);
  EXPECT_EQ(of(gridding("  - partition_fft\n", "{method: from_data}")), Delivery::parts);
}

TEST(DeliveryTest, WithoutSamplesFramesComeWhole) {
  EXPECT_EQ(of("  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - image\n"), Delivery::frames);
  EXPECT_EQ(of("  - passthrough\n"), Delivery::frames);
}

}  // namespace
}  // namespace echotrain::testing
