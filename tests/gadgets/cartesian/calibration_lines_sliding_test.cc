// Blocks of calibration from frames whose lines move (TGRAPPA), and the frames that wait for them.
#include "gadgets/cartesian/calibration_lines.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr int kRows = 18;

protocol::Header moving_lines(int r, const std::string& mode = "interleaved", const std::string& limits = "") {
  HeaderSpec spec{.encoded = {8, kRows, 1}, .limits = step_limit(kRows) + limits};
  spec.parallel = fmt::format(
      "<accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1><kspace_encoding_step_2>1"
      "</kspace_encoding_step_2></accelerationFactor><calibrationMode>{}</calibrationMode>",
      r, mode);
  return header(spec);
}

/// A readout of two coils with random samples.
Acquisition moving_line(std::mt19937& random, int y, int repetition, int flag = 0) {
  Acquisition out = readout(2, noise(16, random));
  out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
  out.head.idx.repetition = static_cast<std::uint16_t>(repetition);
  if (flag != 0) set_flag(out, flag);
  return out;
}

/// Every r-th line of each repetition, which begins with line origins[repetition].
std::vector<Acquisition> moving_scan(std::mt19937& random, int r, const std::vector<int>& origins) {
  std::vector<Acquisition> scan;
  for (std::size_t i = 0; i < origins.size(); ++i) {
    for (int y = origins[i]; y < kRows; y += r) scan.push_back(moving_line(random, y, static_cast<int>(i)));
    set_flag(scan.back(), kLastInSlice);
  }
  return scan;
}

struct Slid {
  std::vector<int> repetitions;     ///< of frames, in the order in which they were given
  std::vector<std::string> blocks;  ///< "sliding 18 x 8 #0", of each frame
  std::vector<std::vector<cfloat>> data;
  Outcome out;
};

class SlidingCalibrationTest : public OnEachBackend {
 protected:
  Slid slid(const protocol::Header& h, const std::vector<Acquisition>& scan, const std::string& chosen,
            const RunOptions& chosen_run) const {
    Slid result;
    RunOptions options = chosen_run;
    options.tap = "cartesian_kspace";
    options.on_item = [&](const Item& item, numerics::Context& compute) {
      const auto& kspace = std::get<KSpace>(item);
      const auto& notes = kspace.frame->notes;
      result.repetitions.push_back(kspace.frame->key.repetition);
      const auto id = notes.find("calibration_id"), name = notes.find("calibration");
      result.blocks.push_back((name == notes.end() ? "(none)" : name->second) +
                              (id == notes.end() ? "" : " #" + id->second));
      EXPECT_EQ(kspace.calibration != nullptr, id != notes.end());
      result.data.push_back(kspace.calibration ? elements(compute, kspace.calibration->data) : std::vector<cfloat>{});
    };
    result.out = run(yaml("  - cartesian_kspace: {" + chosen + "}\n  - fft: {direction: forward}\n  - image\n"), h,
                     scan, options);
    return result;
  }
  /// The same for every split into batches.
  Slid any_split(const protocol::Header& h, const std::vector<Acquisition>& scan,
                 const std::string& chosen = "") const {
    Slid whole = slid(h, scan, chosen, here());
    for (const std::size_t n : {1u, 2u, 5u}) {
      RunOptions options = here();
      options.split = [n](std::size_t) { return n; };
      const Slid some = slid(h, scan, chosen, options);
      EXPECT_EQ(some.repetitions, whole.repetitions) << n;
      EXPECT_EQ(some.blocks, whole.blocks) << n;
      EXPECT_EQ(some.data, whole.data) << n;
    }
    return whole;
  }
};

/// Lines [first, last) as a block [coil, row, x]: the newest of each among the repetitions up to `until`.
std::vector<cfloat> newest_lines(const std::vector<Acquisition>& scan, int until, int first = 0, int last = kRows) {
  std::vector<cfloat> out(static_cast<std::size_t>(2 * (last - first) * 8));
  for (const Acquisition& a : scan) {
    const int y = a.head.idx.kspace_encode_step_1;
    if (a.head.idx.repetition > until || y < first || y >= last) continue;
    const auto data = pixels<cfloat>({.pixels = a.data});
    for (int coil = 0; coil < 2; ++coil)
      std::copy_n(data.begin() + coil * 8, 8, out.begin() + (coil * (last - first) + y - first) * 8);
  }
  return out;
}

