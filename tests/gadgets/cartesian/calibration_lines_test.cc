// Blocks of reference lines: of which readouts they are made, where they lie in k-space, and when they are whole.
#include "gadgets/cartesian/calibration_lines.h"

#include <map>
#include <set>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

using Source = Calibration::Source;

struct Reference {
  int y = 0, z = 0, flag = 0;  ///< flag: kCalibration, kCalibrationAndImaging or 0
  int repetition = 0, slice = 0, contrast = 0, set = 0;
};

/// A readout of two coils with random samples.
Acquisition made_readout(const Reference& r, std::mt19937& random, int samples = 8) {
  Acquisition out = readout(2, noise(2 * static_cast<std::size_t>(samples), random));
  out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(r.y);
  out.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(r.z);
  out.head.idx.repetition = static_cast<std::uint16_t>(r.repetition);
  out.head.idx.slice = static_cast<std::uint16_t>(r.slice);
  out.head.idx.contrast = static_cast<std::uint16_t>(r.contrast);
  out.head.idx.set = static_cast<std::uint16_t>(r.set);
  if (r.flag != 0) set_flag(out, r.flag);
  return out;
}

protocol::Header announced(const std::string& mode, int ny = 16, int nz = 1, int ry = 2) {
  HeaderSpec spec{.encoded = {8, ny, nz}};
  spec.limits = step_limit(ny) + limit("kspace_encoding_step_2", 0, nz - 1, nz / 2);
  spec.parallel = fmt::format(
      "<accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1><kspace_encoding_step_2>1"
      "</kspace_encoding_step_2></accelerationFactor>{}",
      ry, mode.empty() ? "" : "<calibrationMode>" + mode + "</calibrationMode>");
  return header(spec);
}

struct Blocks {
  std::vector<FrameKey> frames;                          ///< in the order of their ends
  std::vector<std::shared_ptr<const Calibration>> each;  ///< of these frames
  std::vector<std::vector<cfloat>> data;
  std::vector<std::map<std::string, std::string>> notes;
  Outcome out;
};

/// Returns the blocks that cartesian_kspace gives with each frame, for a split of the scan.
Blocks blocks(const protocol::Header& h, const std::vector<Acquisition>& scan, RunOptions options,
              const std::string& chosen = "") {
  Blocks result;
  options.tap = "cartesian_kspace";
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& kspace = std::get<KSpace>(item);
    result.frames.push_back(kspace.frame->key);
    result.notes.push_back(kspace.frame->notes);
    result.each.push_back(kspace.calibration);
    result.data.push_back(kspace.calibration ? elements(compute, kspace.calibration->data) : std::vector<cfloat>{});
  };
  result.out = run(yaml("  - cartesian_kspace: {" + chosen + "}\n  - fft\n  - image\n"), h, scan, options);
  return result;
}

/// The samples [first, last) of some readouts as a block [coil, row, x].
std::vector<cfloat> as_block(const std::vector<Acquisition>& scan, const std::vector<std::size_t>& rows, int first,
                             int last) {
  std::vector<cfloat> out;
  for (int coil = 0; coil < 2; ++coil)
    for (const std::size_t row : rows) {
      const auto data = pixels<cfloat>({.pixels = scan[row].data});
      const int samples = scan[row].head.number_of_samples;
      out.insert(out.end(), data.begin() + coil * samples + first, data.begin() + coil * samples + last);
    }
  return out;
}

class CalibrationLinesTest : public OnEachBackend {
 protected:
  /// The same for every split into batches.
  Blocks any_split(const protocol::Header& h, const std::vector<Acquisition>& scan,
                   const std::string& chosen = "") const {
    Blocks whole = blocks(h, scan, here(), chosen);
    for (const std::size_t n : {1u, 2u, 5u}) {
      RunOptions options = here();
      options.split = [n](std::size_t) { return n; };
      const Blocks some = blocks(h, scan, options, chosen);
      EXPECT_EQ(some.frames, whole.frames) << n;
      EXPECT_EQ(some.notes, whole.notes) << n;
      EXPECT_EQ(some.data, whole.data) << n;
      for (std::size_t i = 0; i < std::min(some.each.size(), whole.each.size()); ++i) {
        EXPECT_EQ(some.each[i] == nullptr, whole.each[i] == nullptr);
        if (some.each[i] && whole.each[i]) {
          EXPECT_EQ(some.each[i]->source, whole.each[i]->source);
          EXPECT_EQ(some.each[i]->first, whole.each[i]->first);
        }
      }
    }
    return whole;
  }
};

