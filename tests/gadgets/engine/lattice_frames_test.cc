// When a frame of undersampled k-space ends.
#include "gadgets/shared/lattice_count.h"
#include "tests/gadgets/engine/framer_log.h"

namespace echotrain::testing {
namespace {

struct Undersampling {
  int ny = 8, nz = 1, ry = 2, rz = 1;
  std::string mode = "embedded";
  std::string limits;  ///< besides those of the steps
};

protocol::Header accelerated(const Undersampling& u) {
  HeaderSpec spec{.encoded = {8, u.ny, u.nz}};
  spec.limits = step_limit(u.ny) + limit("kspace_encoding_step_2", 0, u.nz - 1, u.nz / 2) + u.limits;
  spec.parallel = fmt::format(
      "<accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1><kspace_encoding_step_2>{}"
      "</kspace_encoding_step_2></accelerationFactor>",
      u.ry, u.rz);
  if (!u.mode.empty()) spec.parallel += "<calibrationMode>" + u.mode + "</calibrationMode>";
  return header(spec);
}

/// The frames and when they ended: the same for every split into batches, but for when within a batch.
Log split_frames(const protocol::Header& h, const std::vector<Counters>& list) {
  Log each = frames("auto", h, scan(list), 1);
  for (const std::size_t batch : {2u, 3u, 7u, 1000u}) {
    const Log log = frames("auto", h, scan(list), batch);
    EXPECT_EQ(log.frames, each.frames) << batch;
    EXPECT_EQ(log.closed, each.closed) << batch;
    EXPECT_EQ(log.others.size() > 0, each.others.size() > 0) << batch;
    EXPECT_EQ(log.late, each.late) << batch;
  }
  return each;
}

/// One repetition of every ry-th line from `origin`, with reference lines `first` to `last` between them.
std::vector<Counters> one_pass(int ny, int ry, int origin, int repetition, int first = 0, int last = -1) {
  std::vector<Counters> out;
  for (int y = 0; y < ny; ++y) {
    const bool on = y % ry == origin, reference = y >= first && y <= last;
    if (!on && !reference) continue;
    out.push_back({.step = y, .repetition = repetition});
    if (reference) out.back().flags.push_back(on ? kCalibrationAndImaging : kCalibration);
  }
  out.back().flags.push_back(kLastInSlice);
  return out;
}

void append(std::vector<Counters>& to, const std::vector<Counters>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

TEST(LatticeFrames, EndWithTheirFlagWhereverTheirLinesBegin) {
  for (const int ry : {2, 3, 4})
    for (int origin = 0; origin < ry; ++origin) {
      SCOPED_TRACE(fmt::format("every {}th line from {}", ry, origin));
      std::vector<Counters> list;
      for (int repetition = 0; repetition < 3; ++repetition) append(list, one_pass(17, ry, origin, repetition));
      const std::size_t each = list.size() / 3;
      const Log log = split_frames(accelerated({.ny = 17, .ry = ry, .mode = "separate"}), list);
      EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, each}, {1, 2 * each}, {2, 3 * each}}));
      EXPECT_EQ(log.late, 0u);
    }
}

TEST(LatticeFrames, AReferenceLineRightBehindItsFrameIsLate) {
  std::vector<Counters> list = one_pass(8, 2, 0, 0);
  list.push_back({.step = 1, .flags = {kCalibrationAndImaging}});
  const Log log = split_frames(accelerated({.mode = "separate"}), list);
  EXPECT_EQ(log.closed, Numbers{0});
  EXPECT_EQ(log.late, 1u);
}

TEST(LatticeFrames, ALineOfTheLatticeThatIsMissingIsWaitedFor) {
  // Sixteen reference lines more than make up for its number, but not for its place.
  std::vector<Counters> list = one_pass(32, 3, 0, 0, 8, 23);
  std::erase_if(list, [](const Counters& c) { return c.step == 27; });
  const std::size_t each = list.size();
  append(list, one_pass(32, 3, 0, 1, 8, 23));
  const Log log = split_frames(accelerated({.ny = 32, .ry = 3}), list);
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, each + 1}, {1, list.size()}}));
}

