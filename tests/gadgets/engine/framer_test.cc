// The framer decides which readouts make one frame, and when it ends.
#include "tests/gadgets/engine/framer_log.h"

namespace echotrain::testing {
namespace {

TEST(FramerTest, TheLastLineOfASliceClosesItsFrame) {
  std::vector<Counters> list;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (int y = 0; y < 4; ++y)
      list.push_back({.step = y, .repetition = repetition, .flags = y == 3 ? Numbers{kLastInSlice} : Numbers{}});
  const Log log = frames("auto", lines(4), scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}, {2, {8, 9, 10, 11}}}));
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 4}, {1, 8}, {2, 12}}));  // at once, not with the next frame
  EXPECT_EQ(log.keys.at(2).repetition, 2);
}

TEST(FramerTest, AFlagWithLinesMissingWaitsForTheNextFrame) {
  std::vector<Counters> list;
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int y = 0; y < 3; ++y)
      list.push_back({.step = y, .repetition = repetition, .flags = y == 2 ? Numbers{kLastInSlice} : Numbers{}});
  const Log log = frames("auto", lines(4), scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1, 2}}, {1, {3, 4, 5}}}));
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 4}, {1, 6}}));
}

TEST(FramerTest, DataAfterAnEarlyFlagStillBelongs) {
  // An interleaved calibration band reaching the edges: the flag comes twice, and data of the group after it.
  const std::vector<Counters> list = {{.step = 0},
                                      {.step = 2, .flags = {kLastInSlice}},
                                      {.step = 1, .flags = {kCalibrationAndImaging}},
                                      {.step = 2, .flags = {kCalibrationAndImaging, kLastInSlice}},
                                      {.step = 3, .flags = {kCalibrationAndImaging}},
                                      {.step = 0, .repetition = 1}};
  const Log log = frames("auto", lines(4), scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1, 2, 3, 4}}, {1, {5}}}));
  EXPECT_EQ(log.open_at.at(0), 5u);
  EXPECT_EQ(log.late, 0u);
}

TEST(FramerTest, WithoutFlagsCountersTellFramesApart) {
  std::vector<Counters> list;
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int y = 0; y < 4; ++y)
      for (int slice = 0; slice < 2; ++slice) list.push_back({.step = y, .slice = slice, .repetition = repetition});
  const Log log = frames("auto", lines(4), scan(list));
  ASSERT_EQ(log.frames.size(), 4u);
  EXPECT_EQ(log.frames.at(0), (Numbers{0, 2, 4, 6}));
  EXPECT_EQ(log.frames.at(1), (Numbers{1, 3, 5, 7}));
  EXPECT_EQ(log.frames.at(3), (Numbers{9, 11, 13, 15}));
  EXPECT_EQ(log.open_at.at(0), 8u);  // the frame is whole, and another frame's readout came
  EXPECT_EQ(log.open_at.at(1), 9u);
}

TEST(FramerTest, InterleavedSlicesStayOpenUntilTheyAreWhole) {
  // A slice that has lines missing ends with its repetition.
  const std::vector<Counters> list = {{.step = 0, .slice = 0}, {.step = 0, .slice = 1}, {.step = 1, .slice = 0},
                                      {.step = 1, .slice = 1}, {.step = 2, .slice = 1}, {.step = 0, .repetition = 1}};
  const Log log = frames("auto", lines(3), scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 2}}, {1, {1, 3, 4}}, {2, {5}}}));
  EXPECT_EQ(log.open_at.at(0), 6u);
}

TEST(FramerTest, TheSameCountersAgainAreANewFrame) {
  for (const bool flagged : {true, false}) {
    std::vector<Counters> list;
    for (int i = 0; i < 3; ++i)
      for (int y = 0; y < 4; ++y)
        list.push_back({.step = y, .flags = flagged && y == 3 ? Numbers{kLastInSlice} : Numbers{}});
    const Log log = frames("auto", lines(4), scan(list));
    EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}, {2, {8, 9, 10, 11}}}))
        << "flagged: " << flagged;
    EXPECT_EQ(log.late, 0u);
  }
}

