// fhd and pcg on several devices.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/gadgets/blob.h"
#include "tests/support/direct_sum.h"
#include "tests/support/on_team.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

std::string team_pipeline(const std::string& fhd, const std::string& pcg, const std::string& maps = "") {
  return yaml(
      fmt::format("  - density_compensation: {{method: none}}\n  - fhd: {{{}}}\n{}  - pcg: {{{}}}\n"
                  "  - coil_combine: {{method: none}}\n  - image: {{component: complex}}\n",
                  fhd, maps.empty() ? "" : "  - coil_maps: {" + maps + "}\n", pcg));
}
protocol::Header team_plane(int x, int y, const std::string& limits = "") {
  return header({.encoded = {x, y, 1}, .trajectory = "radial", .limits = limits});
}

using SolverTeamTest = OnEachBackend;

// Several devices give the bits of one for F^H d, and agree to rounding for the solver, with and without coil maps.
TEST_P(SolverTeamTest, ATeamGivesWhatOneDeviceGives) {
  if (const std::string reason = no_team(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  const Blob blob{2, {3, -2, 0}};
  const auto scan = sample(radial(61, 50), {blob, blob, blob});
  RunOptions together{.backend = GetParam(), .split = [](std::size_t) { return std::size_t{17}; }};
  together.others = GetParam() == Backend::cpu ? std::vector<int>{1, 2} : std::vector<int>{1};
  for (const std::string maps : {"", "method: adaptive"})
    for (const std::string fhd : {"method: exact", "method: nufft"})
      for (const std::string prior : {"prior: tikhonov", "prior: anatomical"}) {
        const std::string text = team_pipeline(fhd, "iterations: 15, lambda: 1e-2, " + prior, maps);
        const auto alone = run(text, team_plane(31, 28), scan, here()),
                   out = run(text, team_plane(31, 28), scan, together);
        ASSERT_EQ(out.images.size(), 1u) << text;
        const auto truth = pixels<cfloat>(alone.images[0]), image = pixels<cfloat>(out.images[0]);
        EXPECT_LT(relative_error(image, truth, truth.size()), 1e-4) << text;
        if (maps.empty() && fhd == "method: exact" && GetParam() == Backend::cpu) {
          EXPECT_TRUE(image == truth) << text;  // each image by itself
        }
      }
}

/// Slices and repetitions whose readouts take turns, so that the slices of a repetition end together.
std::vector<Acquisition> interleaved(int slices, int repetitions) {
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    std::vector<std::vector<Acquisition>> parts;
    for (int slice = 0; slice < slices; ++slice) {
      const Blob first{2, {3.0 - slice, -2.0 + repetition, 0}}, second{2, {-1.5, 4.0 - 0.5 * slice, 0}};
      const Blob third{3, {1, 1, 0}}, fourth{2, {2, -3, 0}};
      parts.push_back(sample(radial(41, 50), {first, second, third, fourth}));
    }
    for (std::size_t r = 0; r < parts[0].size(); ++r)
      for (int slice = 0; slice < slices; ++slice) {
        Acquisition a = parts[static_cast<std::size_t>(slice)][r];
        a.head.idx.slice = static_cast<std::uint16_t>(slice);
        a.head.idx.repetition = static_cast<std::uint16_t>(repetition);
        scan.push_back(std::move(a));
      }
  }
  return scan;
}

// A device of a team solves for a slice by itself, as one device alone would: the same bits on the CPU, and the same
// order. Six frames, for two devices and for three.
TEST_P(SolverTeamTest, SlicesAtHandGoToDifferentDevices) {
  if (const std::string reason = no_team(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  const auto scan = interleaved(3, 2);
  const auto h = team_plane(31, 28, limit("slice", 0, 2, 0) + limit("repetition", 0, 1, 0));
  for (const std::string what : {"prior: tikhonov", "prior: smoothness, preconditioner: jacobi, warm_start: true",
                                 "prior: tikhonov, noise_level: 0.01"}) {
    const std::string text =
        team_pipeline("method: nufft", "iterations: 12, lambda: 1e-2, " + what, "method: adaptive");
    const auto alone = run(text, h, scan, here());
    ASSERT_EQ(alone.images.size(), 6u);
    for (const std::vector<int>& others : {std::vector<int>{1}, std::vector<int>{1, 2}}) {
      if (GetParam() == Backend::cuda && others.size() > 1) continue;
      RunOptions together = here();
      together.others = others;
      const auto out = run(text, h, scan, together);
      ASSERT_EQ(out.images.size(), 6u);
      for (std::size_t i = 0; i < out.images.size(); ++i) {
        const auto truth = pixels<cfloat>(alone.images[i]), image = pixels<cfloat>(out.images[i]);
        EXPECT_EQ(out.images[i].head.slice, alone.images[i].head.slice);
        EXPECT_EQ(out.images[i].head.repetition, alone.images[i].head.repetition);
        EXPECT_LT(relative_error(image, truth, truth.size()), 1e-5) << what << i;
        if (GetParam() == Backend::cpu) {
          EXPECT_TRUE(image == truth) << what << i << " of " << others.size() + 1;
          EXPECT_EQ(out.images[i].attributes, alone.images[i].attributes);
        }
      }
    }
  }
}

// A slice that comes alone does not wait for another one.
TEST_P(SolverTeamTest, ASliceWaitsForNoneThatIsNotThere) {
  if (const std::string reason = no_team(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  numerics::Context compute(GetParam(), test_resources());
  numerics::Team team(compute, {1}, std::uint64_t{1} << 30);
  std::size_t images = 0;
  const std::string text = team_pipeline("method: nufft", "iterations: 3");
  Pipeline running(PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
                   {[&](protocol::Image&&, const ImageTimes&) { ++images; }, [](protocol::Level, const auto&) {}},
                   nullptr, &team);
  running.start(team_plane(24, 24, limit("slice", 0, 1, 0)));
  for (std::uint16_t slice = 0; slice < 2; ++slice) {
    auto scan = sample(radial(41, 50), {Blob{2, {3, -2, 0}}});
    for (Acquisition& a : scan) a.head.idx.slice = slice;
    set_flag(scan.back(), kLastInSlice);
    running.push(std::move(scan));
    running.wait();
    EXPECT_EQ(images, slice + 1u);
  }
  auto bad = interleaved(2, 1);
  for (Acquisition& a : bad) {
    a.head.idx.repetition = 1;
    if (a.head.idx.slice == 1) {
      auto samples = std::vector<cfloat>(a.data.bytes.size() / sizeof(cfloat), cfloat(NAN, 0));
      a.data = protocol::Payload::take(std::move(samples));
    }
  }
  const std::string said = client_error([&] {
    running.push(std::move(bad));
    running.finish(End::complete);
  });
  EXPECT_THAT(said, HasSubstr("not finite"));
}

ECHOTRAIN_ON_BACKENDS(SolverTeamTest);

}  // namespace
}  // namespace echotrain::testing