TEST(LatticeFrames, ReferenceLinesInPlaceBelongToTheFrame) {
  // The band lies inside, or reaches one edge or both of them; its lines off the lattice are images' lines, too, or
  // not.
  for (const auto& [first, last] : std::vector<std::pair<int, int>>{{4, 11}, {0, 7}, {8, 15}, {0, 15}})
    for (const bool also_images : {true, false}) {
      SCOPED_TRACE(fmt::format("lines {} to {}", first, last));
      std::vector<Counters> list;
      for (int repetition = 0; repetition < 2; ++repetition) append(list, one_pass(16, 3, 0, repetition, first, last));
      for (Counters& c : list)
        if (also_images && !c.flags.empty() && c.flags[0] == kCalibration) c.flags[0] = kCalibrationAndImaging;
      const std::size_t each = list.size() / 2;
      const Log log = split_frames(accelerated({.ny = 16, .ry = 3}), list);
      EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, each}, {1, 2 * each}}));
      EXPECT_EQ(log.late, 0u);
      EXPECT_EQ(log.frames.at(0).size() == each, also_images || (first == 0 && last == -1));
    }
}

TEST(LatticeFrames, RepetitionsWithoutReferenceLinesEndWithTheirFlag) {
  std::vector<Counters> list = one_pass(16, 2, 1, 0, 6, 9);
  const std::size_t first = list.size();
  append(list, one_pass(16, 2, 1, 1));
  const Log log = split_frames(accelerated({.ny = 16}), list);
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, first}, {1, first + 8}}));
}

TEST(LatticeFrames, ReferenceLinesNeedNotServeImages) {
  std::vector<Counters> list;
  for (int repetition = 0; repetition < 2; ++repetition) append(list, one_pass(16, 2, 0, repetition, 5, 10));
  for (Counters& c : list) std::erase(c.flags, kCalibrationAndImaging);
  const Log log = split_frames(accelerated({.ny = 16}), list);
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 11}, {1, 22}}));
  EXPECT_EQ(log.frames.at(0).size(), 8u);
}

/// The lattice with its flag, then the band, whose last line has the flag, too, or not.
std::vector<Counters> band_after_flag(int repetition, bool again) {
  std::vector<Counters> out = one_pass(16, 4, 0, repetition);
  for (int y = 5; y <= 10; ++y) out.push_back({.step = y, .repetition = repetition, .flags = {kCalibrationAndImaging}});
  if (again) out.back().flags.push_back(kLastInSlice);
  return out;
}

TEST(LatticeFrames, ReferenceLinesAfterTheFlagBelongToTheFrame) {
  // It ends with the first readout of the next one.
  for (const bool again : {false, true})
    for (const std::string mode : {"embedded", "other", ""}) {
      std::vector<Counters> list;
      for (int repetition = 0; repetition < 3; ++repetition) append(list, band_after_flag(repetition, again));
      const Log log = split_frames(accelerated({.ny = 16, .ry = 4, .mode = mode}), list);
      EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 11}, {1, 21}, {2, 30}})) << mode;
      EXPECT_EQ(log.late, 0u) << mode;
      for (const auto& [id, numbers] : log.frames) EXPECT_EQ(numbers.size(), 10u) << mode;
    }
}

TEST(LatticeFrames, ReferenceLinesAfterTheFlagThatNobodyAnnouncedAreLateOnce) {
  std::vector<Counters> list;
  for (int repetition = 0; repetition < 3; ++repetition) append(list, band_after_flag(repetition, true));
  const Log log = split_frames(accelerated({.ny = 16, .ry = 4, .mode = "separate"}), list);
  EXPECT_EQ(log.late, 6u);
  EXPECT_EQ(log.frames.at(0).size(), 4u);
  EXPECT_EQ(log.frames.at(1).size(), 10u);
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 4}, {1, 21}, {2, 30}}));
}

TEST(LatticeFrames, ReferenceLinesThatAreNoImagesLinesMayFollow) {
  std::vector<Counters> list;
  for (int repetition = 0; repetition < 2; ++repetition) {
    append(list, one_pass(8, 2, 0, repetition));
    list.push_back({.step = 3, .repetition = repetition, .flags = {kCalibration}});
  }
  const Log log = split_frames(accelerated({.ny = 8}), list);
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 6}, {1, 10}}));
}

