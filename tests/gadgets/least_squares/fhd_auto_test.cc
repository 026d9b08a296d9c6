// fhd with method: auto: what it chooses and says, and whether F^H d and F^H F are as accurate as was asked.
#include <gmock/gmock.h>

#include "gadgets/api/items.h"
#include "gadgets/numerics/inverse/operators/normal_operator.h"
#include "tests/gadgets/blob.h"
#include "tests/support/direct_sum.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

std::string auto_pipeline(const std::string& fhd, const std::string& density = "method: none") {
  return yaml(
      fmt::format("  - density_compensation: {{{}}}\n  - fhd: {{{}}}\n  - pcg: {{iterations: 3, lambda: 1e-2}}\n"
                  "  - coil_combine: {{method: none}}\n  - image: {{component: complex}}\n",
                  density, fhd));
}

/// The output of fhd: F^H d of each frame, and the diagonal of F^H F.
struct Equations {
  std::vector<std::vector<cfloat>> right;
  std::vector<double> diagonal;
  Outcome outcome;
};
Equations equations(const std::string& text, const protocol::Header& h, const std::vector<Acquisition>& scan,
                    RunOptions options) {
  Equations out;
  options.tap = "fhd";
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& made = std::get<NormalEquations>(item);
    const auto host = compute.download<cfloat>(made.right.cview());
    out.right.emplace_back(host.data(), host.data() + host.size());
    out.diagonal.push_back(made.matrix->diagonal());
  };
  out.outcome = run(text, h, scan, options);
  return out;
}

/// Two frames of a koosh-ball seen by two coils.
struct Ball {
  static constexpr int kSpokes = 90, kSamples = 24;
  protocol::Header h = header({.encoded = {16, 14, 15}, .trajectory = "other"});
  std::vector<Acquisition> scan;
  Ball() {
    for (int r = 0; r < 2; ++r)
      for (auto& a : sample(kooshball(kSpokes, kSamples), {Blob{3, {2, -1, 1}}, Blob{3, {-3, 0, 2}}})) {
        a.head.idx.repetition = static_cast<std::uint16_t>(r);
        scan.push_back(std::move(a));
      }
  }
  /// F^H d of the first frame in float64.
  std::vector<numerics::cdouble> truth() const {
    std::vector<double> k;
    std::vector<cfloat> d;
    for (std::size_t i = 0; i < kSpokes; ++i) {
      const auto* at = reinterpret_cast<const float*>(scan[i].trajectory.bytes.data());
      const auto* values = reinterpret_cast<const cfloat*>(scan[i].data.bytes.data());
      k.insert(k.end(), at, at + 3 * kSamples);
      for (std::size_t s = 0; s < kSamples; ++s)
        for (std::size_t c = 0; c < 2; ++c) d.push_back(values[c * kSamples + s]);
    }
    return direct_adjoint(k, d, {}, 2, {15, 14, 16});
  }
};

using FhdAutoTest = OnEachBackend;

TEST_P(FhdAutoTest, HasTheAccuracyThatIsAskedFor) {
  const Ball ball;
  const auto truth = ball.truth();
  for (const auto& [accuracy, chosen] : {std::pair{1e-3, "by the NUFFT of width"},
                                         {1.5e-6, "by the NUFFT of width"},
                                         {6e-7, "width 8 at oversampling 2,"}}) {
    const auto made = equations(auto_pipeline(fmt::format("dimensions: 3, method: auto, accuracy: {}", accuracy)),
                                ball.h, ball.scan, here());
    ASSERT_EQ(made.right.size(), 2u);
    EXPECT_LT(relative_error(made.right[0], truth, truth.size()), accuracy);
    EXPECT_GT(relative_error(made.right[0], truth, truth.size()), 0);
    EXPECT_NEAR(made.diagonal[0], Ball::kSpokes * Ball::kSamples, accuracy * Ball::kSpokes * Ball::kSamples);
    EXPECT_EQ(made.outcome.said(protocol::Level::info, chosen), 1) << accuracy;
  }
}

// The frame is gridded once its last sample has come, in the order of its samples, whatever batches they came in; the
// second frame's trajectory is known by then.
TEST_P(FhdAutoTest, HasTheSameBitsHoweverReadoutsCome) {
  const Ball ball;
  for (const std::string density : {"method: none", "method: ramp"}) {
    const std::string text = auto_pipeline("dimensions: 3, method: auto, accuracy: 2e-6", density);
    const auto whole = run(text, ball.h, ball.scan, here());
    ASSERT_EQ(whole.images.size(), 2u);
    EXPECT_EQ(pixels<cfloat>(whole.images[0]), pixels<cfloat>(whole.images[1]));
    for (const std::size_t readouts : {1u, 7u, 100u}) {
      RunOptions options = here();
      options.split = [readouts](std::size_t) { return readouts; };
      const auto parts = run(text, ball.h, ball.scan, options);
      ASSERT_EQ(parts.images.size(), 2u);
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_EQ(pixels<cfloat>(parts.images[i]), pixels<cfloat>(whole.images[i]))
            << readouts << " readouts at a time, " << density;
      EXPECT_GE(parts.counts.work.frames_in_parts, readouts > Ball::kSpokes ? 0u : density == "method: none" ? 2u : 1u);
    }
  }
}

TEST_P(FhdAutoTest, TakesExactSumsWhereNothingElseWillDo) {
  const Ball ball;
  const auto bits = [&](const std::string& fhd) {
    return equations(auto_pipeline("dimensions: 3, " + fhd), ball.h, ball.scan, here());
  };
  const auto exact = bits("method: exact"), finer = bits("method: auto, accuracy: 2e-7");
  EXPECT_EQ(finer.right, exact.right);
  EXPECT_EQ(finer.outcome.said(protocol::Level::info,
                               "no NUFFT has an error of at most 2.0e-07 for an image of [15, 14, 16]"),
            1);
  EXPECT_EQ(exact.outcome.said(protocol::Level::info, "fhd:"), 0);
  const auto box = bits("method: exact, voxel: box"), chosen = bits("method: auto, voxel: box");
  EXPECT_EQ(chosen.right, box.right);
  EXPECT_NE(box.right, exact.right);
  EXPECT_EQ(chosen.outcome.said(protocol::Level::info, "which voxel: box needs"), 1);
}

TEST(FhdAutoRefusalTest, WhatCannotGoTogether) {
  for (const auto& [fhd, part] : {std::pair{"method: auto, precision: fast", "precision: fast needs method: exact"},
                                  {"method: auto, off_resonance: true, voxel: box", "needs voxel: delta"},
                                  {"method: auto, accuracy: 1e-8", "out of range"}}) {
    std::string said;
    try {
      PipelinePlan::check(config::read_pipeline(auto_pipeline(fhd), "test.yaml"));
    } catch (const config::ConfigError& error) {
      said = error.what();
    }
    EXPECT_THAT(said, HasSubstr(part));
  }
}

ECHOTRAIN_ON_BACKENDS(FhdAutoTest);

}  // namespace
}  // namespace echotrain::testing
