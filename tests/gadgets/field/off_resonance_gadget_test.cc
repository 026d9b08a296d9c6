// off_resonance and fhd with a field map: images of samples that were taken while the field was off.
#include <gmock/gmock.h>

#include "tests/gadgets/scan.h"
#include "tests/gadgets/sent_images.h"
#include "tests/support/field_sum.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kColumns = 30, kRows = 26, kSamples = 150, kArms = 24;
constexpr double kDwell = 30e-6, kRange = 180;

/// Arms of a spiral of 4.5 ms, and the field.
FieldProblem field_of_spiral(double first_s = 0) {
  return field_problem(kRows, kColumns, kRange, kDwell * (kSamples - 1), kArms, kSamples, first_s);
}

/// A disc with a notch and a ramp of phase, [y, x].
std::vector<cdouble> object() {
  std::vector<cdouble> out;
  for (int y = 0; y < kRows; ++y)
    for (int x = 0; x < kColumns; ++x) {
      const double u = x - kColumns / 2, v = y - kRows / 2;
      const bool inside = u * u + v * v < 100 && !(u > 2 && std::abs(v) < 2);
      out.push_back(inside ? std::polar(1.0, 0.05 * u) : cdouble(0));
    }
  return out;
}

std::vector<Acquisition> scan_of(const FieldProblem& p, const std::vector<cdouble>& samples, int center = 0,
                                 int repetition = 0) {
  std::vector<Acquisition> scan;
  for (std::size_t arm = 0; arm < kArms; ++arm) {
    std::vector<cfloat> data;
    std::vector<float> k;
    for (std::size_t i = arm * kSamples; i < (arm + 1) * kSamples; ++i) {
      data.emplace_back(samples[i]);
      for (std::size_t a = 0; a < 2; ++a) k.push_back(static_cast<float>(p.coordinates[2 * i + a]));
      k.push_back(1 + 0.5f * static_cast<float>(i % 3));  // weights
    }
    scan.push_back(readout(1, std::move(data), std::move(k)));
    scan.back().head.sample_time_us = static_cast<float>(1e6 * kDwell);
    scan.back().head.center_sample = static_cast<std::uint16_t>(center);
    scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(arm);
    scan.back().head.idx.repetition = static_cast<std::uint16_t>(repetition);
  }
  set_flag(scan.back(), kLastInSlice);
  return scan;
}

std::vector<float> weights() {
  std::vector<float> out;
  for (int i = 0; i < kArms * kSamples; ++i) out.push_back(1 + 0.5f * static_cast<float>(i % 3));
  return out;
}

protocol::Header spiral_header() { return header({.encoded = {kColumns, kRows, 1}, .trajectory = "spiral"}); }
protocol::Image map_image(const std::vector<float>& hz, int nx = kColumns, int ny = kRows) {
  return sent_image(hz, {nx, ny, 1}, {{"role", "field_map"}});
}
std::string gridded_with(const std::string& field, const std::string& gridding = "accuracy: 1e-4") {
  return yaml("  - density_compensation: {method: from_data}\n  - off_resonance: {field: {" + field + "}, gridding: {" +
              gridding + "}}\n  - image: {component: complex}\n");
}

using OffResonanceGadgetTest = OnEachBackend;

// Integers with a rescale are the same map: steps of 1/64 Hz, which a float holds exactly.
TEST_P(OffResonanceGadgetTest, AMapMayBeIntegersWithARescale) {
  const FieldProblem p = field_of_spiral(0);
  const auto scan = scan_of(p, field_forward(p, object()));
  std::vector<float> hz;
  std::vector<std::int16_t> steps;
  for (const float v : p.field_hz) {
    steps.push_back(static_cast<std::int16_t>(std::lround(64 * v)));
    hz.push_back(static_cast<float>(steps.back()) / 64 + 3);
  }
  const auto image_with = [&](const protocol::Image& map) {
    return pixels<cfloat>(
        run(gridded_with(""), spiral_header(), scan, {.backend = GetParam(), .images = {map}}).images.at(0));
  };
  const protocol::Image integers = sent_image(
      steps, {kColumns, kRows, 1}, {{"role", "field_map"}, {"RescaleSlope", "0.015625"}, {"RescaleIntercept", "3"}});
  EXPECT_EQ(image_with(integers), image_with(map_image(hz)));
}