TEST(LatticeFrames, BothAxesAndShiftedPlanes) {
  struct Case {
    int ry, rz, shift;
  };
  for (const Case& c : {Case{2, 2, 0}, {2, 2, 1}, {1, 3, 0}, {3, 2, 1}, {4, 1, 0}, {2, 3, 1}}) {
    SCOPED_TRACE(fmt::format("R={}x{}, shift {}", c.ry, c.rz, c.shift));
    std::vector<Counters> list;
    for (int repetition = 0; repetition < 2; ++repetition)
      for (int z = 1 % c.rz; z < 7; z += c.rz) {
        for (int y = (z / c.rz * c.shift) % c.ry; y < 9; y += c.ry)
          list.push_back({.step = y, .repetition = repetition, .step_2 = z});
        // The end of a plane is flagged as if it were a slice's, as some senders do.
        list.back().flags = {kLastInSlice};
      }
    const std::size_t each = list.size() / 2;
    const protocol::Header h = accelerated({.ny = 9, .nz = 7, .ry = c.ry, .rz = c.rz, .mode = "separate"});
    EXPECT_EQ(split_frames(h, list).open_at, (std::map<int, std::size_t>{{0, each}, {1, 2 * each}}));

    // Without its corners (elliptic shutter) a frame never seems whole.
    std::erase_if(list, [](const Counters& k) { return std::abs(k.step - 4) == 4 && std::abs(k.step_2 - 3) >= 2; });
    const Log shutter = split_frames(h, list);
    EXPECT_EQ(shutter.frames.size(), 2u);
    EXPECT_EQ(shutter.open_at.at(0), shutter.frames.at(0).size() + 1);
  }
}

TEST(LatticeFrames, AnnouncedAveragesOfEachLineAreWaitedFor) {
  std::vector<Counters> list;
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int average = 0; average < 2; ++average) {
      append(list, one_pass(8, 2, 0, repetition));
      for (std::size_t i = list.size() - 4; i < list.size(); ++i) list[i].average = average;
    }
  const Log log = split_frames(accelerated({.ny = 8, .mode = "separate", .limits = limit("average", 0, 1, 0)}), list);
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 8}, {1, 16}}));
}

TEST(LatticeFrames, RepetitionsThatAreNotCountedAreFramesOfTheirOwn) {
  // Each with its band, which comes first, last, or not at all; or with another origin each time.
  for (const int kind : {0, 1, 2, 3}) {
    SCOPED_TRACE(kind);
    std::vector<Counters> list;
    for (int i = 0; i < 3; ++i) {
      std::vector<Counters> pass = one_pass(12, 3, kind == 3 ? i : 0, 0, 4, kind < 2 ? 8 : -1);
      for (Counters& c : pass)
        for (int& flag : c.flags) flag = flag == kCalibration ? kCalibrationAndImaging : flag;
      if (kind == 1) std::rotate(pass.begin(), pass.begin() + 2, pass.end() - 1);
      append(list, pass);
    }
    const std::size_t each = list.size() / 3;
    const Log log = split_frames(accelerated({.ny = 12, .ry = 3, .mode = kind < 2 ? "embedded" : "interleaved"}), list);
    EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, each}, {1, 2 * each}, {2, 3 * each}}));
    EXPECT_EQ(log.late, 0u);
  }
}

TEST(LatticeFrames, SlicesOfOneRepetitionEndOneByOne) {
  std::vector<Counters> list;
  for (int slice = 0; slice < 3; ++slice) {
    append(list, one_pass(8, 2, 0, 0, 3, 4));
    for (std::size_t i = list.size() - 5; i < list.size(); ++i) list[i].slice = slice;
  }
  const Log log = split_frames(accelerated({.ny = 8}), list);
  EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, 5}, {1, 10}, {2, 15}}));
}

