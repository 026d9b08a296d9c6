// ParallelWeights: what is kept, within which bounds, and who pays.
#include "gadgets/encoding/parallel_weights.h"

#include "gadgets/shared/sampled_lines.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

/// A block of random reference lines of its own number, and slice.
Calibration block(numerics::Context& compute, std::uint64_t id) {
  std::mt19937 random(static_cast<unsigned>(id));
  Calibration out;
  out.id = id;
  out.key.slice = static_cast<std::uint16_t>(id);
  out.first = {0, 8, 0};
  out.matrix = {16, 32, 1};
  const auto values = noise(std::size_t{3} * 16 * 16, random);
  out.data = compute.upload<cfloat>({values.data(), {3, 1, 16, 16}});
  return out;
}

SampledLines every_second(int first) {
  std::vector<std::uint8_t> came(32);
  for (int y = first; y < 32; y += 2) came[static_cast<std::size_t>(y)] = 1;
  SampledLines lines = sampled_lines(std::move(came), 32, 1, {2, 1});
  lines.last_x = 16;
  return lines;
}

const numerics::LineGeometry kGeometry{{1, 32, 16}, {1, 32, 16}, {1, 32, 16}, numerics::Direction::inverse};

class ParallelWeightsTest : public OnEachBackend {
 protected:
  numerics::Context& compute() {
    if (!compute_) compute_.emplace(GetParam(), test_resources());
    return *compute_;
  }
  Scan scan() {
    return Scan(compute(), config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  }
  std::optional<numerics::Context> compute_;
};

TEST_P(ParallelWeightsTest, AreMadeOncePerBlockLinesAndImage) {
  Scan s = scan();
  ParallelWeights weights({});
  weights.start(s);
  const Calibration a = block(compute(), 1), b = block(compute(), 2);
  numerics::LineGeometry other = kGeometry;
  other.image = {1, 30, 16};
  const auto first = weights.of(a, every_second(0), kGeometry);
  EXPECT_FALSE(first.reused);
  EXPECT_TRUE(first.weights->problem.empty()) << first.weights->problem;
  EXPECT_EQ(first.weights->coils, 3);
  EXPECT_TRUE(weights.of(a, every_second(0), kGeometry).reused);
  EXPECT_FALSE(weights.of(b, every_second(0), kGeometry).reused);
  EXPECT_FALSE(weights.of(a, every_second(1), kGeometry).reused);
  EXPECT_FALSE(weights.of(a, every_second(0), other).reused);
  const auto again = weights.of(a, every_second(0), kGeometry);
  EXPECT_TRUE(again.reused);
  EXPECT_EQ(again.weights, first.weights);
  EXPECT_EQ(s.numbers.weights_made, 4u);
  EXPECT_EQ(s.numbers.weights_reused, 2u);
  EXPECT_GT(s.numbers.weights_ms, 0);
}

TEST_P(ParallelWeightsTest, ThoseUnusedForLongestGoFirst) {
  Scan s = scan();
  ParallelWeights all({});
  all.start(s);
  const Calibration a = block(compute(), 1), b = block(compute(), 2), c = block(compute(), 3);
  const std::uint64_t bytes = all.of(a, every_second(0), kGeometry).weights->bytes();
  WeightsOptions options;
  options.most_bytes = 2 * bytes + bytes / 2;
  ParallelWeights two(options);
  two.start(s);
  const auto reused = [&](const Calibration& of) { return two.of(of, every_second(0), kGeometry).reused; };
  EXPECT_FALSE(reused(a));
  EXPECT_FALSE(reused(b));
  EXPECT_TRUE(reused(a));
  EXPECT_FALSE(reused(c));  // and b goes
  EXPECT_EQ(two.kept(), 2u);
  EXPECT_TRUE(reused(a));
  EXPECT_TRUE(reused(c));
  EXPECT_FALSE(reused(b));
  options.most_bytes = 1;
  ParallelWeights one(options);
  one.start(s);
  EXPECT_FALSE(one.of(a, every_second(0), kGeometry).reused);
  EXPECT_TRUE(one.of(a, every_second(0), kGeometry).reused);  // the last ones always stay
  EXPECT_EQ(one.kept(), 1u);
}

TEST_P(ParallelWeightsTest, AreMadeBeforeTheyAreAskedFor) {
  Scan s = scan();
  ParallelWeights weights({});
  weights.start(s);
  const Calibration a = block(compute(), 1), b = block(compute(), 2), c = block(compute(), 3);
  weights.prepare(a, every_second(0), kGeometry);
  weights.prepare(a, every_second(0), kGeometry);
  EXPECT_EQ(s.numbers.weights_made, 1u);
  EXPECT_FALSE(weights.of(a, every_second(0), kGeometry).reused);
  EXPECT_TRUE(weights.of(a, every_second(0), kGeometry).reused);
  EXPECT_EQ(s.numbers.weights_made, 1u);
  EXPECT_EQ(s.numbers.weights_reused, 1u);
  weights.prepare(b, every_second(0), kGeometry);
  EXPECT_FALSE(weights.of(b, every_second(1), kGeometry).reused);  // others than were expected
  EXPECT_EQ(weights.kept(), 2u);
  weights.prepare(c, every_second(0), kGeometry);
  EXPECT_EQ(s.numbers.weights_made, 3u);
}

TEST_P(ParallelWeightsTest, ALaterBlockTakesThePlaceOfItsSlices) {
  Scan s = scan();
  ParallelWeights weights({});
  weights.start(s);
  const Calibration a = block(compute(), 1), other = block(compute(), 2);
  Calibration later = block(compute(), 3);
  later.key = a.key;
  weights.of(a, every_second(0), kGeometry);
  weights.of(a, every_second(1), kGeometry);
  weights.of(other, every_second(0), kGeometry);
  EXPECT_EQ(weights.kept(), 3u);
  EXPECT_FALSE(weights.of(later, every_second(0), kGeometry).reused);
  EXPECT_EQ(weights.kept(), 2u);
  EXPECT_TRUE(weights.of(other, every_second(0), kGeometry).reused);
  EXPECT_TRUE(weights.of(later, every_second(0), kGeometry).reused);
}

// Whoever holds weights keeps their memory, and it is the scan's; where it is all used, kept weights make room.
TEST_P(ParallelWeightsTest, TheScanPays) {
  const std::uint64_t before = compute().bytes_in_use();
  const Calibration a = block(compute(), 1), b = block(compute(), 2);
  std::uint64_t kept = 0;
  {
    Scan s = scan();
    ParallelWeights weights({});
    weights.start(s);
    const std::uint64_t blocks = compute().bytes_in_use();
    kept = weights.of(a, every_second(0), kGeometry).weights->bytes();
    EXPECT_GE(compute().bytes_in_use(), blocks + kept / 2);
  }
  EXPECT_LE(compute().bytes_in_use(), before + (64u << 10));
  const std::uint64_t peak = compute().peak_bytes();
  numerics::Context small(GetParam(), test_resources(), {.memory_budget = peak + kept / 4});
  Scan s(small, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  ParallelWeights weights({});
  weights.start(s);
  const Calibration a2 = block(small, 1), b2 = block(small, 2);
  weights.of(a2, every_second(0), kGeometry);
  EXPECT_EQ(weights.kept(), 1u);
  EXPECT_NO_THROW(weights.of(b2, every_second(0), kGeometry));
  EXPECT_EQ(weights.kept(), 1u);
}

// They say so each time, but are not tried again.
TEST_P(ParallelWeightsTest, RememberWhatCannotBeMade) {
  Scan s = scan();
  ParallelWeights weights({});
  weights.start(s);
  Calibration empty = block(compute(), 1);
  empty.data = compute().zeros<cfloat>({3, 1, 16, 16});
  EXPECT_NE(weights.of(empty, every_second(0), kGeometry).weights->problem.find("no signal"), std::string::npos);
  const auto again = weights.of(empty, every_second(0), kGeometry);
  EXPECT_TRUE(again.reused);
  EXPECT_FALSE(again.weights->problem.empty());
}

ECHOTRAIN_ON_BACKENDS(ParallelWeightsTest);

}  // namespace
}  // namespace echotrain::testing
