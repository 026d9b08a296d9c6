// Reference lines that fill rows of the image's k-space: which do, and what with.
#include "gadgets/cartesian/acs_reinsertion.h"

#include <map>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

/// A readout of two coils with random samples.
Acquisition back_line(std::mt19937& random, int y, int flag, int samples = 8, int center = 4, int z = 0) {
  Acquisition out = readout(2, noise(2 * static_cast<std::size_t>(samples), random));
  out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
  out.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
  out.head.center_sample = static_cast<std::uint16_t>(center);
  if (flag != 0) set_flag(out, flag);
  return out;
}

HeaderSpec embedded_lines(const std::array<int, 3>& encoded, int ry, int rz = 1, const std::string& mode = "embedded") {
  HeaderSpec spec{.encoded = encoded};
  spec.limits = step_limit(encoded[1]) + limit("kspace_encoding_step_2", 0, encoded[2] - 1, encoded[2] / 2);
  spec.parallel = fmt::format(
      "<accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1><kspace_encoding_step_2>{}"
      "</kspace_encoding_step_2></accelerationFactor><calibrationMode>{}</calibrationMode>",
      ry, rz, mode);
  return spec;
}

std::string note_of(const protocol::Image& image) {
  const auto at = image.attributes.find("<name>put_back_lines</name>");
  if (at == std::string::npos) return "";
  const auto begin = image.attributes.find("<value>", at) + 7;
  return image.attributes.substr(begin, image.attributes.find('<', begin) - begin);
}

struct Filled {
  std::vector<std::vector<cfloat>> data;  ///< of each frame: [coil, row, x]
  std::vector<SampledLines> lines;
  std::vector<std::string> put_back;  ///< the note, of each frame
  Outcome out;
};

class PutBackTest : public OnEachBackend {
 protected:
  /// Returns the frames that cartesian_kspace gives for a split of the scan. Images must be the same without a tap,
  /// when one gadget may do all the work.
  Filled filled(const protocol::Header& h, const std::vector<Acquisition>& scan, const Split& split,
                const std::string& chosen) const {
    Filled result;
    const std::string text = yaml("  - cartesian_kspace: {" + chosen + "}\n  - fft\n  - image: {component: complex}\n");
    RunOptions options = here();
    options.split = split;
    const Outcome fused = run(text, h, scan, options);
    options.tap = "cartesian_kspace";
    options.on_item = [&](const Item& item, numerics::Context& compute) {
      const auto& kspace = std::get<KSpace>(item);
      result.data.push_back(elements(compute, kspace.data));
      result.lines.push_back(*kspace.lines);
      const auto note = kspace.frame->notes.find("put_back_lines");
      result.put_back.push_back(note == kspace.frame->notes.end() ? "" : note->second);
    };
    result.out = run(text, h, scan, options);
    EXPECT_EQ(fused.images.size(), result.out.images.size());
    for (std::size_t i = 0; i < std::min(fused.images.size(), result.out.images.size()); ++i) {
      EXPECT_LT(nrmse(pixels<cfloat>(fused.images[i]), pixels<cfloat>(result.out.images[i])), 1e-6);
      EXPECT_EQ(note_of(fused.images[i]), result.put_back.at(i));
    }
    for (const auto level : {protocol::Level::info, protocol::Level::warning})
      EXPECT_EQ(fused.said(level, "calibration readouts"), result.out.said(level, "calibration readouts"));
    return result;
  }
  Filled any_split(const protocol::Header& h, const std::vector<Acquisition>& scan,
                   const std::string& chosen = "") const {
    Filled whole = filled(h, scan, {}, chosen);
    for (const std::size_t n : {1u, 2u, 5u}) {
      const Filled some = filled(
          h, scan, [n](std::size_t) { return n; }, chosen);
      EXPECT_EQ(some.data, whole.data) << n;
      EXPECT_EQ(some.put_back, whole.put_back) << n;
    }
    return whole;
  }
};

