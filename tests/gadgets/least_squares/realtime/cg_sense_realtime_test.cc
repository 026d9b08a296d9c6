// cg_sense_realtime: images of frames whose trajectories never repeat, against float64 sums and the pipeline with
// plans.
#include <gmock/gmock.h>

#include "tests/gadgets/scan.h"
#include "tests/support/direct_sum.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kN = 24, kRead = 48;
constexpr double kGolden = 111.24611797498108 * std::numbers::pi / 180;

std::string realtime(const std::string& options, const std::string& keys = "") {
  return yaml("  - density_compensation: {method: ramp, share: equal}\n  - cg_sense_realtime: {" + options +
                  "}\n  - image: {component: complex}\n",
              keys);
}
protocol::Header plane() { return header({.encoded = {kN, kN, 1}, .trajectory = "goldenangle"}); }

/// An object seen by coils with smooth sensitivities whose squares sum to 1, and its golden-angle spokes.
struct Scene {
  int coils;
  std::vector<cdouble> maps;  // [coil, y, x]
  explicit Scene(int n_coils) : coils(n_coils) {
    std::vector<double> power(kN * kN);
    for (int c = 0; c < coils; ++c)
      for (int y = 0; y < kN; ++y)
        for (int x = 0; x < kN; ++x) {
          const double angle = 2 * std::numbers::pi * c / coils;
          const double dx = (x - kN / 2) / (0.9 * kN) - std::cos(angle),
                       dy = (y - kN / 2) / (0.9 * kN) - std::sin(angle);
          const cdouble s = coils == 1 ? 1.0 : std::exp(-dx * dx - dy * dy) * std::polar(1.0, 0.4 * c + 0.5 * dx);
          maps.push_back(s);
          power[static_cast<std::size_t>(y * kN + x)] += std::norm(s);
        }
    for (std::size_t i = 0; i < maps.size(); ++i) maps[i] /= std::sqrt(power[i % power.size()]);
  }
  /// A disc with a hole, smooth enough for this matrix, moved by `shift` voxels along x.
  static std::vector<cdouble> object(double shift) {
    std::vector<cdouble> image;
    for (int y = 0; y < kN; ++y)
      for (int x = 0; x < kN; ++x) {
        const double r = std::hypot(x - kN / 2, y - kN / 2), hole = std::hypot(x - kN / 2 - 3 - shift, y - kN / 2 + 1);
        image.push_back(1 / (1 + std::exp(2 * (r - 8))) - 0.7 * std::exp(-hole * hole / 6));
      }
    return image;
  }
  /// Spokes first .. first + n - 1, all of one frame.
  std::vector<Acquisition> spokes(int first, int n, int repetition, double shift, double scale = 1) const {
    const auto image = object(shift);
    std::vector<cfloat> of_coils;
    for (std::size_t i = 0; i < maps.size(); ++i) of_coils.push_back(cfloat(scale * maps[i] * image[i % image.size()]));
    std::vector<Acquisition> out;
    for (int s = first; s < first + n; ++s) {
      std::vector<float> trajectory;
      std::vector<double> k;
      for (int i = 0; i < kRead; ++i)
        for (const double direction : {std::cos(s * kGolden), std::sin(s * kGolden)}) {
          trajectory.push_back(static_cast<float>(direction * (i - kRead / 2) / kRead));
          k.push_back(static_cast<double>(trajectory.back()));
        }
      const auto data = direct_forward(k, of_coils, coils, {kN, kN});
      std::vector<cfloat> by_coil(data.size());
      for (std::size_t i = 0; i < data.size(); ++i)
        by_coil[i % static_cast<std::size_t>(coils) * kRead + i / static_cast<std::size_t>(coils)] = cfloat(data[i]);
      Acquisition a = readout(coils, std::move(by_coil), std::move(trajectory));
      a.head.idx.repetition = static_cast<std::uint16_t>(repetition);
      out.push_back(std::move(a));
    }
    return out;
  }
  /// Frames of new spokes.
  std::vector<Acquisition> frames(int count, int n, double shift_per_frame = 0) const {
    std::vector<Acquisition> out;
    for (int f = 0; f < count; ++f)
      for (auto& a : spokes(f * n, n, f, f * shift_per_frame)) out.push_back(std::move(a));
    return out;
  }
};

double error_of(const protocol::Image& image, const std::vector<cdouble>& truth) {
  return nrmse(pixels<cfloat>(image), truth);
}
std::vector<double> magnitudes(const std::vector<cfloat>& values) {
  std::vector<double> out;
  for (const auto v : values) out.push_back(std::abs(cdouble(v)));
  return out;
}
double magnitude_error(const protocol::Image& image, const std::vector<cdouble>& truth) {
  std::vector<cdouble> size;
  for (const auto v : truth) size.push_back(std::abs(v));
  std::vector<cfloat> got;
  for (const double v : magnitudes(pixels<cfloat>(image))) got.push_back(static_cast<float>(v));
  return nrmse(got, size);
}

using CgSenseRealtimeTest = OnEachBackend;

