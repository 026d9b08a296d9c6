// Trajectory units, dropped samples, weights, and the reuse of what depends on the trajectory only.
#include <numeric>

#include "tests/gadgets/blob.h"

namespace echotrain::testing {
namespace {

std::string pipeline(const std::string& parameters, const std::string& keys = "", int dims = 2) {
  return yaml(fmt::format("  - density_compensation: {{{}}}\n  - gridding: {{dimensions: {}}}\n  - fft\n"
                          "  - deapodization\n  - image: {{component: complex}}\n",
                          parameters, dims),
              keys);
}
const std::string kRamp = pipeline("method: ramp");

struct Seen {
  std::shared_ptr<const SamplePositions> positions;
  const void* weights_at;
  std::vector<float> weights;
  double sum() const { return std::accumulate(weights.begin(), weights.end(), 0.0); }
};

/// The output of density_compensation, and the scan's outcome. `at_once`: readouts; 0: all.
std::pair<std::vector<Seen>, Outcome> samples_of(const std::string& text, const protocol::Header& h,
                                                 std::vector<Acquisition> scan, Backend backend = Backend::cpu,
                                                 std::size_t at_once = 0) {
  std::vector<Seen> seen;
  RunOptions options{.backend = backend, .tap = "density_compensation"};
  if (at_once > 0) options.split = [at_once](std::size_t) { return at_once; };
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& samples = std::get<Samples>(item);
    seen.push_back({samples.positions, samples.weights.data(), elements(compute, samples.weights)});
  };
  Outcome out = run(text, h, std::move(scan), options);
  return {std::move(seen), std::move(out)};
}

protocol::Header square(int n, const std::string& trajectory = "radial") {
  return header({.encoded = {n, n, 1}, .trajectory = trajectory});
}

void append(std::vector<Acquisition>& scan, std::vector<Acquisition> frame, int repetition) {
  for (auto& a : frame) {
    a.head.idx.repetition = static_cast<std::uint16_t>(repetition);
    scan.push_back(std::move(a));
  }
}

using DensityTest = OnEachBackend;

TEST_P(DensityTest, EveryUnitGivesTheSameImage) {
  // 48 x 40 voxels of 2 x 1.5 mm.
  HeaderSpec spec{.encoded = {48, 40, 1}, .trajectory = "radial"};
  spec.encoded_fov = {96, 60, 5};
  const Blob blob{2, {3, -2, 0}};
  constexpr double kPi = std::numbers::pi;
  const std::vector<std::pair<std::string, std::array<double, 3>>> units = {
      {"cycles_per_pixel", {1, 1, 1}},
      {"cycles_per_fov", {48, 40, 1}},
      {"radians_per_pixel", {2 * kPi, 2 * kPi, 1}},
      {"cycles_per_m", {500, 1000 / 1.5, 1}}};
  for (const auto& [name, unit] : units) {
    const auto out = run(pipeline("method: ramp", "trajectory_unit: " + name + "\n"), header(spec),
                         sample(radial(151, 96), {blob}, unit), here());
    ASSERT_EQ(out.images.size(), 1u) << name;
    EXPECT_LT(largest_error(pixels<cfloat>(out.images[0]), 0, blob.image({48, 40, 1})), 2e-3) << name;
    EXPECT_EQ(out.warned(""), 0) << name;
  }
}

TEST_P(DensityTest, SamplesBeyondTheEdgeAreDroppedWithOneWarning) {
  Path path = radial(151, 120);  // stretched, so that |k| reaches 0.6 and nothing within 0.5 is lost
  for (auto& k : path.k)
    for (double& v : k) v *= 1.2;
  const Blob blob{2, {3, -2, 0}};
  std::vector<Acquisition> scan;
  append(scan, sample(path, {blob}), 0);
  const Path first = path;
  path.k[0][0] = 0.7;  // another trajectory, another number of samples dropped
  path.k[0][2] = 0.1;
  append(scan, sample(path, {blob}), 1);
  const auto [seen, out] = samples_of(kRamp, square(48), std::move(scan), GetParam());
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(out.warned("lie beyond 0.5 cycles/pixel and are dropped"), 1);
  EXPECT_EQ(out.warned(""), 1);
  for (std::size_t s = 0; s < seen[0].weights.size(); ++s) {
    const double* k = &first.k[s / 120][s % 120 * 2];
    const bool beyond = std::max(std::abs(k[0]), std::abs(k[1])) > 0.5005;
    EXPECT_EQ(seen[0].weights[s] == 0, beyond) << s;
  }
  EXPECT_LT(largest_error(pixels<cfloat>(out.images[0]), 0, blob.image({48, 48, 1})), 2e-3);
}

TEST_P(DensityTest, ARepeatedTrajectoryIsPreparedOnce) {
  std::vector<Acquisition> scan;
  const Blob blob{2, {3, -2, 0}}, other{2, {-2, 4, 0}};
  append(scan, sample(radial(151, 96), {blob}), 0);
  append(scan, sample(radial(151, 96, -std::numbers::pi / 151), {blob}), 1);
  append(scan, sample(radial(151, 96), {other}), 2);
  const auto [seen, out] = samples_of(kRamp, square(48), std::move(scan), GetParam());
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].positions, seen[2].positions);
  EXPECT_EQ(seen[0].weights_at, seen[2].weights_at);
  EXPECT_NE(seen[0].positions, seen[1].positions);
  EXPECT_LT(largest_error(pixels<cfloat>(out.images[0]), 0, blob.image({48, 48, 1})), 2e-3);
  EXPECT_LT(largest_error(pixels<cfloat>(out.images[1]), 0, blob.image({48, 48, 1})), 2e-3);
  EXPECT_LT(largest_error(pixels<cfloat>(out.images[2]), 0, other.image({48, 48, 1})), 2e-3);
}

