// Images are in the object's units: an object of amplitude 1 has value 1, at its place, by every way of sampling.
#include "tests/gadgets/blob.h"

#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::testing {
namespace {

std::string gridding_yaml(const std::string& method, int dims, int width = 5, double oversampling = 1.5) {
  return yaml(
      fmt::format("  - density_compensation: {{method: {}}}\n"
                  "  - gridding: {{dimensions: {}, kernel_width: {}, oversampling: {}}}\n"
                  "  - fft\n  - deapodization\n  - coil_combine: {{method: none}}\n"
                  "  - image: {{component: complex}}\n",
                  method, dims, width, oversampling));
}

protocol::Header measurement(const std::array<int, 3>& n, const std::string& trajectory) {
  return header({.encoded = n, .trajectory = trajectory});
}

/// Blobs at three places: the centre, and two that tell the axes and their signs apart.
std::vector<Blob> blobs(int dims) {
  return {{dims, {0, 0, 0}}, {dims, {3, -2, dims == 3 ? 1.0 : 0.0}}, {dims, {-1.5, 4, dims == 3 ? -2.5 : 0.0}}};
}

void expect_blobs(const Outcome& out, const std::array<int, 3>& n, const std::vector<Blob>& coils, double tolerance) {
  ASSERT_EQ(out.images.size(), 1u);
  const auto image = pixels<cfloat>(out.images[0]);
  ASSERT_EQ(image.size(), coils.size() * static_cast<std::size_t>(n[0] * n[1] * n[2]));
  const auto centre = static_cast<std::size_t>((n[2] / 2 * n[1] + n[1] / 2) * n[0] + n[0] / 2);
  EXPECT_NEAR(std::abs(cdouble(image[centre]) - 1.0), 0, std::max(1e-3, tolerance / 2));
  for (std::size_t c = 0; c < coils.size(); ++c)
    EXPECT_LT(largest_error(image, c, coils[c].image(n)), tolerance) << "coil " << c;
}

// The sampling itself is good to less than 1e-3 in all of these: shells of width dk stand for the disc to about
// 6.6 dk^2, twice the centre's share (Euler-Maclaurin), and dk = 1/96 or finer. What is left is float32 and gridding.
constexpr double kTolerance = 2e-3;

using BlobTest = OnEachBackend;

TEST_P(BlobTest, Radial) {
  for (const std::array<int, 3> n : {std::array{48, 48, 1}, {47, 47, 1}, {48, 35, 1}, {33, 48, 1}}) {
    SCOPED_TRACE(fmt::format("{} x {}", n[0], n[1]));
    expect_blobs(run(gridding_yaml("ramp", 2), measurement(n, "radial"), sample(radial(151, 96), blobs(2)), here()), n,
                 blobs(2), kTolerance);
  }
}

TEST_P(BlobTest, GoldenAngleRadial) {
  // With 377 spokes, a Fibonacci number, gaps have two sizes, whose unevenness averages out.
  const std::array n{48, 48, 1};
  expect_blobs(
      run(gridding_yaml("ramp", 2), measurement(n, "goldenangle"), sample(golden_radial(377, 96), blobs(2)), here()), n,
      blobs(2), kTolerance);
}

TEST_P(BlobTest, SpiralWithWeightsFromTheData) {
  const std::array n{48, 45, 1};
  expect_blobs(
      run(gridding_yaml("from_data", 2), measurement(n, "spiral"), sample(spiral(16, 1200, 6), blobs(2)), here()), n,
      blobs(2), kTolerance);
}

TEST_P(BlobTest, SpiralWithRamp) {
  const std::array n{48, 45, 1};
  Path path = spiral(16, 1200, 6);
  path.weights.clear();
  expect_blobs(run(gridding_yaml("ramp", 2), measurement(n, "spiral"), sample(path, blobs(2)), here()), n, blobs(2),
               kTolerance);
}

TEST_P(BlobTest, KooshBall) {
  // A shell's exact volume times the value at its middle exceeds the integral by pi/3 dk^2 times the integral of f
  // along a spoke: 5e-4 at dk = 1/160.
  for (const std::array<int, 3> n : {std::array{24, 24, 24}, {25, 22, 27}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", n[0], n[1], n[2]));
    expect_blobs(run(gridding_yaml("ramp", 3), measurement(n, "other"), sample(kooshball(1500, 160), blobs(3)), here()),
                 n, blobs(3), kTolerance);
  }
}

TEST_P(BlobTest, EveryKernelWidthAndOversampling) {
  for (int width = 4; width <= 7; ++width)
    for (double oversampling : {1.25, 1.5, 2.0})
      for (const std::array<int, 3> n : {std::array{40, 40, 1}, {41, 37, 1}}) {
        SCOPED_TRACE(fmt::format("width {}, oversampling {}, {} x {}", width, oversampling, n[0], n[1]));
        // A smooth object's aliases are no larger than those of white data; a single voxel may see a few times the RMS.
        const double theory = numerics::expected_error({width, oversampling}, {n[1], n[0]});
        expect_blobs(run(gridding_yaml("ramp", 2, width, oversampling), measurement(n, "radial"),
                         sample(radial(131, 96), blobs(2)), here()),
                     n, blobs(2), std::max(kTolerance, 4 * theory));
      }
}

TEST_P(BlobTest, CoarserAndFinerImagesKeepTheAmplitude) {
  // Encoded 48 voxels of 1 mm; images of 32 (1.5 mm) and 72 (2/3 mm) voxels over the same field of view, and the middle
  // 24 voxels of 1 mm.
  struct Case {
    int matrix;
    double fov, voxel;
  };
  for (const Case c : {Case{32, 48, 1.5}, Case{72, 48, 2.0 / 3}, Case{24, 24, 1}}) {
    SCOPED_TRACE(fmt::format("{} voxels over {} mm", c.matrix, c.fov));
    HeaderSpec spec{.encoded = {48, 48, 1}, .recon = {c.matrix, c.matrix, 1}, .trajectory = "radial"};
    spec.recon_fov = {c.fov, c.fov, 1};
    const Blob blob{2, {2, -3, 0}};
    const auto out = run(gridding_yaml("ramp", 2), header(spec), sample(radial(151, 96), {blob}), here());
    ASSERT_EQ(out.images.size(), 1u);
    const auto image = pixels<cfloat>(out.images[0]);
    std::vector<double> truth;
    for (int y = 0; y < c.matrix; ++y)
      for (int x = 0; x < c.matrix; ++x)
        truth.push_back(blob.at((x - c.matrix / 2) * c.voxel, (y - c.matrix / 2) * c.voxel, 0));
    ASSERT_EQ(image.size(), truth.size());
    EXPECT_LT(largest_error(image, 0, truth), kTolerance);
  }
}

TEST_P(BlobTest, Cartesian) {
  for (const std::array<int, 3> n : {std::array{48, 48, 1}, {33, 40, 1}, {32, 31, 30}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", n[0], n[1], n[2]));
    const int dims = n[2] > 1 ? 3 : 2;
    const auto coils = blobs(dims);
    std::vector<Acquisition> scan;
    for (int z = 0; z < n[2]; ++z)
      for (int y = 0; y < n[1]; ++y) {
        std::vector<cfloat> data;
        for (const Blob& blob : coils)
          for (int x = 0; x < n[0]; ++x) {
            const std::array<double, 3> k{(x - n[0] / 2) / static_cast<double>(n[0]),
                                          (y - n[1] / 2) / static_cast<double>(n[1]),
                                          (z - n[2] / 2) / static_cast<double>(n[2])};
            data.emplace_back(blob.kspace(k.data()));
          }
        scan.push_back(readout(static_cast<int>(coils.size()), std::move(data)));
        scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
        scan.back().head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
      }
    expect_blobs(run(yaml("  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n"),
                     header({.encoded = n, .limits = step_limit(n[1])}), std::move(scan), here()),
                 n, coils, 1e-5);
  }
}

ECHOTRAIN_ON_BACKENDS(BlobTest);

}  // namespace
}  // namespace echotrain::testing