TEST(FramerTest, UnnumberedReadoutsAreOneFrame) {
  // A sender that leaves counters and limits at zero, and flags the end.
  const auto h =
      header({.encoded = {8, 8, 1}, .trajectory = "radial", .limits = limit("kspace_encoding_step_1", 0, 0, 0)});
  const Log log = frames("auto", h, scan({{}, {}, {.repetition = 1}, {.repetition = 1}, {.repetition = 1}}));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1}}, {1, {2, 3, 4}}}));
}

TEST(FramerTest, AveragesWithoutALimitDoNotMakeAFrameWhole) {
  // Four readouts of two lines: as many as the matrix has lines, but two of them are missing.
  const std::vector<Counters> list = {{.step = 0},
                                      {.step = 1},
                                      {.step = 0, .average = 1},
                                      {.step = 1, .average = 1, .flags = {kLastInSlice}},
                                      {.step = 2},
                                      {.step = 3, .flags = {kLastInSlice}}};
  const Log log = frames("auto", lines(4), scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1, 2, 3, 4, 5}}}));
}

TEST(FramerTest, AnnouncedAveragesAreWaitedFor) {
  const auto h = header({.encoded = {8, 2, 1}, .limits = step_limit(2) + limit("average", 0, 1, 0)});
  const std::vector<Counters> list = {{.step = 0},
                                      {.step = 1, .flags = {kLastInSlice}},
                                      {.step = 0, .average = 1},
                                      {.step = 1, .average = 1, .flags = {kLastInSlice}},
                                      {.step = 0, .repetition = 1}};
  const Log log = frames("auto", h, scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1, 2, 3}}, {1, {4}}}));
  EXPECT_EQ(log.open_at.at(0), 4u);
}

TEST(FramerTest, LateReadoutsAreCountedAndLeaveOtherFramesAlone) {
  const std::vector<Counters> list = {{.step = 0},
                                      {.step = 1},
                                      {.step = 0, .repetition = 1},
                                      {.step = 2},
                                      {.step = 3},
                                      {.step = 1, .repetition = 1},
                                      {.step = 2, .repetition = 1},
                                      {.step = 3, .repetition = 1}};
  const Log log = frames("auto", lines(4), scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1}}, {1, {2, 5, 6, 7}}}));
  EXPECT_EQ(log.late, 2u);
  ASSERT_EQ(log.warnings.size(), 2u);  // the pipeline reports each text once
  EXPECT_EQ(log.warnings[0], log.warnings[1]);
  EXPECT_NE(log.warnings[0].find("left out and counted"), std::string::npos);
}

TEST(FramerTest, AFrameWithLinesMissingThatBeginsAgainIsANewFrame) {
  // Two slices of every second line, three times, and no counter that says so.
  std::vector<Counters> list;
  for (int i = 0; i < 3; ++i)
    for (int slice = 0; slice < 2; ++slice)
      for (int y = 0; y < 8; y += 2)
        list.push_back({.step = y, .slice = slice, .flags = y == 6 ? Numbers{kLastInSlice} : Numbers{}});
  const Log log = frames("auto", lines(8), scan(list));
  EXPECT_EQ(log.late, 0u);
  ASSERT_EQ(log.frames.size(), 6u);
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(log.frames.at(static_cast<std::uint64_t>(i)), (Numbers{4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3}));
}

TEST(FramerTest, TheRepetitionCounterMayWrap) {
  std::vector<Counters> list;
  for (int repetition : {65534, 65535, 0, 1})
    for (int y = 0; y < 2; ++y) list.push_back({.step = y, .repetition = repetition});
  const Log log = frames("auto", lines(4), scan(list));
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 3}, {1, 5}, {2, 7}, {3, 8}}));
}

