// The memory in which gadgets hold readouts is paid for, to the bytes that the allocator gave for it.
#include "gadgets/shared/accounted_allocator.h"

#include <array>
#include <functional>

#include "tests/gadgets/heap.h"
#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

std::shared_ptr<numerics::MemoryAccount> account_of(std::uint64_t bytes) {
  return std::make_shared<numerics::MemoryAccount>(std::make_shared<numerics::MemoryBudget>(bytes));
}

TEST(PaidAllocatorTest, ContainersPayForWhatTheyHave) {
  const auto account = account_of(1 << 20);
  const AccountedAllocator<int> pays(account);
  {
    AccountedVector<int> numbers(pays);
    numbers.reserve(1000);
    EXPECT_GE(account->used(), 1000 * sizeof(int));
    AccountedVector<int> taken(pays);
    taken = std::move(numbers);
    AccountedMap<int, AccountedVector<int>> nodes(pays);
    nodes.try_emplace(1, pays).first->second.assign(1000, 7);
    EXPECT_GE(account->used(), 2000 * sizeof(int));
    nodes.clear();
    EXPECT_LT(account->used(), 1100 * sizeof(int));
  }
  EXPECT_EQ(account->used(), 0u);
}

TEST(PaidAllocatorTest, WhatDoesNotFitIsRefusedAndLeavesNothing) {
  const auto account = account_of(4096);
  AccountedVector<char> text(AccountedAllocator<char>{account});
  text.reserve(1000);
  const std::uint64_t before = account->used();
  EXPECT_THROW(text.reserve(5000), numerics::OverBudget);
  EXPECT_EQ(account->used(), before);
  EXPECT_EQ(text.capacity(), 1000u);
}

/// A scan whose readouts a gadget holds, all to its end.
struct Holding {
  std::string name, gadgets, frame;
  std::string trajectory = "cartesian";
  int partitions = 1;
  std::string limits;
  std::function<void(std::size_t, Acquisition&)> change;
  std::size_t batch = 100;  // readouts that come at a time
};

/// Bytes that the scan's readouts take of the heap, and those that it pays for [each].
std::array<double, 2> held_by(const Holding& scan) {
  constexpr std::size_t kFirst = 2000, kReadouts = 20000;
  numerics::Context compute(Backend::cpu, test_resources());
  const std::string text = yaml(scan.gadgets, "frame: " + scan.frame + "\ntrajectory_unit: cycles_per_pixel\n");
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
                    {[](protocol::Image&&, const ImageTimes&) {}, [](protocol::Level, const std::string&) {}});
  pipeline.start(header(
      {.encoded = {4, 8, scan.partitions}, .trajectory = scan.trajectory, .limits = step_limit(8) + scan.limits}));
  const bool has_trajectory = scan.trajectory != "cartesian";
  const auto push = [&](std::size_t begin) {
    std::vector<Acquisition> batch;
    for (std::size_t i = begin; i < begin + scan.batch; ++i) {
      batch.push_back(readout(2, std::vector<cfloat>(2, 1), std::vector<float>(has_trajectory ? 2 : 0, 0.1f)));
      batch.back().head.acquisition_time_stamp = static_cast<std::uint32_t>(i);
      scan.change(i, batch.back());
    }
    pipeline.push(std::move(batch));
  };
  for (std::size_t i = 0; i < kFirst; i += scan.batch) push(i);
  const std::uint64_t heap = heap_bytes(), paid = compute.account()->used();
  for (std::size_t i = kFirst; i < kFirst + kReadouts; i += scan.batch) push(i);
  const std::array<double, 2> each{static_cast<double>(heap_bytes() - heap) / kReadouts,
                                   static_cast<double>(compute.account()->used() - paid) / kReadouts};
  pipeline.finish(End::truncated);
  return each;
}

TEST(PaidAllocatorTest, ScansPayForTheHeapThatTheirReadoutsTake) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "another allocator";
#endif
  const std::string cartesian = "  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n";
  const std::string gridded =
      "  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - coil_combine\n  - image\n";
  const auto same = [](std::size_t, Acquisition&) {};
  // A beat each second; each readout is a line of its own.
  const auto beats = [](std::size_t i, Acquisition& one) {
    one.head.physiology_time_stamp[0] = static_cast<std::uint32_t>(i % 400);
    one.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
  };
  const auto spokes = [](std::size_t i, Acquisition& one) {
    one.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
  };
  const auto frames = [](std::size_t i, Acquisition& one) {
    one.head.idx.slice = static_cast<std::uint16_t>(i % 16000);
  };
  const std::string whole = "{until: last_in_repetition}";
  const std::vector<Holding> scans = {
      {"waits for a beat", "  - cardiac_binning\n" + cartesian, whole, "cartesian", 1, "", same},
      {"waits for a beat, one at a time", "  - cardiac_binning\n" + cartesian, whole, "cartesian", 1, "", same, 1},
      {"kept for phases", "  - cardiac_binning: {beats: stamps}\n" + cartesian, whole, "cartesian", 1, "", beats},
      {"virtual coils", "  - coil_compression: {channels: 1, from: center}\n" + cartesian, whole, "cartesian", 1, "",
       same},
      {"spokes", "  - partition_fft\n" + gridded, whole, "radial", 64, limit("kspace_encoding_step_2", 0, 63, 32),
       spokes},
      {"frames of spokes", "  - partition_fft\n" + gridded, "auto", "radial", 4,
       limit("kspace_encoding_step_2", 0, 3, 2), frames},
  };
  for (const Holding& scan : scans) {
    const auto [taken, paid] = held_by(scan);
    // As of open frames (FramerCostTest): lumps stand for what the allocator adds, and twice what is taken would refuse
    // scans for which there is memory.
    EXPECT_GE(paid, 0.95 * taken) << scan.name << ": " << taken << " bytes a readout, paid " << paid;
    EXPECT_LE(paid, 2 * taken) << scan.name << ": " << taken << " bytes a readout, paid " << paid;
  }
}

}  // namespace
}  // namespace echotrain::testing
