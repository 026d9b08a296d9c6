// `frame: {..., when_behind: drop_oldest}`: which frames are left out, and that the others are what they would be.
#include <gmock/gmock.h>

#include "tests/gadgets/engine/framer_log.h"

namespace echotrain::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The fate of `count` readouts that came at once, while `waiting` more waited outside.
struct Dropping {
  Dropping(const std::string& rule, std::vector<Acquisition> list, std::optional<std::int64_t> waiting,
           bool moves = false, int slices = 1)
      : compute(Backend::cpu, test_resources()),
        scan(
            compute, config::TrajectoryUnit::cycles_per_pixel,
            [this](protocol::Level level, const std::string& text) {
              if (level == protocol::Level::warning) warnings.push_back(text);
            },
            nullptr, moves ? Delivery::windows : Delivery::parts),
        framer(config::read_pipeline(yaml("  - x\n", "frame: " + rule + "\n"), "p.yaml").frame) {
    protocol::Header measurement = header({.encoded = {8, 8, 1}, .trajectory = "goldenangle"});
    measurement.encodings[0].slice = {.maximum = static_cast<std::uint16_t>(slices - 1)};
    framer.start(measurement, scan);
    push(std::move(list), waiting);
  }
  void push(std::vector<Acquisition> list, std::optional<std::int64_t> waiting) {
    framer.push(
        std::move(list),
        [this](Readouts&& readouts) {
          for (const auto& head : readouts.heads)
            frames[readouts.frame->id].push_back(static_cast<int>(head.scan_counter));
          const auto note = readouts.frame->notes.find("echotrain_frames_dropped");
          if (readouts.last) notes.push_back(note == readouts.frame->notes.end() ? "" : note->second);
          begins[readouts.frame->id] = readouts.frame->window_begin;
        },
        waiting);
  }
  std::uint64_t dropped() const { return scan.numbers.frames_dropped; }

  numerics::Context compute;
  std::vector<std::string> warnings, notes;
  std::map<std::uint64_t, Numbers> frames;
  std::map<std::uint64_t, std::int64_t> begins;
  Scan scan;
  Framer framer;
};

std::vector<Acquisition> spokes(int from, int to) {
  std::vector<Counters> list(static_cast<std::size_t>(to));
  std::vector<Acquisition> all = testing::scan(list);
  return {all.begin() + from, all.end()};
}

using Frames = std::map<std::uint64_t, Numbers>;

TEST(DroppedFrames, NoneWhereNothingWaits) {
  for (const bool moves : {false, true}) {
    Dropping each("{readouts: 4, stride: 2, when_behind: drop_oldest}", spokes(0, 1), 0, moves);
    for (int i = 1; i < 12; ++i) {
      auto all = spokes(0, i + 1);
      each.push({all.back()}, 0);
    }
    EXPECT_EQ(each.frames.size(), 5u);
    EXPECT_EQ(each.dropped(), 0u);
    EXPECT_TRUE(each.warnings.empty());
  }
}

TEST(DroppedFrames, AllOfThemComeWhereTheyWait) {
  Dropping all("{readouts: 4, stride: 2, when_behind: wait}", spokes(0, 12), 100);
  EXPECT_EQ(all.frames.size(), 5u);
  EXPECT_EQ(all.dropped(), 0u);
}

// Twelve readouts at once: windows 0 to 3, 2 to 5, .., 8 to 11; only the last is new.
TEST(DroppedFrames, OnlyTheNewestWindowOfABatchIsComputed) {
  Dropping whole("{readouts: 4, stride: 2, when_behind: drop_oldest}", spokes(0, 12), 0);
  EXPECT_EQ(whole.frames, (Frames{{4, {8, 9, 10, 11}}}));
  EXPECT_EQ(whole.dropped(), 4u);
  EXPECT_THAT(whole.warnings, Each(HasSubstr("drop_oldest")));  // a pipeline says it once
  EXPECT_FALSE(whole.warnings.empty());
  EXPECT_THAT(whole.notes, ElementsAre("4"));
  EXPECT_EQ(whole.begins.at(4), 8);
}

TEST(DroppedFrames, AFileIsReadToItsEnd) {
  Dropping file("{readouts: 4, stride: 2, when_behind: drop_oldest}", spokes(0, 12), std::nullopt);
  EXPECT_EQ(file.frames.size(), 5u);
  EXPECT_EQ(file.dropped(), 0u);
}