TEST(FramerTest, EncodingsAreFramesOfTheirOwn) {
  const auto h = header({HeaderSpec{.encoded = {8, 2, 1}}, HeaderSpec{.encoded = {8, 3, 1}}});
  const std::vector<Counters> list = {{.step = 0},
                                      {.step = 0, .encoding = 1},
                                      {.step = 1, .flags = {kLastInSlice}},
                                      {.step = 1, .encoding = 1},
                                      {.step = 2, .encoding = 1, .flags = {kLastInSlice}}};
  const Log log = frames("auto", h, scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 2}}, {1, {1, 3, 4}}}));
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 3}, {1, 5}}));
}

TEST(FramerTest, UntilLastInRepetition) {
  std::vector<Counters> list;  // two slices; only the last readout of the repetition is flagged
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int slice = 0; slice < 2; ++slice)
      for (int y = 0; y < 2; ++y)
        list.push_back({.step = y,
                        .slice = slice,
                        .repetition = repetition,
                        .flags = slice == 1 && y == 1 ? Numbers{kLastInRepetition} : Numbers{kLastInSlice}});
  const Log log = frames("{until: last_in_repetition}", lines(8), scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1}}, {1, {2, 3}}, {2, {4, 5}}, {3, {6, 7}}}));
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 4}, {1, 4}, {2, 8}, {3, 8}}));
}

TEST(FramerTest, UntilLastInRepetitionLeavesOtherRepetitionsAndEncodingsOpen) {
  const auto h = header({HeaderSpec{.encoded = {8, 8, 1}}, HeaderSpec{.encoded = {8, 8, 1}}});
  const std::vector<Counters> list = {{.step = 0},
                                      {.step = 0, .repetition = 1},
                                      {.step = 0, .encoding = 1},
                                      {.step = 1, .flags = {kLastInRepetition}},
                                      {.step = 1, .repetition = 1, .flags = {kLastInRepetition}},
                                      {.step = 1, .encoding = 1, .flags = {kLastInRepetition}}};
  const Log log = frames("{until: last_in_repetition}", h, scan(list));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 3}}, {1, {1, 4}}, {2, {2, 5}}}));
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 4}, {1, 5}, {2, 6}}));
}

// The numbers of flags are the standard's, from its own header.
TEST(FramerTest, EveryFlagThatMayEndAFrameDoes) {
  for (const auto& [name, flag] : {std::pair{"last_in_encode_step1", ISMRMRD::ISMRMRD_ACQ_LAST_IN_ENCODE_STEP1},
                                   {"last_in_encode_step2", ISMRMRD::ISMRMRD_ACQ_LAST_IN_ENCODE_STEP2},
                                   {"last_in_average", ISMRMRD::ISMRMRD_ACQ_LAST_IN_AVERAGE},
                                   {"last_in_slice", ISMRMRD::ISMRMRD_ACQ_LAST_IN_SLICE},
                                   {"last_in_contrast", ISMRMRD::ISMRMRD_ACQ_LAST_IN_CONTRAST},
                                   {"last_in_phase", ISMRMRD::ISMRMRD_ACQ_LAST_IN_PHASE},
                                   {"last_in_repetition", ISMRMRD::ISMRMRD_ACQ_LAST_IN_REPETITION},
                                   {"last_in_set", ISMRMRD::ISMRMRD_ACQ_LAST_IN_SET},
                                   {"last_in_segment", ISMRMRD::ISMRMRD_ACQ_LAST_IN_SEGMENT},
                                   {"last_in_measurement", ISMRMRD::ISMRMRD_ACQ_LAST_IN_MEASUREMENT}}) {
    const Log log = frames(fmt::format("{{until: {}}}", name), lines(8),
                           scan({{.step = 0}, {.step = 1, .flags = {static_cast<int>(flag)}}, {.step = 2}}));
    EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 2}, {1, 3}})) << name;
  }
}

TEST(FramerTest, UntilLastInSliceClosesWithLinesMissing) {
  const Log log = frames("{until: last_in_slice}", lines(8),
                         scan({{.step = 0}, {.step = 1, .flags = {kLastInSlice}}, {.step = 2}, {.step = 3}}));
  EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1}}, {1, {2, 3}}}));
  EXPECT_EQ(log.open_at.at(0), 2u);
}