TEST_P(CalibrationLinesTest, EmbeddedLinesOfEachSliceAndSet) {
  // Even lines, and 6 to 10; those between the even ones are no images' lines. The second repetition has others.
  std::mt19937 random(31);
  std::vector<Acquisition> scan;
  std::map<std::array<int, 2>, std::vector<std::size_t>> band;  // of repetition 0, by slice and set
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int slice = 0; slice < 2; ++slice)
      for (int set = 0; set < 2; ++set) {
        for (int y = 0; y < 16; ++y) {
          const bool reference = y >= 6 && y <= 10;
          if (y % 2 == 1 && !reference) continue;
          const int flag = !reference ? 0 : y % 2 == 0 ? kCalibrationAndImaging : kCalibration;
          if (repetition == 0 && reference) band[{slice, set}].push_back(scan.size());
          scan.push_back(made_readout({y, 0, flag, repetition, slice, 0, set}, random));
        }
        set_flag(scan.back(), kLastInSlice);
      }
  const Blocks got = any_split(announced("embedded"), scan);
  ASSERT_EQ(got.each.size(), 8u);
  std::set<std::uint64_t> ids;
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(got.each[i]);
    const Calibration& block = *got.each[i];
    ids.insert(block.id);
    EXPECT_EQ(block.source, Source::embedded);
    EXPECT_EQ(block.data.shape(), (numerics::Shape{2, 1, 5, 8}));
    EXPECT_EQ(block.first, (std::array<std::int64_t, 3>{0, 6, 0}));
    EXPECT_EQ(block.matrix, (std::array<std::int64_t, 3>{8, 16, 1}));
    const FrameKey& key = got.frames[i];
    EXPECT_EQ(block.key, (FrameKey{.slice = key.slice, .set = key.set}));
    EXPECT_EQ(got.data[i], as_block(scan, band.at({key.slice, key.set}), 0, 8));
  }
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(got.out.said(protocol::Level::info, "not used for images"), 0);  // lines 7 and 9 are (AcsReinsertion)
  EXPECT_EQ(blocks(announced(""), scan, here()).out.said(protocol::Level::info, "not used for images"), 1);
}

TEST_P(CalibrationLinesTest, SeparateLinesAreNotMixedWithImaging) {
  std::mt19937 random(32);
  std::vector<Acquisition> scan;
  std::vector<std::vector<std::size_t>> band(2);
  for (int slice = 0; slice < 2; ++slice)
    for (int y = 5; y < 11; ++y) {
      band[static_cast<std::size_t>(slice)].push_back(scan.size());
      scan.push_back(made_readout({y, 0, kCalibration, 0, slice}, random));
    }
  for (int slice = 0; slice < 2; ++slice)
    for (int contrast = 0; contrast < 2; ++contrast)  // a contrast without lines of its own takes the slice's
      for (int y = 0; y < 16; y += 2) scan.push_back(made_readout({y, 0, 0, 0, slice, contrast}, random));
  const Blocks got = any_split(announced("separate"), scan);
  ASSERT_EQ(got.each.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(got.each[i]);
    EXPECT_EQ(got.each[i]->source, Source::separate);
    EXPECT_EQ(got.each[i]->first, (std::array<std::int64_t, 3>{0, 5, 0}));
    EXPECT_EQ(got.data[i], as_block(scan, band[got.frames[i].slice], 0, 8));
  }
}