// One coil sees all: its map is 1. Enough spokes and steps leave the object, whose corners of k-space are empty to
// 1e-3.
TEST_P(CgSenseRealtimeTest, FindsTheObject) {
  const Scene scene(1);
  const auto out = run(realtime("iterations: 40, lambda: 0, tikhonov: 0, accuracy: 1e-5"), plane(),
                       scene.frames(3, 55, 0.5), here());
  ASSERT_EQ(out.images.size(), 3u);
  for (int f = 0; f < 3; ++f)
    EXPECT_LT(error_of(out.images[static_cast<std::size_t>(f)], Scene::object(0.5 * f)), 5e-3) << f;
}

// Undersampled frames of several coils, each with new spokes, are no worse than by fhd, coil_maps and pcg, which make
// plans for each frame; from the second on the frame before helps.
TEST_P(CgSenseRealtimeTest, IsAsGoodAsWithPlans) {
  const Scene scene(6);
  const auto scan = scene.frames(4, 13);
  const auto out = run(realtime("iterations: 12, lambda: 0.001, tikhonov: 0.0005, calibration: 12, block: 5, "
                                "accuracy: 1e-4"),
                       plane(), scan, here());
  const auto planned =
      run(yaml("  - density_compensation: {method: ramp, share: equal}\n  - fhd: {accuracy: 1e-4}\n"
               "  - coil_maps: {calibration: 12, block: 5}\n"
               "  - pcg: {iterations: 12, tolerance: 0, lambda: 0.003}\n  - coil_combine: {method: none}\n"
               "  - image: {component: complex}\n"),
          plane(), scan, here());
  ASSERT_EQ(out.images.size(), 4u);
  ASSERT_EQ(planned.images.size(), 4u);
  const auto truth = Scene::object(0);
  for (std::size_t f = 0; f < 4; ++f) {
    const double ours = magnitude_error(out.images[f], truth), theirs = magnitude_error(planned.images[f], truth);
    EXPECT_LT(ours, 1.05 * theirs) << f;
    EXPECT_LT(ours, 0.1) << f;
  }
}

// A heavy prior holds the image of the frame before; none lets it follow.
TEST_P(CgSenseRealtimeTest, LambdaDrawsToTheFrameBefore) {
  const Scene scene(1);
  const auto scan = scene.frames(2, 34, 3);
  const auto held = run(realtime("iterations: 20, lambda: 100, tikhonov: 0"), plane(), scan, here());
  const auto free = run(realtime("iterations: 20, lambda: 0, tikhonov: 0"), plane(), scan, here());
  ASSERT_EQ(held.images.size(), 2u);
  ASSERT_EQ(free.images.size(), 2u);
  const auto first = pixels<cfloat>(held.images[0]);
  EXPECT_LT(error_of(held.images[1], {first.begin(), first.end()}), 0.2);
  EXPECT_LT(error_of(free.images[1], Scene::object(3)), 0.05);
}

// The bits do not depend on how readouts arrive, nor on the run; places have frames of their own.
TEST_P(CgSenseRealtimeTest, TheSameBitsHoweverReadoutsArrive) {
  const Scene scene(4);
  std::vector<Acquisition> scan;
  for (int f = 0; f < 5; ++f)
    for (int slice = 0; slice < 2; ++slice)
      for (auto& a : scene.spokes(13 * (2 * f + slice), 13, f, slice == 0 ? 0 : f)) {
        a.head.idx.slice = static_cast<std::uint16_t>(slice);
        scan.push_back(std::move(a));
      }
  const std::string text = realtime("iterations: 4, average: 3, refresh: 2, calibration: 12");
  const auto whole = run(text, plane(), scan, here());
  ASSERT_EQ(whole.images.size(), 10u);
  for (const std::size_t readouts : {1u, 7u}) {
    const auto out =
        run(text, plane(), scan, {.backend = GetParam(), .split = [readouts](std::size_t) { return readouts; }});
    ASSERT_EQ(out.images.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i)
      EXPECT_EQ(pixels<cfloat>(out.images[i]), pixels<cfloat>(whole.images[i])) << readouts << ", " << i;
  }
  // The first slice alone gives its images.
  std::vector<Acquisition> alone;
  for (const auto& a : scan)
    if (a.head.idx.slice == 0) alone.push_back(a);
  const auto of_one = run(text, plane(), alone, here());
  ASSERT_EQ(of_one.images.size(), 5u);
  for (std::size_t f = 0; f < 5; ++f) EXPECT_EQ(pixels<cfloat>(of_one.images[f]), pixels<cfloat>(whole.images[2 * f]));
}

TEST_P(CgSenseRealtimeTest, WindowsOfAnyNumberOfReadouts) {
  const Scene scene(1);
  const auto scan = scene.spokes(0, 55, 0, 0);
  const auto out = run(realtime("iterations: 20, lambda: 0, tikhonov: 0", "frame: {readouts: 34, stride: 7}\n"),
                       plane(), scan, here());
  ASSERT_EQ(out.images.size(), 4u);
  for (const auto& image : out.images) EXPECT_LT(error_of(image, Scene::object(0)), 0.03);
}