TEST(FramerTest, FixedNumbersOfReadouts) {
  std::vector<Counters> list;
  for (int i = 0; i < 11; ++i) list.push_back({.step = i % 4, .repetition = i / 4});
  const auto h = header({.encoded = {8, 8, 1}, .trajectory = "goldenangle"});
  const Log plain = frames("{readouts: 5}", h, scan(list));
  // Readouts are handed on as they come, also the one left over, whose frame never ends.
  EXPECT_EQ(plain.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1, 2, 3, 4}}, {1, {5, 6, 7, 8, 9}}, {2, {10}}}));
  EXPECT_EQ(plain.closed, (Numbers{0, 1}));
  EXPECT_EQ(plain.order.size(), 11u);
  EXPECT_EQ(plain.open_at, (std::map<int, std::size_t>{{0, 5}, {1, 10}}));
  ASSERT_EQ(plain.warnings.size(), 1u);
  EXPECT_EQ(plain.warnings[0], "the last 1 readouts do not make a whole frame and are left out");

  const Log sliding = frames("{readouts: 5, stride: 2}", h, scan(list));
  EXPECT_EQ(sliding.frames,
            (std::map<std::uint64_t, Numbers>{
                {0, {0, 1, 2, 3, 4}}, {1, {2, 3, 4, 5, 6}}, {2, {4, 5, 6, 7, 8}}, {3, {6, 7, 8, 9, 10}}}));
  EXPECT_EQ(sliding.open_at, (std::map<int, std::size_t>{{0, 5}, {1, 7}, {2, 9}, {3, 11}}));
  EXPECT_TRUE(sliding.warnings.empty());
  EXPECT_EQ(sliding.keys.at(3).repetition, 2);
}

// A window that moves gets each new readout once, and the last one by itself, however the scan came.
TEST(FramerTest, WindowsThatMoveTakeWhatIsNew) {
  const auto h = header({.encoded = {8, 8, 1}, .trajectory = "goldenangle"});
  std::vector<Counters> list;
  for (int i = 0; i < 12; ++i) list.push_back({.step = i % 4, .repetition = i / 4});
  for (const std::size_t batch : {1u, 2u, 3u, 12u}) {
    const Log log = frames("{readouts: 5, stride: 3}", h, scan(list), batch, End::complete, true);
    EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {0, 1, 2, 3, 4}}, {1, {5, 6, 7}}, {2, {8, 9, 10}}}));
    EXPECT_EQ(log.began, (std::map<int, int>{{0, 0}, {1, 3}, {2, 6}}));
    EXPECT_EQ(log.order, (std::vector<std::string>{"0", "0", "1", "1", "2", "2"}));
    EXPECT_EQ(log.keys.at(1).repetition, 1);
    EXPECT_EQ(log.keys.at(2).repetition, 2);
    ASSERT_EQ(log.warnings.size(), 1u);
    EXPECT_EQ(log.warnings[0], "the last 1 readouts do not make a whole frame and are left out");
    const Log each = frames("{readouts: 3, stride: 1}", h, scan(list), batch, End::complete, true);
    EXPECT_EQ(each.frames.size(), 10u);
    EXPECT_EQ(each.frames.at(9), Numbers{11});
    EXPECT_EQ(each.began.at(9), 9);
  }
}

TEST(FramerTest, WindowsOfSlicesAreSeparate) {
  std::vector<Counters> list;
  for (int i = 0; i < 6; ++i)
    for (int slice = 0; slice < 2; ++slice) list.push_back({.step = i, .slice = slice});
  const auto h = header({.encoded = {8, 8, 1}, .trajectory = "goldenangle"});
  const Log log = frames("{readouts: 3}", h, scan(list));
  EXPECT_EQ(log.frames,
            (std::map<std::uint64_t, Numbers>{{0, {0, 2, 4}}, {1, {1, 3, 5}}, {2, {6, 8, 10}}, {3, {7, 9, 11}}}));
}