TEST_P(CalibrationLinesTest, WithoutFlagsTheFullMiddleOfAnAcceleratedFrame) {
  std::mt19937 random(33);
  std::vector<Acquisition> scan;
  for (const int y : {0, 3, 6, 7, 8, 9, 12, 15}) scan.push_back(made_readout({.y = y}, random));
  const Blocks got = any_split(announced("", 16, 1, 3), scan);
  ASSERT_TRUE(got.each.at(0));
  EXPECT_EQ(got.each[0]->source, Source::center);
  EXPECT_EQ(got.each[0]->first, (std::array<std::int64_t, 3>{0, 6, 0}));
  EXPECT_EQ(got.data[0], as_block(scan, {2, 3, 4, 5}, 0, 8));
  EXPECT_EQ(got.out.said(protocol::Level::info, "not used for images"), 0);
  EXPECT_EQ(blocks(announced("", 16, 1, 1), scan, here()).each.at(0), nullptr);  // no scan for it
}

TEST_P(CalibrationLinesTest, PartialEchoesAndAverages) {
  // Six samples of eight, the centre the third, from k = 2 on; one line comes twice.
  std::mt19937 random(34);
  std::vector<Acquisition> scan;
  for (const int y : {6, 7, 8, 8, 9}) {
    scan.push_back(made_readout({y, 0, kCalibrationAndImaging}, random, 6));
    scan.back().head.center_sample = 2;
  }
  scan[3].head.idx.average = 1;
  const Blocks got = any_split(announced("embedded"), scan);
  ASSERT_TRUE(got.each.at(0));
  EXPECT_EQ(got.each[0]->data.shape(), (numerics::Shape{2, 1, 4, 6}));
  EXPECT_EQ(got.each[0]->first, (std::array<std::int64_t, 3>{2, 6, 0}));
  auto want = as_block(scan, {0, 1, 2, 4}, 0, 6);
  const auto again = as_block(scan, {0, 1, 3, 4}, 0, 6);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = (want[i] + again[i]) * 0.5f;
  EXPECT_LT(nrmse(got.data[0], want), 1e-6);
}

TEST_P(CalibrationLinesTest, LinesWithOtherEchoesThanTheImages) {
  // Lines of the image have all eight samples; the others the last six of them, or six from the second on.
  std::mt19937 random(43);
  std::vector<Acquisition> scan;
  for (int y = 0; y < 16; y += 2) scan.push_back(made_readout({y, 0, y == 8 ? kCalibrationAndImaging : 0}, random));
  scan.push_back(made_readout({7, 0, kCalibration}, random, 6));
  scan.back().head.center_sample = 2;
  scan.push_back(made_readout({9, 0, kCalibration}, random, 6));
  scan.back().head.center_sample = 3;
  const Blocks got = any_split(announced("embedded"), scan);
  ASSERT_TRUE(got.each.at(0));
  EXPECT_EQ(got.notes[0].at("calibration"), "embedded 5 x 5");
  EXPECT_EQ(got.each[0]->first, (std::array<std::int64_t, 3>{2, 6, 0}));
  std::vector<cfloat> want;
  for (int coil = 0; coil < 2; ++coil)
    for (const auto& [at, first] : {std::pair<std::size_t, int>{3, 2}, {8, 0}, {4, 2}, {9, 1}, {5, 2}}) {
      const auto data = pixels<cfloat>({.pixels = scan[at].data});
      const auto begin = data.begin() + coil * scan[at].head.number_of_samples + first;
      want.insert(want.end(), begin, begin + 5);
    }
  EXPECT_EQ(got.data[0], want);
  EXPECT_EQ(got.notes[0].at("put_back_lines"), "0");  // they lack samples that the image's lines have
}

TEST_P(CalibrationLinesTest, OfAVolumeABoxWithoutGaps) {
  // Rows 4 to 8 of planes 2 to 5, but for a corner: the box about the middle does without its row or its plane.
  std::mt19937 random(35);
  std::vector<Acquisition> scan;
  std::map<std::array<std::int64_t, 2>, std::size_t> at;
  for (int z = 2; z <= 5; ++z)
    for (int y = 4; y <= 8; ++y) {
      if (y == 4 && z == 2) continue;
      at[{y, z}] = scan.size();
      scan.push_back(made_readout({y, z, kCalibrationAndImaging}, random));
    }
  const Blocks got = any_split(announced("embedded", 12, 8), scan);
  ASSERT_TRUE(got.each.at(0));
  const Calibration& block = *got.each[0];
  const auto& n = block.data.shape();
  EXPECT_GE(n[1] * n[2], 15);
  std::vector<std::size_t> rows;
  for (std::int64_t z = 0; z < n[1]; ++z)
    for (std::int64_t y = 0; y < n[2]; ++y) rows.push_back(at.at({block.first[1] + y, block.first[2] + z}));
  EXPECT_EQ(got.data[0], as_block(scan, rows, 0, 8));
}

