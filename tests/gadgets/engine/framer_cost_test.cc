// The cost of grouping readouts is the same for each, however many frames are open and however large they are.
#include "gadgets/engine/framer.h"
#include "gadgets/engine/open_frames.h"
#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "tests/gadgets/heap.h"
#include "tests/gadgets/scan.h"
#include "tests/support/cpu_time.h"
#include "tests/support/matter_of_time.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

/// Readout number i of a scan in which each opens a frame: counters of a slice, a contrast and a set, all in range.
Acquisition opening(std::size_t i) {
  Acquisition out = readout(1, {cfloat(1, 0)});
  out.head.idx.slice = static_cast<std::uint16_t>(i % 256);
  out.head.idx.contrast = static_cast<std::uint16_t>(i / 256 % 256);
  out.head.idx.set = static_cast<std::uint16_t>(i / 65536);
  return out;
}

/// CPU seconds for `count` readouts by this rule, in batches of `batch`, that each open a frame.
double seconds_to_open(const std::string& rule, std::size_t count, std::size_t batch,
                       const std::function<void(std::size_t, Acquisition&)>& change) {
  numerics::Context compute(Backend::cpu, test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  Framer framer(config::read_pipeline(yaml("  - x\n", "frame: " + rule + "\n"), "p.yaml").frame);
  framer.start(header({.encoded = {1, 8, 1}}), scan);
  std::vector<std::vector<Acquisition>> batches;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % batch == 0) batches.emplace_back();
    batches.back().push_back(opening(i));
    change(i, batches.back().back());
  }
  const double begin = cpu_seconds();
  for (auto& one : batches) framer.push(std::move(one), [](Readouts&&) {});
  framer.finish(End::complete, [](Readouts&&) {});
  EXPECT_EQ(framer.frames(), count);
  return cpu_seconds() - begin;
}

/// Eight times the readouts cost about eight times as much, and up to twenty times where memory is new and caches are
/// left. Work that grows with the open frames costs 64 times as much and more. Each time is the best of three.
void expect_linear(
    const std::string& rule, std::size_t batch,
    const std::function<void(std::size_t, Acquisition&)>& change = [](std::size_t, Acquisition&) {}) {
  double few = 1e9, many = 1e9;
  for (int run = 0; run < 3; ++run) {
    few = std::min(few, seconds_to_open(rule, 2000, batch, change));
    many = std::min(many, seconds_to_open(rule, 16000, batch, change));
  }
  EXPECT_LE(many / few, 30) << kMatterOfTime << rule << ", batches of " << batch;
}

TEST(FramerCostTest, EachReadoutOpensAFrame) {
  for (const std::size_t batch : {1, 100}) expect_linear("auto", batch);
}

TEST(FramerCostTest, RepetitionsThatRunBackwards) {
  expect_linear("auto", 1, [](std::size_t i, Acquisition& readout) {
    readout.head.idx.repetition = static_cast<std::uint16_t>(20000 - i);
  });
}

/// Every second readout ends its own frame, among ever more frames that stay open.
TEST(FramerCostTest, FlagsThatEndFrames) {
  for (const char* rule : {"{until: last_in_slice}", "{until: last_in_repetition}"})
    expect_linear(rule, 1, [](std::size_t i, Acquisition& readout) {
      readout.head.idx.repetition = static_cast<std::uint16_t>(i % 2 == 0 ? i : 1);
      if (i % 2 == 0) return;
      set_flag(readout, kLastInSlice);
      set_flag(readout, kLastInRepetition);
    });
}

TEST(FramerCostTest, FramesOfACountOfReadouts) { expect_linear("{readouts: 5}", 1); }

TEST(FramerCostTest, OpenFramesAreBounded) {
  for (const char* rule : {"auto", "{until: last_in_slice}", "{readouts: 7}", "{readouts: 7, stride: 3}"}) {
    numerics::Context compute(Backend::cpu, test_resources());
    Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
    Framer framer(config::read_pipeline(yaml("  - x\n", std::string("frame: ") + rule + "\n"), "p.yaml").frame);
    framer.start(header({.encoded = {1, 8, 1}}), scan);
    const auto push = [&](std::size_t i) {
      std::vector<Acquisition> one;
      one.push_back(opening(i));
      framer.push(std::move(one), [](Readouts&&) {});
    };
    for (std::size_t i = 0; i < OpenFrames::kMost; ++i) push(i);
    push(5);  // of a frame that is open
    const std::string said = client_error([&] { push(OpenFrames::kMost); });
    EXPECT_NE(said.find("16384 frames are open"), std::string::npos) << rule << ": " << said;
    EXPECT_NE(said.find("the pipeline's key 'frame'"), std::string::npos) << said;
  }
}

