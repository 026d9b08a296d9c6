// Reference lines of both directions in epi_phase_correction: which of them go on, and scans that have none that do.
#include "gadgets/engine/readout_batch.h"
#include "gadgets/epi/epi_phase_correction.h"
#include "tests/gadgets/epi/epi_scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

const EpiSpec kRegular{.n = 16, .navigators = 0, .regular = true};

Acquisition line_of(int slice, int line, bool reversed) {
  Acquisition out = EpiScan(kRegular).line(line, reversed, 0);
  out.head.idx.slice = static_cast<std::uint16_t>(slice);
  return out;
}

/// The gadget alone; counts what comes out of it.
struct Alone {
  Alone() { gadget.start(EpiScan(kRegular).header(), scan); }

  void references(const std::vector<Acquisition>& lines) { give(lines, protocol::ReadoutKind::calibration); }
  void image(int slice) { give({line_of(slice, 0, false)}, protocol::ReadoutKind::imaging); }
  void give(const std::vector<Acquisition>& lines, protocol::ReadoutKind kind) {
    Readouts readouts = make_batch(compute, lines, true);
    readouts.kind = kind;
    gadget.process(std::move(readouts), [this](Readouts&& out) {
      if (out.kind != protocol::ReadoutKind::calibration) return;
      for (const auto& head : out.heads) passed.emplace_back(int{head.idx.slice}, int{head.idx.kspace_encode_step_1});
    });
  }

  numerics::Context compute{Backend::cpu, test_resources()};
  Scan scan{compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {}};
  EpiPhaseCorrection gadget{{.method = "none", .dual_polarity = true}};
  std::vector<std::pair<int, int>> passed;  // slice, line
};

using Passed = std::vector<std::pair<int, int>>;

TEST(DualPolarityLinesTest, AnImageOfAnotherSliceEndsNoReferences) {
  Alone it;
  it.references({line_of(1, 4, true), line_of(1, 5, true)});
  it.image(0);
  EXPECT_EQ(it.passed, Passed());
  it.references({line_of(1, 4, false)});
  it.image(1);
  EXPECT_EQ(it.passed, (Passed{{1, 4}, {1, 5}}));  // line 4 forward, line 5 as it came
}

TEST(DualPolarityLinesTest, LaterReversedReferencesDoNotGoOnEither) {
  Alone it;
  const std::vector<Acquisition> both = {line_of(0, 4, false), line_of(0, 4, true), line_of(1, 7, true)};
  for (int repetition = 0; repetition < 2; ++repetition) {
    it.passed.clear();
    it.references(both);
    EXPECT_EQ(it.passed, (Passed{{0, 4}})) << repetition;
    it.image(0);
    EXPECT_EQ(it.passed, (Passed{{0, 4}})) << repetition;
    it.image(1);
    EXPECT_EQ(it.passed, (Passed{{0, 4}, {1, 7}})) << repetition;
  }
}

TEST(DualPolarityLinesTest, LinesThatComeOftenAreKeptOnce) {
  Alone it;
  std::uint64_t few = 0, many = 0;
  for (int time = 1; time <= 100; ++time) {
    it.references({line_of(0, 4, false)});
    many = it.compute.account()->used();
    if (time == 2) few = many;
  }
  EXPECT_GT(few, 0u);
  EXPECT_EQ(many, few);
}

std::string pipeline(const std::string& options) {
  return yaml("  - epi_phase_correction" + (options.empty() ? "" : ": {" + options + "}") +
              "\n  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n");
}

/// References of both directions, all of them 0, before each image; no navigators.
TEST(DualPolarityLinesTest, WhereKernelsCannotBeMadeThePhaseIsSearchedFor) {
  const EpiScan scan({.navigators = 0, .regular = true});
  std::vector<Acquisition> readouts;
  for (const bool reversed : {false, true})
    for (int y = 8; y < 40; ++y) {
      Acquisition zero = readout(1, std::vector<cfloat>(48));
      zero.head = scan.line(y, reversed, 0).head;
      set_flag(zero, kCalibration);
      readouts.push_back(std::move(zero));
    }
  for (auto& each : scan.scan()) readouts.push_back(std::move(each));
  const Outcome off = run(pipeline(""), scan.with(""), readouts),
                on = run(pipeline("dual_polarity: true"), scan.with(""), readouts);
  ASSERT_EQ(on.images.size(), 1u);
  EXPECT_EQ(on.warned("dual_polarity is not done for slice 0: reference lines hold no signal"), 1);
  EXPECT_EQ(pixels<cfloat>(on.images[0]), pixels<cfloat>(off.images.at(0)));
  EXPECT_NE(on.images[0].attributes.find("epi_refined"), std::string::npos);
}

/// Lines of two partitions have the same encoding step 1; those of one say nothing of the other's neighbours.
TEST(DualPolarityLinesTest, VolumesAreLeftToNavigators) {
  const EpiScan parts[] = {EpiScan({.navigators = 3, .regular = true}),
                           EpiScan({.offset = 2, .navigators = 0, .regular = true})};
  std::vector<Acquisition> readouts, references, lines;
  for (std::uint16_t z = 0; z < 2; ++z) {
    for (auto& each : parts[z].scan()) {
      each.head.flags = each.head.flags & ~(1ull << (kLastInSlice - 1));
      lines.push_back(std::move(each));
      lines.back().head.idx.kspace_encode_step_2 = z;
    }
    for (const bool reversed : {false, true})
      for (int y = 8; y < 40; ++y) {
        references.push_back(parts[z].line(y, reversed, 0));
        references.back().head.idx.kspace_encode_step_2 = z;
        set_flag(references.back(), kCalibration);
      }
  }
  set_flag(lines.back(), kLastInSlice);
  readouts.insert(readouts.end(), lines.begin(), lines.begin() + 3);
  readouts.insert(readouts.end(), references.begin(), references.end());
  readouts.insert(readouts.end(), lines.begin() + 3, lines.end());
  const protocol::Header volume = header({.encoded = {48, 48, 2}, .trajectory = "epi"});
  const Outcome off = run(pipeline(""), volume, readouts), on = run(pipeline("dual_polarity: true"), volume, readouts);
  ASSERT_EQ(on.images.size(), 1u);
  EXPECT_EQ(on.warned("dual_polarity is not done for volumes"), 1);
  EXPECT_EQ(pixels<cfloat>(on.images[0]), pixels<cfloat>(off.images.at(0)));
}

}  // namespace
}  // namespace echotrain::testing