TEST_P(CalibrationLinesTest, OddReferenceLinesHurtNobodyElse) {
  std::mt19937 random(36);
  std::vector<Acquisition> scan;
  for (int y = 0; y < 16; y += 2) scan.push_back(made_readout({.y = y}, random));
  auto aside = scan, far = scan, coils = scan;
  aside.insert(aside.begin(), made_readout({3, 0, kCalibration}, random));
  const Blocks none = blocks(announced("separate"), aside, here());
  EXPECT_EQ(none.out.images.size(), 1u);
  EXPECT_EQ(none.each.at(0), nullptr);
  EXPECT_EQ(none.out.warned("without the middle of k-space"), 1);

  far.insert(far.begin(), made_readout({8, 0, kCalibration}, random, 6));
  far[0].head.center_sample = 5;  // begins before the matrix does
  set_flag(far[0], kCalibration);
  far[0].head.discard_pre = 0;
  const Blocks misfit = blocks(announced("separate"), far, here());
  EXPECT_EQ(misfit.out.images.size(), 1u);
  EXPECT_EQ(misfit.out.warned("calibration readouts are left out: a readout of 6 samples"), 1);

  Acquisition three = readout(3, noise(24, random));
  three.head.idx.kspace_encode_step_1 = 8;
  set_flag(three, kCalibration);
  coils.insert(coils.begin(), {three, made_readout({7, 0, kCalibrationAndImaging}, random)});
  const std::string text = client_error([&] { blocks(announced("embedded"), coils, here()); });
  EXPECT_EQ(text, "calibration readouts of slice 0 come with 3 coils and with 2; coils must not change within a scan");
  coils.erase(coils.begin() + 1);
  EXPECT_EQ(client_error([&] { blocks(announced("separate"), coils, here()); }),
            "the images' readouts of slice 0 come with 2 coils, the calibration readouts with 3; both must come with "
            "the same coils, or choose `calibration: none`");
  EXPECT_EQ(blocks(announced("separate"), coils, here(), "calibration: none").out.images.size(), 1u);
}

TEST_P(CalibrationLinesTest, AsTheOptionsSay) {
  // Even lines; 6 to 10 are reference lines, those between the even ones for calibration alone, after the others.
  std::mt19937 random(38);
  std::vector<Acquisition> scan;
  for (int y = 0; y < 16; y += 2)
    scan.push_back(made_readout({y, 0, y >= 6 && y <= 10 ? kCalibrationAndImaging : 0}, random));
  for (int y = 7; y < 11; y += 2) scan.push_back(made_readout({y, 0, kCalibration}, random));
  const std::vector<std::size_t> band = {3, 8, 4, 9, 5};
  struct Case {
    std::string header, options, calibration;
    std::vector<std::size_t> rows;
    std::int64_t first = 0;
  };
  const std::vector<Case> cases = {{"embedded", "", "embedded 5 x 8", band, 6},
                                   {"", "calibration: auto", "embedded 5 x 8", band, 6},
                                   {"separate", "calibration: embedded", "embedded 5 x 8", band, 6},
                                   {"embedded", "calibration: none", "(none)", {}},
                                   {"embedded", "calibration: center", "center 1 x 8", {4}, 8}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.header + " " + c.options);
    const Blocks got = any_split(announced(c.header), scan, c.options);
    ASSERT_EQ(got.each.size(), 1u);
    const auto& notes = got.notes[0];
    EXPECT_EQ(notes.contains("calibration") ? notes.at("calibration") : "(none)", c.calibration);
    EXPECT_EQ(got.each[0] != nullptr, !c.rows.empty());
    if (!got.each[0]) continue;
    EXPECT_EQ(got.each[0]->first[1], c.first);
    EXPECT_EQ(got.data[0], as_block(scan, c.rows, 0, 8));
    EXPECT_EQ(notes.at("calibration_id"), "0");
  }
  std::rotate(scan.begin(), scan.end() - 2, scan.end());
  const Blocks separate = any_split(announced("embedded"), scan, "calibration: separate");
  EXPECT_EQ(separate.each.at(0), nullptr);  // rows 7 and 9 only
  EXPECT_EQ(separate.notes.at(0).at("calibration"), "none");
  EXPECT_EQ(blocks(announced("", 16, 1, 1), scan, here(), "calibration: embedded").notes.at(0).at("calibration"),
            "embedded 5 x 8");

  std::vector<Acquisition> full;
  for (int y = 0; y < 16; ++y) full.push_back(made_readout({.y = y}, random));
  const Blocks some = any_split(announced("", 16, 1, 1), full, "calibration: center, calibration_lines: 9");
  EXPECT_EQ(some.notes.at(0).at("calibration"), "center 9 x 8");
  EXPECT_EQ(some.each.at(0)->first[1], 4);
}