/// A client that opens a frame with each readout takes memory by frames, not by samples. The session pays for all of
/// it, and there is little to pay for.
TEST(FramerCostTest, OpenFramesPayForTheHeapThatTheyTake) {
#ifdef ECHOTRAIN_SANITIZED
  GTEST_SKIP() << "another allocator";
#endif
  constexpr std::size_t kOpened = 10000, kBatch = 100;
  for (const std::string gadgets : {"  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n",
                                    "  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - image\n"}) {
    numerics::Context compute(Backend::cpu, test_resources());
    Pipeline pipeline(PipelinePlan::check(config::read_pipeline(yaml(gadgets), "test.yaml")), compute,
                      {[](protocol::Image&&, const ImageTimes&) {}, [](protocol::Level, const std::string&) {}});
    numerics::HeapAccount allocated(compute.account());
    const numerics::HeapScope scope(&allocated);
    pipeline.start(header({.encoded = {1, 8, 1}}));
    const auto push = [&](std::size_t begin) {
      std::vector<Acquisition> batch;
      for (std::size_t i = begin; i < begin + kBatch; ++i) batch.push_back(opening(i));
      pipeline.push(std::move(batch));
    };
    const auto used = [&] {
      allocated.check();
      return compute.account()->used();
    };
    push(0);
    const std::uint64_t heap = heap_bytes(), paid = used();
    for (std::size_t i = kBatch; i < kOpened; i += kBatch) push(i);
    const auto taken = static_cast<double>(heap_bytes() - heap), counted = static_cast<double>(used() - paid);
    // Blocks are counted at what the allocator takes, arrays at their sizes with a lump for what it may add.
    EXPECT_GE(counted / taken, 0.95) << taken / kOpened << " bytes per frame";
    EXPECT_LE(counted / taken, 1.15);
    EXPECT_LE(taken / kOpened, 4000);
    pipeline.finish(End::truncated);
  }
}

/// Stops the scan at the first frame that is handed on: no other one follows, wherever 10,000 come from.
TEST(FramerCostTest, AStopEndsABatchOfManyFrames) {
  constexpr std::size_t kOpened = 10000;
  for (const bool at_the_end : {false, true}) {
    std::stop_source source;
    numerics::Context compute(Backend::cpu, test_resources(), {.stop_token = source.get_token()});
    Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
    Framer framer(config::read_pipeline(yaml("  - x\n", "frame: auto\n"), "p.yaml").frame);
    framer.start(header({.encoded = {1, 8, 1}}), scan);
    std::vector<Acquisition> batch;
    for (std::size_t i = 0; i < kOpened; ++i) batch.push_back(opening(i));
    int emitted = 0;
    const auto emit = [&](Readouts&& readouts) {
      if (readouts.last != at_the_end) return;
      ++emitted;
      source.request_stop();
    };
    EXPECT_THROW(
        {
          framer.push(std::move(batch), emit);
          framer.finish(End::complete, emit);
        },
        numerics::Stopped);
    EXPECT_EQ(emitted, 1);
  }
}

/// CPU seconds for 4000 readouts of a frame of `lines` lines and `planes` planes that is open. change(i, readout).
double seconds_to_fill(const std::string& gadgets, std::uint16_t lines, std::uint16_t planes,
                       const std::function<void(int, Acquisition&)>& change) {
  numerics::Context compute(Backend::cpu, test_resources());
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(yaml(gadgets), "test.yaml")), compute,
                    {[](protocol::Image&&, const ImageTimes&) {}, [](protocol::Level, const std::string&) {}});
  pipeline.start(header({.encoded = {2, lines, planes}}));
  const auto some = [&](int count) {
    std::vector<Acquisition> scan;
    for (int i = 0; i < count; ++i) {
      scan.push_back(readout(1, {cfloat(1, 0), cfloat(1, 0)}));
      change(i, scan.back());
    }
    return scan;
  };
  pipeline.push(some(1));  // makes and clears the frame's memory
  std::vector<Acquisition> scan = some(4000);
  const double begin = cpu_seconds();
  pipeline.push(std::move(scan));
  const double used = cpu_seconds() - begin;
  pipeline.finish(End::truncated);
  pipeline.wait();
  return used;
}

/// A batch costs what its readouts cost, not what the frame costs that they belong to: readouts of a frame of 4096 x
/// 1024 lines take at most 10 times as long as those of one of 16 x 16 (1.0 to 1.1 times was seen; memory that the
/// caches do not hold may cost more). Work on all lines for each readout takes 1000 times as long. Each time is the
/// best of three.
void expect_same_for_large_frames(const std::string& gadgets, const std::function<void(int, Acquisition&)>& change) {
  double small = 1e9, large = 1e9;
  for (int run = 0; run < 3; ++run) {
    small = std::min(small, seconds_to_fill(gadgets, 16, 16, change));
    large = std::min(large, seconds_to_fill(gadgets, 4096, 1024, change));
  }
  EXPECT_LE(large / small, 10) << kMatterOfTime << "small: " << small << " s";
}

/// Imaging and navigator readouts by turns, so that each is a batch of its own.
TEST(FramerCostTest, SmallBatchesOfALargeFrame) {
  expect_same_for_large_frames("  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n",
                               [](int i, Acquisition& readout) {
                                 readout.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i / 2 % 16);
                                 if (i % 2 == 1) set_flag(readout, kNavigator);
                               });
}

/// The same row again and again in one batch.
TEST(FramerCostTest, ARowThatComesAgainAndAgain) {
  expect_same_for_large_frames("  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n",
                               [](int, Acquisition&) {});
}

}  // namespace
}  // namespace echotrain::testing