TEST(FramerTest, OtherKindsAreSeparatedAndNothingOvertakes) {
  const std::vector<Counters> list = {{.flags = {kNoise}},
                                      {.flags = {kNoise}},
                                      {.step = 0},
                                      {.flags = {kNavigator}},
                                      {.step = 1},
                                      {.flags = {kCalibration}},
                                      {.step = 1, .flags = {kCalibration}},
                                      {.flags = {kNoise}},
                                      {.step = 2},
                                      {.step = 3, .flags = {kLastInSlice}}};
  for (const std::size_t batch : {1u, 3u, 100u}) {
    const Log log = frames("auto", lines(4), scan(list), batch);
    EXPECT_EQ(log.frames, (std::map<std::uint64_t, Numbers>{{0, {2, 4, 8, 9}}})) << batch;
    std::string order;  // equal neighbours appear once, as batches may be cut anywhere
    for (std::size_t i = 0; i < log.order.size(); ++i)
      if (i == 0 || log.order[i] != log.order[i - 1]) order += log.order[i] + " ";
    EXPECT_EQ(order, "other 0 other 0 other 0 ") << batch;
    Numbers noise, navigator, calibration;
    for (const auto& [kind, numbers] : log.others) {
      auto& to = kind == protocol::ReadoutKind::noise       ? noise
                 : kind == protocol::ReadoutKind::navigator ? navigator
                                                            : calibration;
      to.insert(to.end(), numbers.begin(), numbers.end());
    }
    EXPECT_EQ(noise, (Numbers{0, 1, 7}));
    EXPECT_EQ(navigator, (Numbers{3}));
    EXPECT_EQ(calibration, (Numbers{5, 6}));
  }
}

/// The numbers of readouts in each batch that a framer hands on.
struct Batches {
  explicit Batches(const std::string& rule)
      : compute(Backend::cpu, test_resources()),
        scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {}),
        framer(config::read_pipeline(yaml("  - x\n", "frame: " + rule + "\n"), "p.yaml").frame) {
    framer.start(lines(1000), scan);
  }
  void push_lines(const Numbers& lines, std::int64_t waiting, int flag = 0) {
    std::vector<Counters> list;
    for (const int line : lines)
      list.push_back({.step = line, .flags = flag > 0 ? std::vector{flag} : std::vector<int>()});
    push(testing::scan(list), waiting);
  }
  void push(std::vector<Acquisition> list, std::int64_t waiting) { framer.push(std::move(list), take, waiting); }

  std::vector<Numbers> batches;
  const Framer::EmitReadouts take = [this](Readouts&& readouts) {
    Numbers& numbers = batches.emplace_back();
    for (const auto& head : readouts.heads) numbers.push_back(static_cast<int>(head.idx.kspace_encode_step_1));
  };
  numerics::Context compute;
  Scan scan;
  Framer framer;
};

TEST(FramerTest, ReadoutsWaitForThoseThatAreOnTheirWay) {
  Batches log("auto");
  log.push_lines({0, 1, 2}, 5);
  log.push_lines({3, 4}, 3);
  EXPECT_EQ(log.batches, std::vector<Numbers>{});
  log.push_lines({5}, 0);
  EXPECT_EQ(log.batches, (std::vector<Numbers>{{0, 1, 2, 3, 4, 5}}));
  log.push_lines({6}, 1);
  log.push_lines({7}, 0, kNoise);  // others never overtake them
  EXPECT_EQ(log.batches, (std::vector<Numbers>{{0, 1, 2, 3, 4, 5}, {6}, {7}}));
  log.push_lines({8}, 1);
  log.framer.flush(log.take);
  log.framer.flush(log.take);
  EXPECT_EQ(log.batches.size(), 4u);
  log.push_lines({9}, 1);
  log.push_lines({}, 0);  // all of a batch was left out
  EXPECT_EQ(log.batches.size(), 5u);
  log.push_lines({10}, 1);
  log.framer.finish(End::complete, log.take);
  EXPECT_EQ(log.batches.back(), Numbers{10});
}