// Trajectories that differ late, or of which one begins the other, whatever batches their readouts come in.
TEST_P(DensityTest, TrajectoriesAreComparedToTheirEnds) {
  const Path path = radial(51, 96);
  Path late = path, shorter = path;
  late.k.back().back() = std::nextafter(static_cast<float>(late.k.back().back()), 0.0f);
  shorter.k.pop_back();
  const Blob blob{2, {3, -2, 0}};
  std::vector<Acquisition> scan;
  int repetition = 0;
  for (const Path* each : std::initializer_list<const Path*>{&path, &late, &shorter, &path, &late, &shorter})
    append(scan, sample(*each, {blob}), repetition++);
  for (const std::size_t at_once : {scan.size(), std::size_t{7}}) {
    const auto [seen, out] = samples_of(kRamp, square(48), scan, GetParam(), at_once);
    ASSERT_EQ(seen.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t j = 0; j < i; ++j)
        EXPECT_EQ(seen[i].positions == seen[j].positions, i % 3 == j % 3) << i << " and " << j;
    EXPECT_EQ(seen[2].weights.size(), 50 * 96u);
  }
}

// More than 1 MiB of samples and of positions, which threads copy and compare side by side.
TEST_P(DensityTest, ManyReadoutsAtOnce) {
  const Path path = radial(701, 192);
  const Blob blob{2, {3, -2, 0}};
  std::vector<Acquisition> scan;
  append(scan, sample(path, {blob}), 0);
  for (int repetition = 1; repetition < 4; ++repetition) {
    Path late = path;
    double& k = late.k[repetition == 1 ? 700 : repetition == 2 ? 400 : 1].back();
    k = std::nextafter(static_cast<float>(k), 0.0f);
    append(scan, sample(late, {blob}), repetition);
  }
  append(scan, sample(path, {blob}), 4);
  const auto [seen, out] = samples_of(kRamp, square(48), std::move(scan), GetParam());
  ASSERT_EQ(seen.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_EQ(seen[i].positions == seen[j].positions, i == 4 && j == 0) << i << " and " << j;
  for (const auto& image : out.images)
    EXPECT_LT(largest_error(pixels<cfloat>(image), 0, blob.image({48, 48, 1})), 2e-3);
}

// Methods for any trajectory, on one that ramp is exact for.
TEST_P(DensityTest, VoronoiAndPipeMenonGiveTheImageToo) {
  const Blob blob{2, {3, -2, 0}}, other{2, {-1.5, 4, 0}};
  const auto scan = sample(radial(151, 96), {blob, other});
  // Voronoi cells of spokes are sectors of rings but at the rim. Pipe and Menon's weights are flat in the sense of the
  // gridding kernel, whose extent is a good part of so small a k-space: they overshoot at its rim, by 4 % of the disc.
  for (const auto& [method, tolerance, beyond] : {std::tuple{"voronoi", 1e-2, 0.0}, {"pipe_menon", 2e-2, 0.03}}) {
    const auto [seen, out] =
        samples_of(pipeline(std::string("method: ") + method), square(48), std::vector<Acquisition>(scan), GetParam());
    ASSERT_EQ(out.images.size(), 1u) << method;
    EXPECT_NEAR(seen[0].sum(), std::numbers::pi / 4 + beyond, 0.02) << method;
    EXPECT_LT(largest_error(pixels<cfloat>(out.images[0]), 0, blob.image({48, 48, 1})), tolerance) << method;
    EXPECT_EQ(out.said(protocol::Level::info, "Pipe and Menon's residual"),
              std::string(method) == "pipe_menon" ? 1 : 0);
  }
}

ECHOTRAIN_ON_BACKENDS(DensityTest);

TEST(DensityWeightsTest, OtherWeightsAtTheSamePositionsAreNotReused) {
  Path path = spiral(8, 200, 4);
  std::vector<Acquisition> scan;
  append(scan, sample(path, {Blob{}}), 0);
  for (auto& w : path.weights)
    for (double& v : w) v *= 2;
  append(scan, sample(path, {Blob{}}), 1);
  const auto [seen, out] = samples_of(pipeline("method: from_data"), square(24, "spiral"), std::move(scan));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_NEAR(seen[1].sum() / seen[0].sum(), 2, 1e-6);
}

TEST(DensityWeightsTest, EncodingsWithOtherVoxelsDropOtherSamples) {
  // The second encoding's image has voxels twice as large, which hold only half of k-space.
  HeaderSpec fine{.encoded = {48, 48, 1}, .trajectory = "radial"}, coarse = fine;
  coarse.recon = {24, 24, 1};
  coarse.recon_fov = {48, 48, 1};
  auto scan = sample(radial(51, 96), {Blob{}}), again = scan;
  for (auto& a : again) {
    a.head.encoding_space_ref = 1;
    scan.push_back(a);
  }
  const auto [seen, out] = samples_of(kRamp, header({fine, coarse}), std::move(scan));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(std::count(seen[0].weights.begin(), seen[0].weights.end(), 0.0f), 0);
  EXPECT_GT(std::count(seen[1].weights.begin(), seen[1].weights.end(), 0.0f), 51 * 40);
  EXPECT_EQ(+out.images[1].head.matrix_size[0], 24);
}

TEST(DensityWeightsTest, SumsAreThoseOfTheSampledRegion) {
  constexpr double kPi = std::numbers::pi;
  // The last shell ends half a step beyond the last sample: within 2 / 96 of the radius.
  EXPECT_NEAR(samples_of(kRamp, square(48), sample(radial(51, 96), {Blob{}})).first.at(0).sum(), kPi / 4, 0.035);
  EXPECT_EQ(samples_of(pipeline("method: none"), square(48), sample(radial(51, 96), {Blob{}})).first.at(0).sum(),
            51 * 96);
  Path path = spiral(8, 200, 4);
  for (auto& w : path.weights)
    for (double& v : w) v *= 17;
  const double reach = 0.5 * 199.5 / 200;
  EXPECT_NEAR(samples_of(pipeline("method: from_data, normalize: area"), square(24, "spiral"), sample(path, {Blob{}}))
                  .first.at(0)
                  .sum(),
              kPi * reach * reach, 1e-5);
  EXPECT_NEAR(samples_of(pipeline("method: from_data"), square(24, "spiral"), sample(path, {Blob{}})).first.at(0).sum(),
              17 * kPi / 4, 17 * kPi / 4 * 1e-3);
}

TEST(DensityErrorTest, AWrongUnitIsNamed) {
  constexpr double kPi = std::numbers::pi;
  const std::vector<std::pair<std::string, double>> units = {{"radians_per_pixel", 2 * kPi},
                                                             {"cycles_per_fov", 256},
                                                             {"cycles_per_m", 1000 / 1.2},
                                                             {"cycles_per_m", 1000 / 4.1}};
  for (const auto& [name, unit] : units) {
    HeaderSpec spec{.encoded = {256, 256, 1}, .trajectory = "radial"};
    const double voxel_mm = name == "cycles_per_m" ? 1000 / unit : 1.2;  // 4.1 mm: nearly the numbers of cycles_per_fov
    spec.encoded_fov = {256 * voxel_mm, 256 * voxel_mm, 5};
    const std::array<double, 3> scale = {unit, unit, unit};
    const std::string text = client_error([&] { run(kRamp, header(spec), sample(radial(20, 256), {Blob{}}, scale)); });
    EXPECT_NE(text.find("the trajectory is likely in " + name + ";"), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("largest {:.4g}", 0.5 * unit)), std::string::npos) << text;
    EXPECT_NE(text.find("trajectory_unit"), std::string::npos);
  }
}