/// k-space with these readouts in their rows, samples [first, last) of each from sample x on; repeated rows: the mean.
std::vector<cfloat> with_rows(const std::array<int, 3>& n, const std::map<int, std::vector<const Acquisition*>>& rows,
                              int x = 0, int first = 0, int last = 8) {
  const auto nx = static_cast<std::size_t>(n[0]), all = static_cast<std::size_t>(n[1] * n[2]);
  std::vector<cfloat> out(2 * all * nx);
  for (const auto& [row, list] : rows)
    for (std::size_t coil = 0; coil < 2; ++coil)
      for (int s = first; s < last; ++s) {
        cdouble sum = 0;
        for (const Acquisition* a : list) {
          const std::size_t skip = a->head.number_of_samples - static_cast<std::size_t>(last - first);
          const std::size_t at = coil * a->head.number_of_samples + skip + static_cast<std::size_t>(s - first);
          sum += pixels<cfloat>({.pixels = a->data})[at];
        }
        out[(coil * all + static_cast<std::size_t>(row)) * nx + static_cast<std::size_t>(x + s - first)] =
            cfloat(sum / static_cast<double>(list.size()));
      }
  return out;
}

TEST_P(PutBackTest, EmbeddedLinesFillTheirRows) {
  // Even lines in three repetitions. In the first, lines 7 and 9 come for calibration before the others, 7 twice; in
  // the second, line 9 comes in between, and line 8 once more for calibration alone; the third has none.
  std::mt19937 random(51);
  std::vector<Acquisition> scan;
  const auto add = [&](int repetition, int y, int flag) {
    scan.push_back(back_line(random, y, flag));
    scan.back().head.idx.repetition = static_cast<std::uint16_t>(repetition);
  };
  for (const int y : {7, 9, 7}) add(0, y, kCalibration);
  scan[2].head.idx.average = 1;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (int y = 0; y < 16; y += 2) {
      add(repetition, y, y == 8 ? kCalibrationAndImaging : 0);
      if (repetition == 1 && y == 10)
        for (const int more : {8, 9}) add(1, more, kCalibration);
    }
  std::vector<std::map<int, std::vector<const Acquisition*>>> rows(3);
  for (const Acquisition& a : scan)
    if (a.head.idx.repetition != 1 || a.head.idx.kspace_encode_step_1 != 8 || (a.head.flags & 1ull << 19) == 0)
      rows.at(a.head.idx.repetition)[a.head.idx.kspace_encode_step_1].push_back(&a);
  const auto h = header(embedded_lines({8, 16, 1}, 2));
  const Filled got = any_split(h, scan);
  EXPECT_EQ(got.put_back, (std::vector<std::string>{"2", "1", "0"}));
  EXPECT_EQ(got.out.said(protocol::Level::info, "calibration"), 0);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_LT(nrmse(got.data.at(i), with_rows({8, 16, 1}, rows[i])), 1e-7) << i;
    EXPECT_EQ(got.lines[i].count(), static_cast<std::int64_t>(rows[i].size()));
    EXPECT_TRUE(got.lines[i].lattice);
    EXPECT_EQ(got.lines[i].step, (std::array<std::int64_t, 2>{2, 1}));
    EXPECT_EQ(got.lines[i].origin, (std::array<std::int64_t, 2>{0, 0}));
    EXPECT_EQ(got.lines[i].came[9], i < 2 ? 1 : 0);
  }

  for (auto& each : rows) std::erase_if(each, [](const auto& row) { return row.first % 2 == 1; });
  const std::vector<std::pair<HeaderSpec, std::string>> without = {
      {embedded_lines({8, 16, 1}, 2), "put_back: false"},
      {embedded_lines({8, 16, 1}, 2), "calibration: separate"},
      {embedded_lines({8, 16, 1}, 2, 1, "separate"), ""},
      {embedded_lines({8, 16, 1}, 2, 1, "interleaved"), ""},
      {embedded_lines({8, 16, 1}, 1), ""},
  };
  for (const auto& [spec, chosen] : without) {
    const Filled none = any_split(header(spec), scan, chosen);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LT(nrmse(none.data.at(i), with_rows({8, 16, 1}, rows[i])), 1e-7) << spec.parallel << chosen;
      EXPECT_EQ(none.put_back[i], "");
    }
  }
  EXPECT_EQ(any_split(header(embedded_lines({8, 16, 1}, 2, 1, "other")), scan, "calibration: embedded").put_back,
            got.put_back);
}