// The image is the sum over samples by its definition, however the readouts come.
TEST_P(OffResonanceGadgetTest, GriddingIsTheConjugatePhaseSum) {
  for (const double start_s : {0.0, 2e-3}) {
    const FieldProblem p = field_of_spiral(start_s);
    const auto samples = field_forward(p, object());
    const auto truth = field_adjoint(p, samples, weights());
    auto scan = scan_of(p, samples);
    for (Acquisition& a : scan_of(p, samples, 0, 1)) scan.push_back(std::move(a));
    for (const std::size_t batch : {48u, 7u, 1u})
      for (const bool incremental : {true, false}) {
        const auto out = run(gridded_with(fmt::format("accuracy: 5e-4, start_us: {}", 1e6 * start_s),
                                          fmt::format("accuracy: 1e-4, incremental: {}", incremental)),
                             spiral_header(), scan,
                             {.backend = GetParam(),
                              .split = [batch](std::size_t) { return batch; },
                              .images = {map_image(p.field_hz)}});
        ASSERT_EQ(out.images.size(), 2u);
        // Segments and gridding.
        for (const auto& image : out.images) EXPECT_LT(nrmse(pixels<cfloat>(image), truth), 6e-4);
        EXPECT_EQ(meta_of(out.images[0], "off_resonance_segments").size(), 1u);
      }
  }
}

// Time 0 is where the head says, and readouts of one shot follow each other.
TEST_P(OffResonanceGadgetTest, TimesAreTheHeadsAndTheShots) {
  FieldProblem p = field_of_spiral();
  constexpr int kCenter = 40;
  constexpr double kNext = 5e-3;
  const std::size_t per = p.times_s.size();
  for (int shot = 0; shot < 2; ++shot)
    for (std::size_t i = 0; i < per; ++i) {
      const double t = static_cast<double>(static_cast<int>(i) - kCenter) * kDwell + shot * kNext;
      if (shot == 0)
        p.times_s[i] = t;
      else
        p.times_s.push_back(t);
    }
  const auto samples = field_forward(p, object());
  const auto truth = field_adjoint(p, samples, weights());
  for (const std::size_t batch : {24u, 5u}) {
    const auto out = run(
        gridded_with("shot_readouts: 2, shot_interval_us: 5000, accuracy: 2e-4"), spiral_header(),
        scan_of(p, samples, kCenter),
        {.backend = GetParam(), .split = [batch](std::size_t) { return batch; }, .images = {map_image(p.field_hz)}});
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), truth), 6e-4);
  }
}

// Least squares finds the object, which no F without the field's phase explains.
TEST_P(OffResonanceGadgetTest, TheSolverFindsTheObject) {
  const FieldProblem p = field_of_spiral();
  const auto samples = field_forward(p, object());
  const auto solve = [&](const std::string& fhd) {
    const auto out =
        run(yaml("  - density_compensation: {method: from_data}\n  - fhd: {accuracy: 1e-5, " + fhd +
                 "}\n  - pcg: {prior: none, iterations: 40, tolerance: 1e-5}\n  - coil_combine: "
                 "{method: none}\n  - image: {component: complex}\n"),
            spiral_header(), scan_of(p, samples), {.backend = GetParam(), .images = {map_image(p.field_hz)}});
    EXPECT_EQ(out.images.size(), 1u);
    return nrmse(pixels<cfloat>(out.images.at(0)), object());
  };
  // The corners of k-space are not sampled, and hold some of the disc's edge: what a solution without a field leaves.
  const double corrected = solve("off_resonance: true, field: {accuracy: 1e-4}"),
               blurred = solve("off_resonance: false");
  EXPECT_LT(corrected, 0.12);
  EXPECT_GT(blurred, 0.4);
  FieldProblem flat = p;
  std::fill(flat.field_hz.begin(), flat.field_hz.end(), 0.0f);
  const auto still =
      run(yaml("  - density_compensation: {method: from_data}\n  - fhd: {accuracy: 1e-5}\n  - pcg: {prior: "
               "none, iterations: 40, tolerance: 1e-5}\n  - coil_combine: {method: none}\n  - image: "
               "{component: complex}\n"),
          spiral_header(), scan_of(flat, field_forward(flat, object())), here());
  EXPECT_LT(corrected, 1.1 * nrmse(pixels<cfloat>(still.images.at(0)), object()));
}

// What fhd makes of a slice's map is kept for the frames after, for more slices than a handful.
TEST_P(OffResonanceGadgetTest, OperatorsOfManySlicesAreKept) {
  constexpr int kSlices = 18;
  const FieldProblem p = field_of_spiral();
  const std::vector<cdouble> samples(static_cast<std::size_t>(p.count()), 1.0);
  std::vector<protocol::Image> maps;
  std::vector<Acquisition> scan;
  for (int slice = 0; slice < kSlices; ++slice) {
    maps.push_back(map_image(p.field_hz));
    maps.back().head.slice = static_cast<std::uint16_t>(slice);
  }
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int slice = 0; slice < kSlices; ++slice)
      for (Acquisition& a : scan_of(p, samples, 0, repetition)) {
        a.head.idx.slice = static_cast<std::uint16_t>(slice);
        scan.push_back(std::move(a));
      }
  const auto out = run(yaml("  - density_compensation: {method: from_data}\n  - fhd: {accuracy: 0.01, off_resonance: "
                            "true, field: {accuracy: 0.05}}\n  - pcg: {prior: none, iterations: 1}\n  - coil_combine: "
                            "{method: none}\n  - image: {component: complex}\n"),
                       spiral_header(), std::move(scan), {.backend = GetParam(), .images = std::move(maps)});
  EXPECT_EQ(out.images.size(), 2u * kSlices);
  EXPECT_EQ(out.counts.work.operators_made, static_cast<std::uint64_t>(kSlices));
  EXPECT_EQ(out.counts.work.operators_reused, static_cast<std::uint64_t>(kSlices));
}