/// The mean of each line over the repetitions up to `until`: [coil, row, x].
std::vector<cfloat> mean_lines(const std::vector<Acquisition>& scan, int until, int first, int last) {
  const std::int64_t rows = last - first;
  std::vector<cdouble> sum(static_cast<std::size_t>(2 * rows * 8));
  std::vector<double> count(static_cast<std::size_t>(rows));
  for (const Acquisition& a : scan) {
    const int y = a.head.idx.kspace_encode_step_1;
    if (a.head.idx.repetition > until || y < first || y >= last) continue;
    const auto data = pixels<cfloat>({.pixels = a.data});
    for (int i = 0; i < 16; ++i)
      sum[static_cast<std::size_t>(((i / 8) * rows + y - first) * 8 + i % 8)] += data[static_cast<std::size_t>(i)];
    ++count[static_cast<std::size_t>(y - first)];
  }
  std::vector<cfloat> out;
  for (std::size_t i = 0; i < sum.size(); ++i) out.emplace_back(sum[i] / count[i / 8 % static_cast<std::size_t>(rows)]);
  return out;
}

void expect_close(const std::vector<cfloat>& got, const std::vector<cfloat>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_LT(std::abs(got[i] - want[i]), 1e-6f * 3) << i;  // of about 1
}

TEST_P(SlidingCalibrationTest, AnAverageTakesAllFramesUntilNoLineIsMissing) {
  std::mt19937 random(71);
  // Lines 4 and 5 are missing in the third frame, so a fourth and fifth one are waited for; line 0 comes twice.
  auto scan = moving_scan(random, 3, {0, 2, 1, 0, 1, 2});
  std::erase_if(
      scan, [](const Acquisition& a) { return a.head.idx.repetition == 2 && a.head.idx.kspace_encode_step_1 == 4; });
  const Slid got = any_split(moving_lines(3), scan, "calibration: average");
  EXPECT_EQ(got.repetitions, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(got.blocks, std::vector<std::string>(6, "sliding 18 x 8 #0"));
  for (const auto& data : got.data) expect_close(data, mean_lines(scan, 4, 0, kRows));
}

TEST_P(SlidingCalibrationTest, AnAverageIsNotMadeAnew) {
  std::mt19937 random(73);
  const auto scan = moving_scan(random, 3, {0, 1, 2, 0, 1, 2, 0, 1, 2});
  EXPECT_EQ(any_split(moving_lines(3), scan, "calibration: average, refresh: 2").blocks,
            std::vector<std::string>(9, "sliding 18 x 8 #0"));
}

TEST_P(SlidingCalibrationTest, AnAverageOfReferenceLinesWaitsForTheirGaps) {
  std::mt19937 random(72);
  // Reference lines 4 to 13, R = 2; the first frame lacks line 9, the second has it.
  std::vector<Acquisition> scan;
  for (const int repetition : {0, 1, 2}) {
    for (int y = 0; y < kRows; ++y) {
      const bool reference = y >= 4 && y < 14;
      if ((!reference && y % 2 == 1) || (repetition == 0 && y == 9)) continue;
      scan.push_back(moving_line(random, y, repetition, reference ? (y % 2 == 0 ? 21 : 20) : 0));
    }
    set_flag(scan.back(), kLastInSlice);
  }
  const Slid got = any_split(moving_lines(2, "embedded"), scan, "calibration: average");
  EXPECT_EQ(got.blocks, std::vector<std::string>(3, "sliding 11 x 8 #0"));  // line 14 is next to them
  for (const auto& data : got.data) expect_close(data, mean_lines(scan, 1, 4, 15));
}

TEST_P(SlidingCalibrationTest, AnAverageEndsWithTheScan) {
  std::mt19937 random(73);
  const auto scan = moving_scan(random, 3, {0, 1, 0});  // every third line never comes
  const Slid got = any_split(moving_lines(3), scan, "calibration: average");
  EXPECT_EQ(got.blocks, std::vector<std::string>(3, "sliding 2 x 8 #0"));  // rows 9 and 10
}

TEST_P(SlidingCalibrationTest, TheFirstFramesWaitForTheirBlock) {
  std::mt19937 random(61);
  const auto scan = moving_scan(random, 3, {0, 1, 2, 0, 1});
  for (const auto& [h, chosen] : {std::pair{moving_lines(3), ""}, {moving_lines(3, "other"), "calibration: sliding"}}) {
    const Slid got = any_split(h, scan, chosen);
    EXPECT_EQ(got.repetitions, (std::vector<int>{0, 1, 2, 3, 4}));
    EXPECT_EQ(got.blocks, std::vector<std::string>(5, "sliding 18 x 8 #0"));
    for (const auto& data : got.data) EXPECT_EQ(data, newest_lines(scan, 2));
    EXPECT_EQ(got.out.images.size(), 5u);
    EXPECT_EQ(got.out.warned("sliding"), 0);
  }
  EXPECT_EQ(any_split(moving_lines(3), scan, "calibration_lines: 8").blocks,
            std::vector<std::string>(5, "sliding 8 x 8 #0"));
  EXPECT_EQ(any_split(moving_lines(3), scan, "calibration: none").blocks, std::vector<std::string>(5, "(none)"));
}

TEST_P(SlidingCalibrationTest, IsRefreshedWithTheNewestLines) {
  // The frame in which a block is made anew is the first to have it; a line that comes twice is averaged.
  std::mt19937 random(62);
  auto scan = moving_scan(random, 2, {1, 0, 1, 0, 1, 0});
  const Slid got = any_split(moving_lines(2), scan, "refresh: 2");
  EXPECT_EQ(got.repetitions, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  const std::vector<int> id = {0, 0, 0, 1, 1, 2};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(got.blocks.at(i), fmt::format("sliding 18 x 8 #{}", id[i]));
    EXPECT_EQ(got.data.at(i), newest_lines(scan, 1 + 2 * id[i]));
  }

  std::vector<Acquisition> twice = moving_scan(random, 2, {1, 0});
  const std::vector<cfloat> once = newest_lines(twice, 1);
  twice.insert(twice.begin(), moving_line(random, 9, 0));
  const auto more = pixels<cfloat>({.pixels = twice[0].data});
  auto want = once;
  for (std::size_t coil = 0; coil < 2; ++coil)
    for (std::size_t x = 0; x < 8; ++x) {
      cfloat& at = want[(coil * kRows + 9) * 8 + x];
      at = (at + more[coil * 8 + x]) * 0.5f;
    }
  EXPECT_LT(nrmse(any_split(moving_lines(2), twice).data.at(0), want), 1e-7);
}

TEST_P(SlidingCalibrationTest, LinesThatDoNotMoveAreToldOf) {
  // Frames wait for at most twice the number of frames that make a block, and no longer than the scan lasts.
  std::mt19937 random(63);
  const Slid still = any_split(moving_lines(3), moving_scan(random, 3, std::vector<int>(8, 0)));
  EXPECT_EQ(still.out.images.size(), 8u);
  EXPECT_EQ(still.blocks, std::vector<std::string>(8, "sliding 1 x 8 #0"));
  EXPECT_EQ(still.out.warned("a sliding calibration of slice 0 needs 3 frames (R=3x1) whose lines lie between one "
                             "another, but 1 of 6 brought new lines: it has 1 rows; choose `calibration: embedded`"),
            1);
  const Slid few = any_split(moving_lines(3), moving_scan(random, 3, {0, 1}));
  EXPECT_EQ(few.blocks, std::vector<std::string>(2, "sliding 2 x 8 #0"));  // rows 9 and 10
  EXPECT_EQ(few.out.warned("but 2 of 2 brought new lines: it has 2 rows"), 1);

  RunOptions cut = here();
  cut.end = End::truncated;
  const Slid lost = slid(moving_lines(3), moving_scan(random, 3, {0, 1}), "", cut);
  EXPECT_EQ(lost.out.images.size(), 0u);
  EXPECT_EQ(lost.out.warned("2 frame(s) dropped: the scan ended before their calibration was whole"), 1);
}

TEST_P(SlidingCalibrationTest, PhasesMoveTogether) {
  // Three phases of each repetition have the same lines, and all wait for the second repetition.
  std::mt19937 random(64);
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (int phase = 0; phase < 3; ++phase) {
      for (int y = repetition % 2; y < kRows; y += 2) {
        scan.push_back(moving_line(random, y, repetition));
        scan.back().head.idx.phase = static_cast<std::uint16_t>(phase);
      }
      set_flag(scan.back(), kLastInSlice);
    }
  const Slid got = any_split(moving_lines(2, "interleaved", limit("phase", 0, 2, 0)), scan);
  EXPECT_EQ(got.blocks, std::vector<std::string>(9, "sliding 18 x 8 #0"));
  std::vector<Acquisition> used(scan.begin(), scan.begin() + 36);
  EXPECT_EQ(got.data.at(0), newest_lines(used, 1));
  EXPECT_EQ(got.out.warned("sliding"), 0);
}

TEST_P(SlidingCalibrationTest, ReferenceLinesOfTheFirstFrameGoBefore) {
  std::mt19937 random(65);
  auto scan = moving_scan(random, 2, {0, 1, 0});
  for (const int y : {7, 9, 11}) scan.insert(scan.begin() + 4, moving_line(random, y, 0, kCalibrationAndImaging));
  const Slid got = any_split(moving_lines(2), scan);
  EXPECT_EQ(got.blocks, std::vector<std::string>(3, "embedded 7 x 8 #0"));
  EXPECT_EQ(got.data.at(0), newest_lines(scan, 0, 6, 13));
  EXPECT_EQ(any_split(moving_lines(2), scan, "calibration: sliding").blocks,
            std::vector<std::string>(3, "sliding 18 x 8 #0"));
}

TEST_P(SlidingCalibrationTest, LinesThatAreAllReferencesMoveToo) {
  // One frame of such lines is no block without gaps.
  std::mt19937 random(67);
  auto scan = moving_scan(random, 3, {0, 2, 1, 0});
  for (Acquisition& line : scan) set_flag(line, kCalibrationAndImaging);
  const Slid got = any_split(moving_lines(3), scan);
  EXPECT_EQ(got.blocks, std::vector<std::string>(4, "sliding 18 x 8 #0"));
  EXPECT_EQ(got.out.warned("reference lines"), 0);
}

TEST_P(SlidingCalibrationTest, PhasesThatNobodyAnnouncesMoveTogether) {
  std::mt19937 random(68);
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int phase = 0; phase < 6; ++phase) {
      for (int y = repetition; y < kRows; y += 2) {
        scan.push_back(moving_line(random, y, repetition));
        scan.back().head.idx.phase = static_cast<std::uint16_t>(phase);
      }
      set_flag(scan.back(), kLastInSlice);
    }
  EXPECT_EQ(any_split(moving_lines(2), scan).blocks, std::vector<std::string>(12, "sliding 18 x 8 #0"));
}