TEST_P(PutBackTest, OnlySamplesThatImagingRowsHave) {
  // Imaging rows have the last six samples of eight. Line 7 has all eight; line 9 has only the last four.
  std::mt19937 random(52);
  std::vector<Acquisition> scan;
  for (int y = 0; y < 16; y += 2) scan.push_back(back_line(random, y, 0, 6, 2));
  scan.push_back(back_line(random, 7, kCalibration));
  scan.push_back(back_line(random, 9, kCalibration, 4, 0));
  std::map<int, std::vector<const Acquisition*>> rows;
  for (const Acquisition& a : scan)
    if (a.head.idx.kspace_encode_step_1 != 9) rows[a.head.idx.kspace_encode_step_1].push_back(&a);
  const Filled got = any_split(header(embedded_lines({8, 16, 1}, 2)), scan);
  EXPECT_EQ(got.put_back.at(0), "1");
  EXPECT_LT(nrmse(got.data.at(0), with_rows({8, 16, 1}, rows, 2, 2, 8)), 1e-7);
  EXPECT_EQ(got.lines[0].first_x, 2);
  EXPECT_EQ(got.lines[0].last_x, 8);
  EXPECT_FALSE(got.lines[0].rows_differ);
}

TEST_P(PutBackTest, OfShiftedPlanes) {
  // Steps of 2 and 2, every other plane a line later; the middle 4 x 4 are reference lines.
  std::mt19937 random(53);
  std::vector<Acquisition> scan;
  for (const bool reference : {true, false})
    for (int z = 0; z < 8; ++z)
      for (int y = 0; y < 12; ++y) {
        const bool lattice = z % 2 == 0 && (y - z / 2) % 2 == 0, middle = y >= 4 && y < 8 && z >= 2 && z < 6;
        if (reference ? middle && !lattice : lattice)
          scan.push_back(back_line(random, y, reference ? kCalibration : middle ? kCalibrationAndImaging : 0, 8, 4, z));
      }
  std::map<int, std::vector<const Acquisition*>> rows;
  for (const Acquisition& a : scan) rows[a.head.idx.kspace_encode_step_2 * 12 + a.head.idx.kspace_encode_step_1] = {&a};
  const Filled got = any_split(header(embedded_lines({8, 12, 8}, 2, 2)), scan);
  EXPECT_EQ(got.put_back.at(0), "12");
  EXPECT_EQ(got.data.at(0), with_rows({8, 12, 8}, rows));
  EXPECT_TRUE(got.lines[0].lattice);
  EXPECT_EQ(got.lines[0].step, (std::array<std::int64_t, 2>{2, 2}));
  EXPECT_EQ(got.lines[0].shift, 1);
  EXPECT_EQ(got.lines[0].origin, (std::array<std::int64_t, 2>{0, 0}));
}

TEST_P(PutBackTest, OtherCoilsAreRefused) {
  std::mt19937 random(54);
  std::vector<Acquisition> scan = {readout(3, noise(24, random)), back_line(random, 8, 0)};
  scan[0].head.idx.kspace_encode_step_1 = 7;
  set_flag(scan[0], kCalibration);
  const std::string text = client_error([&] {
    filled(header(embedded_lines({8, 16, 1}, 2)), scan, {}, "calibration: none");
  });
  EXPECT_EQ(text,
            "the images' readouts of slice 0 come with 2 coils, the calibration readouts with 3; both must come with "
            "the same coils, or choose `calibration: none` and `put_back: false`");
}

ECHOTRAIN_ON_BACKENDS(PutBackTest);

TEST(PutBackKeepsTest, LinesWhoseFrameNeverEndsAreForgotten) {
  numerics::Context compute(Backend::cpu, test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  const auto h = header(embedded_lines({64, 16, 1}, 2));
  AcsReinsertion lines;
  lines.start(h, cartesian_spaces(h, scan), {}, scan);
  std::mt19937 random(55);
  std::uint64_t most = 0;
  for (int repetition = 0; repetition < 100; ++repetition) {
    const Acquisition a = back_line(random, 8, kCalibration, 64, 32);
    Readouts batch;
    batch.kind = protocol::ReadoutKind::calibration;
    batch.heads = {a.head};
    batch.heads[0].idx.repetition = static_cast<std::uint16_t>(65500 + repetition);
    batch.data = compute.zeros<cfloat>({1, 2, 64});
    lines.keep(batch);
    most = std::max(most, compute.bytes_in_use());
  }
  EXPECT_LE(most, 4 * 2 * 64 * sizeof(cfloat));
}

}  // namespace
}  // namespace echotrain::testing