TEST_P(CalibrationLinesTest, WhatHasNoLinesTakesTheSlices) {
  // The first of two contrasts has reference lines, in both slices. The other contrast's frames end first.
  std::mt19937 random(39);
  std::vector<Acquisition> scan;
  std::vector<std::vector<std::size_t>> band(2);
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int slice = 0; slice < 2; ++slice) {
      for (int y = 0; y < 16; ++y) {
        const bool reference = y >= 6 && y <= 10;
        if (y % 2 == 1 && !reference) continue;
        if (repetition == 0 && reference) band[static_cast<std::size_t>(slice)].push_back(scan.size());
        scan.push_back(made_readout({y, 0, reference ? kCalibrationAndImaging : 0, repetition, slice, 0}, random));
        if (y % 2 == 0) scan.push_back(made_readout({y, 0, 0, repetition, slice, 1}, random));
      }
      set_flag(scan.back(), kLastInSlice);
    }
  const Blocks got = any_split(announced("embedded"), scan);
  ASSERT_EQ(got.each.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(got.each[i]) << i;
    const auto slice = got.frames[i].slice;
    EXPECT_EQ(got.each[i]->key, FrameKey{.slice = slice});
    EXPECT_EQ(got.data[i], as_block(scan, band[slice], 0, 8));
    const bool lent = got.frames[i].contrast == 1;
    EXPECT_EQ(got.notes[i].contains("calibration_of"), lent);
    if (lent) {
      EXPECT_EQ(got.notes[i].at("calibration_of"), "contrast 0, set 0");
    }
  }
}

TEST_P(CalibrationLinesTest, OfAnEncodingSpaceOfTheirOwn) {
  // Twelve lines of ten samples in encoding space 1, over the same field of view as the images' 16 x 8.
  std::mt19937 random(40);
  HeaderSpec images{.encoded = {8, 16, 1}, .limits = step_limit(16)}, lines{.encoded = {10, 12, 1}};
  lines.limits = step_limit(12);
  lines.encoded_fov = {8, 16, 1};
  images.parallel =
      "<accelerationFactor><kspace_encoding_step_1>2</kspace_encoding_step_1><kspace_encoding_step_2>1"
      "</kspace_encoding_step_2></accelerationFactor>";
  std::vector<Acquisition> scan;
  std::vector<std::size_t> rows;
  for (int y = 0; y < 12; ++y) {
    rows.push_back(scan.size());
    scan.push_back(made_readout({y, 0, kCalibration}, random, 10));
    scan.back().head.encoding_space_ref = 1;
  }
  for (int y = 0; y < 16; y += 2) scan.push_back(made_readout({.y = y}, random));
  const Blocks got = any_split(header(std::vector{images, lines}), scan);
  ASSERT_EQ(got.each.size(), 1u);
  ASSERT_TRUE(got.each[0]);
  EXPECT_EQ(got.each[0]->source, Source::separate);
  EXPECT_EQ(got.each[0]->first, (std::array<std::int64_t, 3>{0, 2, 0}));  // sample 5 of 10 is sample 4 of 8
  EXPECT_EQ(got.each[0]->matrix, (std::array<std::int64_t, 3>{8, 16, 1}));
  EXPECT_EQ(got.data[0], as_block(scan, rows, 1, 9));
  EXPECT_EQ(got.notes[0].at("calibration"), "separate 12 x 8");
  EXPECT_EQ(got.notes[0].at("calibration_of"), "encoding 1, contrast 0, set 0");

  lines.encoded_fov = {8, 20, 1};
  const Blocks wide = blocks(header(std::vector{images, lines}), scan, here());
  EXPECT_EQ(wide.each.at(0), nullptr);
  EXPECT_EQ(
      wide.out.warned("calibration readouts of slice 0 are in encoding space 1 with a field of view of 8 x 20 x 1 "
                      "mm, the images in 0 with 8 x 16 x 1 mm, so they are left out; send them with the images'"),
      1);
}

