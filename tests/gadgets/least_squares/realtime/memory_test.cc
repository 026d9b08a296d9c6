// What real-time solvers keep is paid for: of each place, and of a frame that does not end.
#include <malloc.h>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr int kTiny = 8;

/// Bytes that the program has of the allocator.
std::uint64_t heap_now() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

/// A readout of `samples` that is a frame by itself, of a place of its own, if `ends`.
Acquisition alone(std::size_t place, std::size_t samples, bool radial, bool ends) {
  std::vector<cfloat> data(samples, cfloat(1, 0));
  std::vector<float> trajectory;
  for (std::size_t s = 0; radial && s < samples; ++s)
    trajectory.insert(trajectory.end(), {(static_cast<float>(s) - static_cast<float>(samples / 2)) / 16, 0});
  Acquisition out = readout(1, std::move(data), std::move(trajectory));
  out.head.idx.kspace_encode_step_1 = kTiny / 2;
  out.head.idx.contrast = static_cast<std::uint16_t>(place % 256);
  out.head.idx.set = static_cast<std::uint16_t>(place / 256);
  if (ends) set_flag(out, kLastInSlice);
  return out;
}

/// Bytes that the session pays for over those that the heap took, of readouts each of which is handed over by itself.
double share_paid(const std::string& gadgets, bool radial, std::size_t samples, bool ends) {
  numerics::Context compute(Backend::cpu, test_resources());
  const std::string text = yaml(gadgets + "  - image\n", "frame: {until: last_in_slice}\n");
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
                    {[](protocol::Image&&, const ImageTimes&) {}, [](protocol::Level, const std::string&) {}});
  numerics::HeapAccount allocated(compute.account());
  const numerics::HeapScope scope(&allocated);
  const auto used = [&] {
    allocated.check();
    return compute.account()->used();
  };
  pipeline.start(header({.encoded = {kTiny, kTiny, 1},
                         .trajectory = radial ? "radial" : "cartesian",
                         .limits = radial ? "" : step_limit(kTiny)}));
  constexpr std::size_t kWarm = 50, kAll = 1050;
  std::uint64_t heap = 0, paid = 0;
  for (std::size_t i = 0; i < kAll; ++i) {
    if (i == kWarm) heap = heap_now(), paid = used();
    std::vector<Acquisition> batch;
    batch.push_back(alone(ends ? i : 0, samples, radial, ends));
    pipeline.push(std::move(batch));
  }
  const auto taken = static_cast<double>(heap_now() - heap), counted = static_cast<double>(used() - paid);
  pipeline.finish(End::truncated);
  return counted / taken;
}

const char* const kSms = "  - cg_sense_sms: {slices: 2, iterations: 1, calibration: 8, block: 1}\n";

class RealTimeMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef ECHOTRAIN_SANITIZED
    GTEST_SKIP() << "another allocator";
#endif
  }
};

// A client may count each readout as a frame of another place. Of such small arrays the lump for what the allocator
// adds is a fifth.
TEST_F(RealTimeMemoryTest, PlacesPayForTheHeapThatTheyTake) {
  const std::string options = "{iterations: 1, calibration: 8, block: 1}\n";
  const double sms = share_paid(kSms, true, 8, true),
               radial = share_paid(
                   "  - density_compensation: {method: ramp, share: equal}\n  - cg_sense_realtime: " + options, true, 8,
                   true),
               lines = share_paid(
                   "  - cartesian_kspace: {calibration: none}\n  - encoding\n  - cg_sense_realtime: " + options, false,
                   kTiny, true);
  const double nlinv =
      share_paid("  - nlinv_sms: {slices: 2, newton_steps: 1, inner: 1, first_frame_passes: 1}\n", true, 8, true);
  for (const double share : {sms, radial, lines, nlinv}) {
    EXPECT_GE(share, 0.95);
    EXPECT_LE(share, 1.25);
  }
}

TEST_F(RealTimeMemoryTest, ReadoutsOfAFrameThatDoesNotEnd) {
  const std::string gridded = "  - gridding\n  - fft\n  - deapodization\n  - coil_combine\n";
  const double sms = share_paid(kSms, true, 1, false),
               whole = share_paid("  - density_compensation: {method: ramp}\n" + gridded, true, 1, false),
               parts = share_paid("  - density_compensation: {method: none}\n" + gridded, true, 1, false);
  for (const double share : {sms, whole, parts}) {
    EXPECT_GE(share, 0.95);
    EXPECT_LE(share, 1.25);
  }
}

}  // namespace
}  // namespace echotrain::testing