// They keep memory of the wire.
TEST(FramerTest, FewReadoutsWait) {
  Batches log("auto");
  for (int line = 0; line < 8; ++line) log.push_lines({line}, 100);
  EXPECT_EQ(log.batches, (std::vector<Numbers>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  auto large = readout(16, std::vector<cfloat>(std::size_t{1} << 17));  // 1 MiB
  large.head.idx.kspace_encode_step_1 = 8;
  log.push({large}, 100);
  EXPECT_EQ(log.batches.size(), 3u);
}

TEST(FramerTest, NoneWaitsWhereFramesMayBeLeftOut) {
  Batches log("{readouts: 4, when_behind: drop_oldest}");
  log.push_lines({0, 1, 2}, 1);
  EXPECT_EQ(log.batches.size(), 1u);
}

TEST(FramerTest, AWholeFrameEndsWhenTheScanGoesOnInOneThatIsOpen) {
  const Log log = frames("auto", lines(2),
                         scan({{.step = 0},
                               {.step = 0, .contrast = 1},
                               {.step = 1},
                               {.step = 0, .contrast = 1, .average = 1},
                               {.step = 1, .contrast = 1}}));
  EXPECT_EQ(log.open_at.at(0), 4u);
}

TEST(FramerTest, SpecialReadoutsOfDifferentShapesAreNotPutTogether) {
  auto list = scan({{.flags = {kNavigator}}, {.flags = {kNavigator}}});
  const std::uint32_t counter = list[1].head.scan_counter;
  list[1] = readout(1, {cfloat(1, 0)}, std::vector<float>(3, 0.25f));  // three trajectory dimensions
  list[1].head.scan_counter = counter;
  set_flag(list[1], kNavigator);
  EXPECT_EQ(frames("auto", lines(4), list, 100).others.size(), 2u);
}

TEST(FramerTest, ATruncatedScanDropsWhatIsNotWhole) {
  const std::vector<Counters> list = {
      {.step = 0}, {.step = 1, .flags = {kLastInSlice}}, {.step = 0, .slice = 1}, {.step = 0, .slice = 2}};
  const Log log = frames("auto", lines(2), scan(list), 1, End::truncated);
  EXPECT_EQ(log.closed, Numbers{0});
  ASSERT_EQ(log.warnings.size(), 1u);
  EXPECT_EQ(log.warnings[0], "2 unfinished frame(s) dropped: the scan ended before they were whole");
  const Log whole = frames("auto", lines(2), scan(list), 1, End::complete);
  EXPECT_EQ(whole.closed, (Numbers{0, 1, 2}));
  EXPECT_TRUE(whole.warnings.empty());

  const Log windows = frames("{readouts: 3}", lines(2), scan(list), 1, End::truncated);
  EXPECT_EQ(windows.closed, Numbers{});
  EXPECT_EQ(windows.warnings.size(), 1u);
}

/// A framer for one rule, with a budget, whose output is dropped.
struct Budgeted {
  Budgeted(const std::string& rule, std::uint64_t bytes)
      : compute(Backend::cpu, test_resources(), {.memory_budget = bytes}),
        scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {}),
        framer(config::read_pipeline(yaml("  - x\n", "frame: " + rule + "\n"), "p.yaml").frame) {
    framer.start(header({.encoded = {64, 64, 1}, .trajectory = "goldenangle"}), scan);
  }
  void push(Acquisition readout) {
    std::vector<Acquisition> batch;
    batch.push_back(std::move(readout));
    framer.push(std::move(batch), [](Readouts&&) {});
  }

  numerics::Context compute;
  Scan scan;
  Framer framer;
};

TEST(FramerMemoryTest, AWindowCountsAgainstTheBudgetAndGrowsWithWhatComes) {
  constexpr std::uint64_t kBudget = 8 << 20;
  constexpr std::uint64_t kReadout = 340 + 1000 * 8 + 1000 * 2 * 4;
  Budgeted budgeted("{readouts: 2000000000, stride: 1}", kBudget);
  const Acquisition one = readout(1, std::vector<cfloat>(1000), std::vector<float>(2000));
  std::uint64_t came = 0;
  const auto fill = [&] {
    for (; came < 2 * kBudget / kReadout; ++came) budgeted.push(one);
  };
  EXPECT_THROW(fill(), ResourceError);
  EXPECT_LE(came * kReadout, kBudget);
  EXPECT_GE(came * kReadout, kBudget - (2 << 20));  // chunks of 1 MiB
  EXPECT_GE(budgeted.compute.peak_bytes(), came * kReadout);
  EXPECT_LE(budgeted.compute.peak_bytes(), kBudget);
  budgeted.framer.finish(End::truncated, [](Readouts&&) {});
  EXPECT_EQ(budgeted.compute.bytes_in_use(), 0u);
}

TEST(FramerMemoryTest, NothingOfTheWireIsHeldBetweenBatches) {
  for (const std::string rule : {"{readouts: 100}", "{readouts: 3, stride: 1}", "auto", "{until: last_in_slice}"}) {
    Budgeted budgeted(rule, 1 << 20);
    Acquisition one = readout(1, std::vector<cfloat>(8), std::vector<float>(16));
    const std::weak_ptr<const void> data = one.data.owner, trajectory = one.trajectory.owner;
    budgeted.push(std::move(one));
    EXPECT_TRUE(data.expired() && trajectory.expired()) << rule;
  }
}

TEST(FramerMemoryTest, LinesOfAnOpenFrameCountAgainstTheBudget) {
  // Readouts of one sample are given away at once; only the numbers of lines that have come stay.
  Budgeted budgeted("auto", 1 << 20);
  const auto fill = [&] {
    for (int i = 0; i < 1 << 17; ++i) {
      Acquisition one = readout(1, {cfloat(1, 0)}, {0, 0});
      one.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
      one.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(i >> 16);
      budgeted.push(std::move(one));
    }
  };
  EXPECT_THROW(fill(), ResourceError);
}

TEST(FramerMemoryTest, ASlidingWindowOfLargeReadoutsHoldsOneWindow) {
  // A window takes 1.9 MiB in several chunks; only the copy that is given away comes on top.
  constexpr int kReadouts = 120, kLength = 1000;
  constexpr std::uint64_t kWindow = kReadouts * (340 + kLength * 16);
  Budgeted budgeted(fmt::format("{{readouts: {}, stride: 7}}", kReadouts), 64 << 20);
  std::uint64_t frames = 0;
  int first = 0, expected = 0;
  const auto check = [&](Readouts&& batch) {
    if (batch.first) {
      first = static_cast<int>(7 * frames++);
      expected = first;
    }
    for (std::size_t i = 0; i < batch.heads.size(); ++i, ++expected) {
      const auto n = static_cast<std::int64_t>(i);
      ASSERT_EQ(+batch.heads[i].scan_counter, static_cast<std::uint32_t>(expected));
      for (const std::int64_t sample : {0, kLength - 1}) {
        ASSERT_EQ(batch.data.data()[n * kLength + sample], cfloat(static_cast<float>(expected), 1));
        ASSERT_EQ(batch.trajectory.data()[(n * kLength + sample) * 2], static_cast<float>(expected));
      }
    }
    // A gadget may write to what it gets; the next window must not see it.
    std::fill_n(batch.data.data(), batch.data.size(), cfloat(-1, -1));
    std::fill_n(batch.trajectory.data(), batch.trajectory.size(), -1.0f);
    if (batch.last) {
      EXPECT_EQ(expected, first + kReadouts);
    }
  };
  for (int i = 0; i < 400; ++i) {
    const auto value = static_cast<float>(i);
    auto one = readout(1, std::vector<cfloat>(kLength, {value, 1}), std::vector<float>(2 * kLength, value));
    one.head.scan_counter = static_cast<std::uint32_t>(i);
    std::vector<Acquisition> batch;
    batch.push_back(std::move(one));
    budgeted.framer.push(std::move(batch), check);
  }
  EXPECT_EQ(frames, 1u + (400 - kReadouts) / 7);
  EXPECT_LE(budgeted.compute.peak_bytes(), 2 * kWindow + (2 << 20));
}

}  // namespace
}  // namespace echotrain::testing