TEST_P(CalibrationLinesTest, LinesAfterAnEarlyBlockMakeItAnew) {
  // Lines 4 to 11, which are enough, then one of the image, then 3 and 12. A volume's planes come one after another.
  std::mt19937 random(44);
  std::vector<Acquisition> scan;
  for (int y = 4; y < 12; ++y) scan.push_back(made_readout({y, 0, kCalibrationAndImaging}, random));
  scan.push_back(made_readout({.y = 14}, random));
  for (const int y : {3, 12}) scan.push_back(made_readout({y, 0, kCalibrationAndImaging}, random));
  const Blocks got = any_split(announced("embedded"), scan);
  EXPECT_EQ(got.notes.at(0).at("calibration"), "embedded 10 x 8");
  EXPECT_EQ(got.notes[0].at("calibration_id"), "1");
  EXPECT_EQ(got.data.at(0), as_block(scan, {9, 0, 1, 2, 3, 4, 5, 6, 7, 10}, 0, 8));

  scan.clear();
  for (int z = 0; z < 8; ++z)
    for (int y = 0; y < 12; ++y) {
      const bool reference = z >= 2 && z < 6 && y >= 2 && y < 10;
      if (reference || y % 2 == 0) scan.push_back(made_readout({y, z, reference ? kCalibrationAndImaging : 0}, random));
    }
  const Blocks volume = any_split(announced("embedded", 12, 8), scan);
  EXPECT_EQ(volume.notes.at(0).at("calibration"), "embedded 4 x 9 x 8");  // line 10 of the lattice has no gap to it
  EXPECT_EQ(volume.notes[0].at("calibration_id"), "0");
}

TEST_P(CalibrationLinesTest, GapsAreNamed) {
  std::mt19937 random(41);
  std::vector<Acquisition> scan;
  for (int y = 0; y < 16; ++y)
    if (y % 2 == 0 || (y > 4 && y < 11 && y != 9))
      scan.push_back(made_readout({y, 0, y > 4 && y < 11 ? kCalibrationAndImaging : 0}, random));
  const Blocks got = any_split(announced("embedded"), scan);
  EXPECT_EQ(got.notes.at(0).at("calibration"), "embedded 5 x 8");
  EXPECT_EQ(got.out.warned("reference lines of slice 0 have gaps: 10 rows came, of which the 5 from row 4 to row 8 are "
                           "used; send all lines of the block"),
            1);
}