TEST(SlidingBlockTest, FramesOfOtherCountersThanTheirReadoutsHaveNone) {
  numerics::Context compute(Backend::cpu, test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  const protocol::Header h = moving_lines(2);
  CalibrationLines lines;
  lines.start(h, cartesian_spaces(h, scan), {}, scan);
  Frame frame;
  for (std::uint16_t repetition = 0; repetition < 6; ++repetition) {
    frame.reference.idx.repetition = repetition;
    lines.frame_ends(frame);
  }
  lines.scan_ends();
  EXPECT_FALSE(lines.holds(frame.key));
  EXPECT_EQ(lines.of(frame.key), nullptr);
}

TEST_P(SlidingCalibrationTest, OfShiftedPlanes) {
  // Steps of 2 and 2, every other plane a line later: four frames have all lines.
  std::mt19937 random(66);
  HeaderSpec spec{.encoded = {8, 6, 4}};
  spec.limits = step_limit(6) + limit("kspace_encoding_step_2", 0, 3, 2);
  spec.parallel =
      "<accelerationFactor><kspace_encoding_step_1>2</kspace_encoding_step_1><kspace_encoding_step_2>2"
      "</kspace_encoding_step_2></accelerationFactor><calibrationMode>interleaved</calibrationMode>";
  std::vector<Acquisition> scan;
  std::vector<cfloat> want(2 * 24 * 8);
  for (int repetition = 0; repetition < 6; ++repetition) {
    const int y0 = repetition % 2, z0 = repetition / 2 % 2;
    for (int z = z0; z < 4; z += 2)
      for (int y = (y0 + z / 2) % 2; y < 6; y += 2) {
        scan.push_back(moving_line(random, y, repetition));
        scan.back().head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
        const auto data = pixels<cfloat>({.pixels = scan.back().data});
        for (int coil = 0; repetition < 4 && coil < 2; ++coil)
          std::copy_n(data.begin() + coil * 8, 8, want.begin() + (coil * 24 + z * 6 + y) * 8);
      }
    set_flag(scan.back(), kLastInSlice);
  }
  const Slid got = any_split(header(spec), scan);
  EXPECT_EQ(got.blocks, std::vector<std::string>(6, "sliding 4 x 6 x 8 #0"));
  EXPECT_EQ(got.data.at(0), want);
}

ECHOTRAIN_ON_BACKENDS(SlidingCalibrationTest);

TEST(SlidingCoilsTest, MustNotChange) {
  numerics::Context compute(Backend::cpu, test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  std::mt19937 random(67);
  const auto h = moving_lines(2);
  CalibrationLines lines;
  lines.start(h, cartesian_spaces(h, scan), {}, scan);
  const auto frame = [&](int coils, int repetition) {
    Readouts batch;
    batch.heads = {moving_line(random, 8, repetition).head};
    batch.data = compute.zeros<cfloat>({1, coils, 8});
    lines.add(batch);
    Frame ended;
    ended.reference = batch.heads[0];
    lines.frame_ends(ended);
  };
  frame(2, 0);
  EXPECT_EQ(client_error([&] { frame(3, 1); }),
            "readouts of slice 0 come with 2 coils and with 3; coils must not change within a scan");
}

}  // namespace
}  // namespace echotrain::testing