// A map of another matrix covers the same field of view.
TEST_P(OffResonanceGadgetTest, AMapOfAnotherMatrixIsInterpolated) {
  FieldProblem p = field_of_spiral();
  const auto plane = [](double u, double v) { return 120 * u - 60 * v + 10; };  // of the field of view
  for (int y = 0; y < kRows; ++y)
    for (int x = 0; x < kColumns; ++x)
      p.field_hz[static_cast<std::size_t>(y * kColumns + x)] = static_cast<float>(
          plane((x - kColumns / 2) / static_cast<double>(kColumns), (y - kRows / 2) / static_cast<double>(kRows)));
  std::vector<float> fine;
  constexpr int kFx = 64, kFy = 80;
  for (int y = 0; y < kFy; ++y)
    for (int x = 0; x < kFx; ++x)
      fine.push_back(static_cast<float>(
          plane((x - kFx / 2) / static_cast<double>(kFx), (y - kFy / 2) / static_cast<double>(kFy))));
  const auto samples = field_forward(p, object());
  const auto out = run(gridded_with("accuracy: 5e-4"), spiral_header(), scan_of(p, samples),
                       {.backend = GetParam(), .images = {map_image(fine, kFx, kFy)}});
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), field_adjoint(p, samples, weights())), 6e-4);
}

TEST_P(OffResonanceGadgetTest, BadInputIsRefused) {
  const FieldProblem p = field_of_spiral();
  const std::vector<cdouble> samples(static_cast<std::size_t>(p.count()), 1.0);
  const auto refusal = [&](const std::string& text, const std::vector<protocol::Image>& images,
                           const std::function<void(std::vector<Acquisition>&)>& change = {}) {
    auto scan = scan_of(p, samples);
    if (change) change(scan);
    return client_error([&] { run(text, spiral_header(), scan, {.backend = GetParam(), .images = images}); });
  };
  const auto map = map_image(p.field_hz);
  EXPECT_THAT(refusal(gridded_with(""), {}), HasSubstr("role is field_map"));
  EXPECT_THAT(refusal(gridded_with(""), {map},
                      [](auto& scan) {
                        for (auto& a : scan) a.head.sample_time_us = 0;
                      }),
              HasSubstr("sample_time_us of the readouts is 0"));
  EXPECT_THAT(refusal(gridded_with(""), {map}, [](auto& scan) { scan[3].head.center_sample = 9; }),
              HasSubstr("differ in sample_time_us or center_sample"));
  // A sliding window is refused after readouts that agree.
  const std::string sliding =
      yaml("  - density_compensation: {method: from_data}\n  - off_resonance\n  - image: {component: complex}\n",
           "frame: {readouts: 12, stride: 6}\n");
  EXPECT_THAT(refusal(sliding, {map},
                      [](auto& scan) {
                        for (std::size_t i = 18; i < kArms; ++i) scan[i].head.center_sample = 9;
                      }),
              HasSubstr("differ in sample_time_us or center_sample"));
  EXPECT_EQ(refusal(sliding, {map}), "(no ClientError)");
  auto two = p.field_hz;
  two.insert(two.end(), p.field_hz.begin(), p.field_hz.end());
  EXPECT_THAT(refusal(gridded_with(""), {map_image(two)}), HasSubstr("2 channels"));
  auto wild = p.field_hz;
  for (float& f : wild) f *= 1000;
  EXPECT_THAT(refusal(gridded_with(""), {map_image(wild)}), HasSubstr("mask or smooth the field map"));
  for (const auto& [fhd, part] : {std::pair{"method: exact, off_resonance: true", "needs method: nufft"},
                                  std::pair{"field: {file: a.h5}", "off_resonance is false"},
                                  std::pair{"off_resonance: true, field: {shot_readouts: 3}", "belong together"}}) {
    std::string said;
    try {
      PipelinePlan::check(config::read_pipeline(
          yaml(fmt::format("  - density_compensation\n  - fhd: {{{}}}\n  - pcg\n  - image\n", fhd)), "test.yaml"));
    } catch (const std::exception& error) {
      said = error.what();
    }
    EXPECT_THAT(said, HasSubstr(part));
  }
}

ECHOTRAIN_ON_BACKENDS(OffResonanceGadgetTest);

}  // namespace
}  // namespace echotrain::testing