TEST_P(CalibrationLinesTest, SeparateLinesOfSlicesInTurns) {
  std::mt19937 random(42);
  std::vector<Acquisition> scan;
  std::vector<std::vector<std::size_t>> band(2);
  for (int y = 3; y < 13; ++y)
    for (const int slice : {0, 1}) {
      band[static_cast<std::size_t>(slice)].push_back(scan.size());
      scan.push_back(made_readout({y, 0, kCalibration, 0, slice}, random));
    }
  for (const int slice : {0, 1})
    for (int y = 0; y < 16; y += 2) scan.push_back(made_readout({y, 0, 0, 0, slice}, random));
  const Blocks got = any_split(announced("separate"), scan);
  ASSERT_EQ(got.each.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(got.data[i], as_block(scan, band[got.frames[i].slice], 0, 8));
}

ECHOTRAIN_ON_BACKENDS(CalibrationLinesTest);

TEST(CalibrationBlockTest, IsWholeAsSoonAsItCanBeKnown) {
  numerics::Context compute(Backend::cpu, test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  std::mt19937 random(37);
  /// Number of the readout with which a block was whole; 100: with the frame's end; -1: never.
  const auto whole_at = [&](const std::string& mode, const std::vector<Reference>& list) {
    const protocol::Header h = announced(mode);
    CalibrationLines lines;
    lines.start(h, cartesian_spaces(h, scan), {}, scan);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Acquisition a = made_readout(list[i], random);
      Readouts batch;
      batch.kind = protocol::readout_kind(a.head);
      batch.heads = {a.head};
      const auto data = pixels<cfloat>({.pixels = a.data});
      batch.data = compute.upload<cfloat>({data.data(), {1, 2, 8}});
      lines.add(batch);
      if (lines.of({})) return static_cast<int>(i);
    }
    lines.frame_ends({});
    return lines.of({}) ? 100 : -1;
  };
  constexpr int kBoth = kCalibrationAndImaging, kOnly = kCalibration;
  // The band, then the rest; the band with others in between; too few lines to be sure; the band last;
  // imaging lines only.
  std::vector<Reference> band = {{2}};
  for (int y = 4; y < 12; ++y) band.push_back({y, 0, y % 2 == 0 ? kBoth : kOnly});
  auto gap = band, last = band;
  band.insert(band.end(), {{12}, {14}});
  EXPECT_EQ(whole_at("embedded", band), 9);
  std::swap(gap[8], gap[5]);
  gap.insert(gap.begin() + 8, {{12}, {13}});
  gap.push_back({14});
  EXPECT_EQ(whole_at("embedded", gap), 100);
  EXPECT_EQ(whole_at("embedded", {{4}, {7, 0, kOnly}, {8, 0, kBoth}, {9, 0, kOnly}, {10}, {12}}), 100);
  EXPECT_EQ(whole_at("embedded", last), 100);
  EXPECT_EQ(whole_at("embedded", {{4}, {6}, {8}, {10}}), 100);
  EXPECT_EQ(whole_at("embedded", {{4, 0, 0, 1}}), -1);  // of another frame than the one that ends
  std::vector<Reference> eight;
  for (int y = 4; y < 12; ++y) eight.push_back({y, 0, kOnly});
  eight.push_back({8, 0, kOnly, 0, 1});
  EXPECT_EQ(whole_at("separate", eight), 8);
  EXPECT_EQ(whole_at("separate", {{7, 0, kOnly}, {8, 0, kOnly}, {8, 0, kOnly, 0, 1}, {0}}), 3);  // too few to be sure
  EXPECT_EQ(whole_at("external", {{7, 0, kOnly}, {8, 0, kOnly}, {0, 0, 0, 0, 1}, {0}}), 3);
  EXPECT_EQ(whole_at("separate", {{0}, {8}}), -1);
}

TEST(CalibrationBlockTest, BoxesGrowAboutTheMiddle) {
  using Box = std::array<std::int64_t, 4>;
  EXPECT_EQ(full_box({1, 1, 0, 1, 2, 1, 1, 0, 1}, 9, 1), (Box{3, 0, 6, 0}));
  EXPECT_EQ(full_box({1, 1, 1, 1}, 4, 1), (Box{0, 0, 3, 0}));
  EXPECT_EQ(full_box({1, 1, 0, 1}, 4, 1), std::nullopt);
  EXPECT_EQ(full_box({0, 0, 0, 0, 1, 1, 0, 1, 1}, 3, 3), (Box{1, 1, 2, 2}));
  EXPECT_EQ(full_box({1, 1, 1, 1, 1, 1, 0, 0, 0}, 3, 3), (Box{0, 0, 2, 1}));
}

}  // namespace
}  // namespace echotrain::testing