TEST(LatticeFrames, ContrastsTakenInTurnEndTogether) {
  // The flag is on the last readout of all, or on the last one of each contrast; the band reaches the edge.
  for (const bool each_flagged : {false, true})
    for (const auto& [first, last] : std::vector<std::pair<int, int>>{{6, 9}, {12, 15}}) {
      SCOPED_TRACE(fmt::format("lines {} to {}, {}", first, last, each_flagged));
      std::vector<Counters> list;
      for (int repetition = 0; repetition < 2; ++repetition) {
        for (const Counters& c : one_pass(16, 4, 0, repetition, first, last))
          for (int contrast = 0; contrast < 3; ++contrast) {
            list.push_back(c);
            list.back().contrast = contrast;
            if (!each_flagged && contrast < 2) std::erase(list.back().flags, kLastInSlice);
            for (int& flag : list.back().flags) flag = flag == kCalibration ? kCalibrationAndImaging : flag;
          }
      }
      const std::size_t half = list.size() / 2, early = each_flagged ? 1 : 0;
      const Log log = split_frames(accelerated({.ny = 16, .ry = 4}), list);
      EXPECT_EQ(log.open_at, (std::map<int, std::size_t>{{0, half - 2 * early},
                                                         {1, half - early},
                                                         {2, half},
                                                         {3, 2 * half - 2 * early},
                                                         {4, 2 * half - early},
                                                         {5, 2 * half}}));
      EXPECT_EQ(log.closed, (Numbers{0, 1, 2, 3, 4, 5}));
      EXPECT_EQ(log.late, 0u);
      for (const auto& [id, numbers] : log.frames) EXPECT_EQ(numbers.size(), half / 3);
    }
}

// Against the definition: some remainder of step 2 each of whose planes has all lines of some remainder of step 1.
TEST(LatticeCountTest, EqualsItsDefinition) {
  numerics::Context compute(Backend::cpu, test_resources());
  std::mt19937 random(4);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int complete = 0, still = 0;
  for (int trial = 0; trial < 300; ++trial) {
    LineLattice lattice;
    lattice.first = {upto(5), upto(3)};
    lattice.extent = {1 + upto(9), 1 + upto(5)};
    lattice.step = {1 + upto(4), 1 + upto(3)};
    lattice.times = 1 + upto(2);
    if (!lattice.undersampled()) continue;
    LatticeCount count(compute, lattice);
    const std::int64_t ny = lattice.extent[0], nz = lattice.extent[1];
    std::vector<std::array<std::int64_t, 2>> order;
    for (std::int64_t z = 0; z < nz; ++z)
      for (std::int64_t y = 0; y < ny; ++y)
        for (std::int64_t i = 0; i < lattice.times; ++i) order.push_back({y, z});
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::int64_t> came(static_cast<std::size_t>(ny * nz));
    const auto whole = [&] {
      for (std::int64_t rz = 0; rz < lattice.step[1]; ++rz) {
        bool planes = true;
        for (std::int64_t z = rz; z < nz; z += lattice.step[1]) {
          bool any = false;
          for (std::int64_t ry = 0; ry < lattice.step[0]; ++ry) {
            bool all = true;
            for (std::int64_t y = ry; y < ny; y += lattice.step[0])
              all = all && came[static_cast<std::size_t>(z * ny + y)] == lattice.times;
            any = any || all;
          }
          planes = planes && any;
        }
        if (planes) return true;
      }
      return false;
    };
    for (const auto& [y, z] : order) {
      EXPECT_EQ(count.complete(), whole());
      (count.complete() ? complete : still)++;
      count.add(y + lattice.first[0], z + lattice.first[1]);
      ++came[static_cast<std::size_t>(z * ny + y)];
      count.add(lattice.first[0] - 1, lattice.first[1]);  // outside
      count.add(lattice.first[0] + ny, lattice.first[1] + nz);
    }
    EXPECT_TRUE(count.complete());
  }
  EXPECT_GT(complete, 100);
  EXPECT_GT(still, 1000);
}

TEST(LatticeCountTest, StepsThatLeaveNothingOutOrTooMuchAreNoLattice) {
  const auto undersampled = [](std::int64_t ry, std::int64_t rz) {
    return LineLattice{.extent = {64, 8}, .step = {ry, rz}}.undersampled();
  };
  EXPECT_TRUE(undersampled(2, 1) && undersampled(1, 2) && undersampled(16, 8));
  EXPECT_FALSE(undersampled(1, 1) || undersampled(17, 1) || undersampled(2, 9) || undersampled(65535, 1));
}

}  // namespace
}  // namespace echotrain::testing