TEST(DroppedFrames, WhatWaitsOutsideCounts) {
  Dropping some("{readouts: 4, stride: 2, when_behind: drop_oldest}", spokes(0, 12), 1);
  EXPECT_EQ(some.frames, (Frames{{4, {8, 9, 10, 11}}}));  // one readout makes no newer window
  Dropping none("{readouts: 4, stride: 2, when_behind: drop_oldest}", spokes(0, 12), 2);
  EXPECT_TRUE(none.frames.empty());
  EXPECT_EQ(none.dropped(), 5u);
}

// The gadgets of a window that moves get what has entered it since the frame before that they have seen.
TEST(DroppedFrames, WindowsThatMoveMissNothing) {
  const std::string rule = "{readouts: 6, stride: 2, when_behind: drop_oldest}";
  Dropping moves(rule, spokes(0, 6), 0, true);
  EXPECT_EQ(moves.frames, (Frames{{0, {0, 1, 2, 3, 4, 5}}}));
  auto later = spokes(0, 10);
  moves.push({later.begin() + 6, later.end()}, 0);  // frame 1 is left out, frame 2 has readouts 4 to 9
  EXPECT_EQ(moves.frames.at(2), (Numbers{6, 7, 8, 9}));
  EXPECT_EQ(moves.begins.at(2), 4);
  later = spokes(0, 30);
  moves.push({later.begin() + 10, later.end()}, 0);  // further than a whole window
  EXPECT_EQ(moves.frames.at(12), (Numbers{24, 25, 26, 27, 28, 29}));
  EXPECT_EQ(moves.begins.at(12), 24);
  EXPECT_EQ(moves.dropped(), 1u + 9u);
}

TEST(DroppedFrames, FramesThatFollowEachOther) {
  Dropping counted("{readouts: 3, when_behind: drop_oldest}", spokes(0, 10), 0);
  EXPECT_EQ(counted.frames, (Frames{{2, {6, 7, 8}}, {3, {9}}}));
  EXPECT_EQ(counted.dropped(), 2u);
  EXPECT_THAT(counted.notes, ElementsAre("2"));
}

// A frame that has begun is finished: its gadgets have seen some of it.
TEST(DroppedFrames, NoneThatHasBegun) {
  Dropping counted("{readouts: 3, when_behind: drop_oldest}", spokes(0, 1), 0);
  auto later = spokes(0, 9);
  counted.push({later.begin() + 1, later.end()}, 0);
  EXPECT_EQ(counted.frames, (Frames{{0, {0, 1, 2}}, {2, {6, 7, 8}}}));
  EXPECT_EQ(counted.dropped(), 1u);
}

TEST(DroppedFrames, SlicesShareWhatHasCome) {
  std::vector<Counters> list;
  for (int i = 0; i < 4; ++i)
    for (int slice = 0; slice < 2; ++slice) list.push_back({.step = i, .slice = slice});
  // Each slice has the windows of readouts 0 and 1, 1 and 2, 2 and 3: the last of each is new.
  Dropping slices("{readouts: 2, stride: 1, when_behind: drop_oldest}", testing::scan(list), 0);
  EXPECT_EQ(slices.frames.size() + slices.dropped(), 6u);
  EXPECT_EQ(slices.frames.rbegin()->second, (Numbers{5, 7}));
  EXPECT_EQ(std::next(slices.frames.rbegin())->second, (Numbers{4, 6}));
}

TEST(DroppedFrames, TheNewestOfSlicesThatTakeTurns) {
  std::vector<Counters> list;
  for (int i = 0; i < 4; ++i)
    for (int slice = 0; slice < 3; ++slice) list.push_back({.step = i, .slice = slice});
  const std::string rule = "{readouts: 2, when_behind: drop_oldest}";
  const Frames newest{{3, {6, 9}}, {4, {7, 10}}, {5, {8, 11}}};
  Dropping slices(rule, testing::scan(list), 0, false, 3);
  EXPECT_EQ(slices.frames, newest);
  EXPECT_EQ(slices.dropped(), 3u);
  // One frame of each slice: there is nothing newer.
  Dropping once(rule, testing::scan({list.begin(), list.begin() + 6}), 0, false, 3);
  EXPECT_EQ(once.frames, (Frames{{0, {0, 3}}, {1, {1, 4}}, {2, {2, 5}}}));
}

TEST(DroppedFrames, AnAnswerToWordsThatAreNotKnown) {
  const auto message = [](const std::string& rule) {
    try {
      config::read_pipeline(yaml("  - x\n", "frame: " + rule + "\n"), "p.yaml");
    } catch (const config::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message("{readouts: 3, when_behind: drop}"), HasSubstr("drop_oldest"));
  EXPECT_THAT(message("{until: last_in_slice, when_behind: drop_oldest}"), HasSubstr("a frame is one of"));
}

}  // namespace
}  // namespace echotrain::testing