TEST(DensityErrorTest, WeightsThatAreMissingOrNothing) {
  const auto h = square(24, "spiral");
  Path path = spiral(8, 100, 4);
  path.weights.clear();
  std::string text = client_error([&] { run(pipeline("method: from_data"), h, sample(path, {Blob{}})); });
  EXPECT_NE(text.find("needs 3 trajectory dimensions, the last one the weight, but the data has 2; use method: ramp"),
            std::string::npos)
      << text;
  path.weights.assign(8, std::vector<double>(100, 0.0));
  text = client_error([&] { run(pipeline("method: from_data"), h, sample(path, {Blob{}})); });
  EXPECT_NE(text.find("sum to nothing"), std::string::npos) << text;
}

TEST(DensityErrorTest, TrajectoriesThatDoNotSuitThePipeline) {
  const auto h = square(24);
  std::string text = client_error([&] { run(kRamp, h, {readout(1, std::vector<cfloat>(8))}); });
  EXPECT_NE(text.find("0 trajectory dimensions, but a 2D encoding needs 2"), std::string::npos) << text;

  const std::string volume = pipeline("method: ramp", "", 3);
  EXPECT_NE(client_error([&] { run(volume, h, {}); }).find("grids 3D data"), std::string::npos);
  const auto h3 = header({.encoded = {24, 24, 24}, .trajectory = "other"});
  EXPECT_NE(client_error([&] { run(kRamp, h3, {}); }).find("use kooshball_3d"), std::string::npos);
  text = client_error([&] { run(volume, h3, sample(radial(5, 24), {Blob{}})); });
  EXPECT_NE(text.find("2 trajectory dimensions, but a 3D encoding needs 3"), std::string::npos) << text;

  EXPECT_NE(client_error([&] { run(kRamp, square(24, "cartesian"), {}); }).find("use cartesian_2d"), std::string::npos);
  EXPECT_NE(client_error([&] { run(kRamp, square(24, "epi"), {}); }).find("'epi'"), std::string::npos);
}