/// Gives the readout weights of its own, a ramp.
Acquisition weighted(Acquisition a, float factor) {
  std::vector<float> positions(2 * kRead), trajectory;
  a.trajectory.copy_to(positions.data());
  for (std::size_t i = 0; i < kRead; ++i) {
    trajectory.insert(trajectory.end(), {positions[2 * i], positions[2 * i + 1]});
    trajectory.push_back(factor * (0.25f + std::abs(static_cast<float>(i) - kRead / 2)));
  }
  a.head.trajectory_dimensions = 3;
  a.trajectory = protocol::Payload::take(trajectory);
  return a;
}

// A frame without signal, or whose weighed sums are not finite, is zero, and what comes after is as if it had not been.
TEST_P(CgSenseRealtimeTest, AFrameWithoutSignal) {
  const Scene scene(3);
  for (const bool finite : {true, false}) {
    std::vector<Acquisition> scan;
    for (auto& a : scene.spokes(0, 34, 0, 0, finite ? 0.0 : 1e30)) scan.push_back(weighted(a, finite ? 1.0f : 1e12f));
    for (auto& a : scene.spokes(34, 34, 1, 0)) scan.push_back(weighted(a, 1));
    for (auto& a : scene.spokes(68, 34, 2, 0)) scan.push_back(weighted(a, 1));
    const auto out = run(yaml("  - density_compensation: {method: from_data}\n  - cg_sense_realtime: {iterations: 20, "
                              "lambda: 0, tikhonov: 0.001, calibration: 12}\n  - image: {component: complex}\n"),
                         plane(), std::move(scan), here());
    ASSERT_EQ(out.images.size(), 3u);
    EXPECT_EQ(pixels<cfloat>(out.images[0]), std::vector<cfloat>(kN * kN));
    EXPECT_LT(magnitude_error(out.images[1], Scene::object(0)), 0.05) << finite;
    EXPECT_LT(magnitude_error(out.images[2], Scene::object(0)), 0.05) << finite;
  }
}

// A spike of 1e30 in one readout spoils its frame. The next one begins anew, with maps in which the spike has no part;
// a spike in the scan's first frame is in the maps of that frame only.
TEST_P(CgSenseRealtimeTest, AFrameAfterASpike) {
  const Scene scene(4);
  const std::string text = realtime("iterations: 12, lambda: 0.01, average: 4, refresh: 2, calibration: 12, block: 5");
  const auto scan = scene.frames(8, 21);
  const auto without = run(text, plane(), scan, here());
  ASSERT_EQ(without.images.size(), 8u);
  EXPECT_EQ(without.warned("spike"), 0);
  const auto truth = Scene::object(0);
  for (const std::size_t spoiled : {0u, 4u}) {
    auto spiky = scan;
    Acquisition& one = spiky[21 * spoiled + 3];
    std::vector<cfloat> data(4 * kRead);
    one.data.copy_to(data.data());
    data[kRead + 20] = cfloat(1e30f, -1e30f);
    one.data = protocol::Payload::take(data);
    const auto out = run(text, plane(), std::move(spiky), here());
    ASSERT_EQ(out.images.size(), 8u);
    for (std::size_t f = 0; f < 8; ++f) {
      if (f == spoiled) continue;
      // The measure of a frame that begins with nothing is the first of the scan without a spike.
      EXPECT_LT(magnitude_error(out.images[f], truth), 1.1 * magnitude_error(without.images[0], truth)) << f;
    }
    EXPECT_EQ(out.warned("(a spike?)"), 1);
  }
}

// The scan's first frames may be of noise alone, and the signal may end: means follow.
TEST_P(CgSenseRealtimeTest, ASignalThatBeginsLateOrChangesItsSize) {
  const Scene scene(4);
  const std::string text = realtime("iterations: 12, lambda: 0.01, average: 4, refresh: 2, calibration: 12, block: 5");
  std::vector<Acquisition> scan;
  for (int f = 0; f < 14; ++f)
    for (auto& a : scene.spokes(21 * f, 21, f, 0, f < 3 ? 1e-4 : 1)) scan.push_back(std::move(a));
  const auto out = run(text, plane(), std::move(scan), here());
  ASSERT_EQ(out.images.size(), 14u);
  for (std::size_t f = 5; f < 14; ++f) EXPECT_LT(magnitude_error(out.images[f], Scene::object(0)), 0.1) << f;
}

TEST_P(CgSenseRealtimeTest, RefusesWhatItCannotDo) {
  const Scene one(1);
  EXPECT_THAT(
      client_error([&] {
        run(realtime(""), header({.encoded = {16, 16, 16}, .trajectory = "radial"}), one.spokes(0, 1, 0, 0), here());
      }),
      HasSubstr("images are 2D"));
  EXPECT_ANY_THROW(run(realtime("iterations: 0"), plane(), {}, here()));
}

ECHOTRAIN_ON_BACKENDS(CgSenseRealtimeTest);

}  // namespace
}  // namespace echotrain::testing
