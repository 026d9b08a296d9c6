// Kernels made beside the frames are those that fit_slices() gives.
#include "gadgets/epi/slice_fits.h"

#include <algorithm>
#include <filesystem>
#include <random>
#include <stdexcept>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr std::int64_t kFitCoils = 4, kFitLines = 16, kFitSamples = 20;
const numerics::SliceGrappaOptions kFitOptions{.kernel_x = 3, .kernel_y = 3};

class SliceFitsTest : public ::testing::Test {
 protected:
  SliceGroup group(unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> part(-1, 1);
    SliceGroup out{.blocks = {}, .turns = {0, 0.5}, .step = 1, .lines = kFitLines};
    for (int slice = 0; slice < 2; ++slice) {
      out.blocks.push_back(context_.allocate_host<cfloat>({kFitCoils, kFitLines, kFitSamples}));
      auto* const values = out.blocks.back().data();
      std::generate_n(values, kFitCoils * kFitLines * kFitSamples, [&] { return cfloat(part(random), part(random)); });
    }
    return out;
  }
  std::vector<std::pair<SliceFits::Key, SliceGroup>> groups(unsigned count) {
    std::vector<std::pair<SliceFits::Key, SliceGroup>> out;
    for (unsigned i = 0; i < count; ++i)
      out.emplace_back(SliceFits::Key{0, static_cast<std::uint16_t>(i)}, group(i + 1));
    return out;
  }
  /// Returns the weights that one thread makes of the group.
  std::vector<cfloat> weights_of(unsigned seed) {
    const SliceGroup it = group(seed);
    std::vector<numerics::SliceReference> references;
    for (std::size_t m = 0; m < 2; ++m) references.push_back({it.blocks[m].cview(), it.turns[m]});
    return values_of(numerics::fit_slices(context_, references, it.step, it.lines, kFitOptions));
  }
  static std::vector<cfloat> values_of(const numerics::GrappaKernels& kernels) {
    return {kernels.weights.data(), kernels.weights.data() + kernels.weights.size()};
  }

  static std::int64_t threads_now() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  }

  numerics::Context context_{numerics::Backend::cpu, test_resources()};
  Scan scan_{context_, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {}};
};

TEST_F(SliceFitsTest, AnyOrderGivesTheSameBits) {
  for (const std::vector<std::uint16_t>& order :
       {std::vector<std::uint16_t>{0, 1, 2, 3, 4}, std::vector<std::uint16_t>{4, 1, 3, 0, 2}}) {
    SliceFits fits(scan_, kFitOptions, /*beside=*/true);
    ASSERT_TRUE(fits.may_start());
    fits.start(groups(5));
    EXPECT_FALSE(fits.may_start());
    for (const std::uint16_t which : order) {
      const SliceFits::Key key{0, which};
      ASSERT_TRUE(fits.has(key, kFitLines, {}, kFitCoils, kFitSamples));
      EXPECT_FALSE(fits.has(key, kFitLines + 1, {}, kFitCoils, kFitSamples));
      EXPECT_FALSE(fits.has(key, kFitLines, std::vector<bool>(kFitLines), kFitCoils, kFitSamples));
      EXPECT_EQ(values_of(fits.take(key)), weights_of(which + 1U)) << which;
      EXPECT_FALSE(fits.has(key, kFitLines, {}, kFitCoils, kFitSamples)) << "it was taken";
    }
  }
}

/// Lines that came later belong to the group, too.
TEST_F(SliceFitsTest, GroupThatWasDroppedIsMadeAnew) {
  SliceFits fits(scan_, kFitOptions, /*beside=*/true);
  fits.start(groups(3));
  for (const std::uint16_t which : {2, 0, 7}) {
    fits.drop({0, which});
    EXPECT_FALSE(fits.has({0, which}, kFitLines, {}, kFitCoils, kFitSamples));
  }
  EXPECT_EQ(values_of(fits.make(group(9))), weights_of(9));
  EXPECT_EQ(values_of(fits.take({0, 1})), weights_of(2));
}

/// The scan's thread may be bound to one core once it runs, and threads begin where their maker is.
TEST_F(SliceFitsTest, ThreadIsThereBeforeTheScanRuns) {
  static_cast<void>(weights_of(1));  // whatever else needs threads has them
  const std::int64_t before = threads_now();
  {
    SliceFits fits(scan_, kFitOptions, /*beside=*/true);
    EXPECT_EQ(threads_now(), before + 1);
    fits.start(groups(3));
    EXPECT_LE(threads_now(), before + 1);
  }
  EXPECT_EQ(threads_now(), before);
  const SliceFits alone(scan_, kFitOptions, /*beside=*/false);
  EXPECT_FALSE(alone.may_start());
  EXPECT_EQ(threads_now(), before);
}

/// An exception of the thread is thrown where the kernels are asked for, and other groups are made.
TEST_F(SliceFitsTest, GroupThatCannotBeFittedSaysSoWhereItIsTaken) {
  for (const bool waits : {false, true}) {
    SliceFits fits(scan_, kFitOptions, /*beside=*/true);
    auto some = groups(2);
    for (auto& block : some[0].second.blocks) std::fill_n(block.data(), block.view().size(), cfloat{});
    fits.start(std::move(some));
    if (!waits) {
      EXPECT_THROW(fits.take({0, 0}), std::invalid_argument);
    }
    EXPECT_EQ(values_of(fits.take({0, 1})), weights_of(2));
    if (waits) {
      EXPECT_THROW(fits.take({0, 0}), std::invalid_argument);
    }
  }
}

/// Blocks are paid for by the context, and weights by the fits; both are given back.
TEST_F(SliceFitsTest, EndWithoutTakingGivesAllMemoryBack) {
  const std::uint64_t before = context_.account()->used();
  {
    SliceFits fits(scan_, kFitOptions, /*beside=*/true);
    fits.start(groups(4));
    EXPECT_GT(context_.account()->used(), before);
  }
  EXPECT_EQ(context_.account()->used(), before);
}

}  // namespace
}  // namespace echotrain::testing