TEST(DensityErrorTest, AccelerationIsWarnedAbout) {
  HeaderSpec spec{.encoded = {24, 24, 1}, .trajectory = "radial"};
  spec.parallel =
      "<accelerationFactor><kspace_encoding_step_1>2</kspace_encoding_step_1><kspace_encoding_step_2>2"
      "</kspace_encoding_step_2></accelerationFactor>";
  EXPECT_EQ(run(kRamp, header(spec), {}).warned("R=4: image will"), 1);
  spec.parallel =  // the largest counters: 65535^2 does not fit an int
      "<accelerationFactor><kspace_encoding_step_1>65535</kspace_encoding_step_1><kspace_encoding_step_2>65535"
      "</kspace_encoding_step_2></accelerationFactor>";
  EXPECT_EQ(run(kRamp, header(spec), {}).warned("R=4294836225: image will"), 1);
}

TEST(DensityErrorTest, PlanesThatTrajectoriesDoNotEncodeAreWarnedAbout) {
  const HeaderSpec spec{.encoded = {24, 24, 1}, .recon = {24, 24, 8}, .trajectory = "radial"};
  const Outcome out = run(kRamp, header(spec), sample(radial(31, 24), {Blob{}}));
  EXPECT_EQ(out.warned("has 8 planes along z, its encoded space one"), 1);
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_EQ(out.images[0].head.matrix_size[2], 1);
  EXPECT_EQ(run(kRamp, square(24), {}).warned("planes along z"), 0);
}

TEST(DensityRefusalTest, WhatAMethodCannotDo) {
  const auto line = sample(radial(1, 40), {Blob{}});
  EXPECT_NE(client_error([&] { run(pipeline("method: voronoi"), square(24), line); }).find("voronoi"),
            std::string::npos);
  EXPECT_NE(client_error([&] {
              run(pipeline("method: voronoi", "", 3), header({.encoded = {24, 24, 24}, .trajectory = "other"}),
                  sample(kooshball(10, 20), {Blob{3}}));
            }).find("for 2D data"),
            std::string::npos);
}

}  // namespace
}  // namespace echotrain::testing
