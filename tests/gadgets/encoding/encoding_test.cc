// encoding: Cartesian scans, acquired in part, as least-squares problems whose solution is the object.
#include "gadgets/encoding/encoding.h"

#include <gmock/gmock.h>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

/// pcg with maps that are given; images are complex.
std::string solver(const std::string& pcg = "prior: none, iterations: 300, tolerance: 1e-6") {
  return yaml("  - cartesian_kspace\n  - encoding\n  - coil_maps: {method: given}\n  - pcg: {" + pcg +
              "}\n  - coil_combine: {method: none}\n  - image: {component: complex}\n");
}
const std::string kCoilImages =
    yaml("  - cartesian_kspace\n  - fft\n  - coil_combine: {method: none}\n  - image: {component: complex}\n");

/// An object seen by coils with maps of their own, everything random, so that folded voxels can be told apart.
struct CoilScene {
  std::array<int, 3> n;  // x, y, z: the matrix encoded, and that of the image
  int coils;
  std::vector<cfloat> object, maps;

  CoilScene(std::array<int, 3> extents, int channels, unsigned seed) : n(extents), coils(channels) {
    std::mt19937 random(seed);
    object = noise(voxels(), random);
    maps = noise(voxels() * static_cast<std::size_t>(coils), random);
  }
  std::size_t voxels() const { return static_cast<std::size_t>(n[0] * n[1] * n[2]); }
  /// Samples [coil, z, y, x] by their sums, axis by axis: an object of amplitude 1 gives N at the centre.
  std::vector<cdouble> kspace() const {
    std::vector<cdouble> data;
    for (std::size_t i = 0; i < maps.size(); ++i) data.push_back(cdouble(maps[i]) * cdouble(object[i % voxels()]));
    std::size_t stride = 1;
    for (const int extent : n) {
      const std::vector<cdouble> from = data;
      for (std::size_t i = 0; i < data.size(); ++i) {
        const int at = static_cast<int>(i / stride) % extent;
        const std::size_t start = i - static_cast<std::size_t>(at) * stride;
        data[i] = 0;
        for (int r = 0; r < extent; ++r)
          data[i] += from[start + static_cast<std::size_t>(r) * stride] *
                     std::polar(1.0, -2 * std::numbers::pi * (r - extent / 2) * (at - extent / 2) / extent);
      }
      stride *= static_cast<std::size_t>(extent);
    }
    return data;
  }
  /// The rows that `came` wants, each without its first `cut` samples.
  std::vector<Acquisition> scan(const std::function<bool(int y, int z)>& came, int cut = 0, int repetition = 0) const {
    const auto data = kspace();
    std::vector<Acquisition> out;
    for (int z = 0; z < n[2]; ++z)
      for (int y = 0; y < n[1]; ++y) {
        if (!came(y, z)) continue;
        std::vector<cfloat> line;
        for (int c = 0; c < coils; ++c)
          for (int x = cut; x < n[0]; ++x)
            line.push_back(cfloat(data[static_cast<std::size_t>(((c * n[2] + z) * n[1] + y) * n[0] + x)]));
        Acquisition a = readout(coils, std::move(line));
        a.head.center_sample = static_cast<std::uint16_t>(n[0] / 2 - cut);
        a.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
        a.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
        a.head.idx.repetition = static_cast<std::uint16_t>(repetition);
        out.push_back(std::move(a));
      }
    return out;
  }
  protocol::Header header_of() const {
    return header(
        {.encoded = n,
         .limits = step_limit(n[1]) + (n[2] > 1 ? limit("kspace_encoding_step_2", 0, n[2] - 1, n[2] / 2) : "")});
  }
  protocol::Image maps_message() const {
    protocol::Image image;
    image.head.version = 1;
    image.head.data_type = 7;
    image.head.channels = static_cast<std::uint16_t>(coils);
    for (std::size_t a = 0; a < 3; ++a) image.head.matrix_size[a] = static_cast<std::uint16_t>(n[a]);
    image.pixels = protocol::Payload::take(std::vector<cfloat>(maps));
    image.attributes = "<ismrmrdMeta><meta><name>role</name><value>coil_maps</value></meta></ismrmrdMeta>";
    return image;
  }
};

using EncodingTest = OnEachBackend;

TEST_P(EncodingTest, UndersampledScansGiveTheObject) {
  struct Case {
    const char* what;
    std::array<int, 3> n;
    std::function<bool(int y, int z)> came;
    int cut;
  };
  const auto random = [](int y, int z) { return (y * 7 + z * 13 + y * y * 3) % 10 < 5; };
  for (const Case& c :
       {Case{"every second line", {16, 14, 1}, [](int y, int) { return y % 2 == 1; }, 0},
        Case{"every third, and a band", {12, 21, 1}, [](int y, int) { return y % 3 == 0 || std::abs(y - 10) < 3; }, 0},
        Case{"any lines", {13, 20, 1}, random, 0},
        Case{"partial Fourier", {12, 16, 1}, [](int y, int) { return y >= 6; }, 0},
        Case{"partial echoes", {16, 10, 1}, [](int y, int) { return y % 2 == 0; }, 5},
        Case{"both axes", {8, 10, 6}, [](int y, int z) { return y % 2 == 0 && z % 2 == 1; }, 0},
        Case{"an ellipse", {8, 9, 8}, [](int y, int z) { return (y - 4) * (y - 4) + (z - 4) * (z - 4) < 15; }, 2}}) {
    SCOPED_TRACE(c.what);
    const CoilScene scene(c.n, 12, 3);
    RunOptions options = here();
    options.images = {scene.maps_message()};
    const auto out = run(solver(), scene.header_of(), scene.scan(c.came, c.cut), options);
    ASSERT_EQ(out.images.size(), 1u);
    // The condition number is some tens, and pcg stops at 1e-6.
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), scene.object), 1e-4);
  }
}

// Without a gap, the equations are those of each voxel: S^H F^-1 d / sum |S|^2, with the images that `fft` gives.
TEST_P(EncodingTest, WholeKspaceGivesTheWeightedSum) {
  HeaderSpec spec{
      .encoded = {24, 11, 1}, .recon = {12, 11, 1}, .encoded_fov = {480, 110, 5}, .recon_fov = {240, 110, 5}};
  spec.limits = step_limit(11);
  const CoilScene encoded({24, 11, 1}, 4, 5), image({12, 11, 1}, 4, 6);
  const auto scan = encoded.scan([](int, int) { return true; });
  const auto coils = pixels<cfloat>(run(kCoilImages, header(spec), scan, here()).images.at(0));
  RunOptions options = here();
  options.images = {image.maps_message()};
  const auto out = run(solver(), header(spec), scan, options);
  std::vector<cdouble> truth;
  for (std::size_t v = 0; v < image.voxels(); ++v) {
    cdouble sum = 0;
    double size = 0;
    for (std::size_t i = v; i < image.maps.size(); i += image.voxels()) {
      sum += std::conj(cdouble(image.maps[i])) * cdouble(coils[i]);
      size += std::norm(cdouble(image.maps[i]));
    }
    truth.push_back(sum / size);
  }
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), truth), 1e-5);
}

// F^H W d is what `fft` makes of the data; |d|^2 and the number of samples come with the weights, for the discrepancy.
TEST_P(EncodingTest, EquationsAreThoseOfTheData) {
  HeaderSpec spec{
      .encoded = {20, 12, 1}, .recon = {12, 15, 1}, .encoded_fov = {200, 120, 5}, .recon_fov = {100, 120, 5}};
  spec.limits = step_limit(12);
  const CoilScene scene({20, 12, 1}, 3, 7);
  const auto scan = scene.scan([](int y, int) { return y % 2 == 0; }, 3);
  const auto images = pixels<cfloat>(run(kCoilImages, header(spec), scan, here()).images.at(0));
  double power = 0;
  for (const Acquisition& a : scan) {
    std::vector<cfloat> samples(a.data.bytes.size() / sizeof(cfloat));
    a.data.copy_to(samples.data());
    for (const cfloat v : samples) power += std::norm(cdouble(v));
  }
  const double w = 24.0 * 15 / (240.0 * 240);  // points transformed over the square of points encoded
  RunOptions options = here();
  options.tap = "encoding";
  int taken = 0;
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& equations = std::get<NormalEquations>(item);
    EXPECT_LT(nrmse(elements(compute, equations.right), images), 1e-6);
    EXPECT_NEAR(elements(compute, equations.power).at(0), w * power, 1e-5 * w * power);
    EXPECT_NEAR(equations.weight, w * 6 * 17, 1e-6);
    EXPECT_EQ(equations.coils, 3);
    EXPECT_EQ(equations.sets, 1);
    EXPECT_EQ(equations.calibration, nullptr);
    EXPECT_EQ(equations.padded, (numerics::Shape{1, 15, 24}));
    EXPECT_EQ(equations.matrix->image(), (numerics::Shape{15, 12}));
    EXPECT_LE(equations.matrix->largest(), 1);
    ++taken;
  };
  run(yaml("  - cartesian_kspace\n  - encoding\n  - pcg\n  - image\n"), header(spec), scan, options);
  EXPECT_EQ(taken, 1);
}

// Samples beyond the transform's ends, of voxels larger than encoded, count neither in |d|^2 nor in the weights' sum.
TEST_P(EncodingTest, LargerVoxelsLeaveTheOuterSamplesOut) {
  struct Case {
    std::array<int, 3> recon;
    int cut;
    double samples;  // of lines 1, 3, .. that have room
  };
  const CoilScene scene({20, 12, 1}, 2, 11);
  const auto data = scene.kspace();
  for (const Case& c : {Case{{20, 8, 1}, 0, 4 * 20}, Case{{10, 12, 1}, 0, 6 * 10}, Case{{10, 8, 1}, 0, 4 * 10},
                        Case{{10, 8, 1}, 7, 4 * 8}, Case{{20, 12, 1}, 0, 6 * 20}}) {
    SCOPED_TRACE(fmt::format("{} x {}, from sample {}", c.recon[0], c.recon[1], c.cut));
    HeaderSpec spec{.encoded = {20, 12, 1}, .recon = c.recon, .encoded_fov = {200, 120, 5}, .recon_fov = {200, 120, 5}};
    spec.limits = step_limit(12);
    double power = 0;
    for (int y = 1; y < 12; y += 2)
      for (int x = c.cut; x < 20; ++x)
        for (int coil = 0; coil < 2; ++coil)
          if (std::abs(2 * (y - 6) + 1) <= c.recon[1] && std::abs(2 * (x - 10) + 1) <= c.recon[0])
            power += std::norm(data[static_cast<std::size_t>((coil * 12 + y) * 20 + x)]);
    const double w = c.recon[0] * c.recon[1] / (240.0 * 240);
    RunOptions options = here();
    options.tap = "encoding";
    int taken = 0;
    options.on_item = [&](const Item& item, numerics::Context& compute) {
      const auto& equations = std::get<NormalEquations>(item);
      EXPECT_NEAR(equations.weight, w * c.samples, 1e-6);
      EXPECT_NEAR(elements(compute, equations.power).at(0), w * power, 1e-5 * w * power);
      ++taken;
    };
    run(yaml("  - cartesian_kspace\n  - encoding\n  - pcg\n  - image\n"), header(spec),
        scene.scan([](int y, int) { return y % 2 == 1; }, c.cut), options);
    EXPECT_EQ(taken, 1);
  }
}

TEST_P(EncodingTest, FramesOfOnePatternShareTheOperator) {
  const CoilScene scene({12, 10, 1}, 4, 8);
  std::vector<Acquisition> scan;
  for (int r = 0; r < 4; ++r)
    for (auto& a : scene.scan([r](int y, int) { return y % 2 == (r == 3 ? 1 : 0); }, 0, r))
      scan.push_back(std::move(a));
  RunOptions options = here();
  options.images = {scene.maps_message()};
  const auto first = run(solver(), scene.header_of(), scan, options),
             second = run(solver(), scene.header_of(), scan, options);
  ASSERT_EQ(first.images.size(), 4u);
  for (const auto& image : first.images) EXPECT_LT(nrmse(pixels<cfloat>(image), scene.object), 1e-4);
  EXPECT_EQ(first.counts.work.operators_made, 2u);
  EXPECT_EQ(first.counts.work.operators_reused, 2u);
  EXPECT_EQ(second.counts.work.operators_made, 0u);
  // However the scan is cut, the bits are the same.
  for (const std::size_t readouts : {1u, 3u, 7u}) {
    options.split = [readouts](std::size_t) { return readouts; };
    const auto out = run(solver(), scene.header_of(), scan, options);
    ASSERT_EQ(out.images.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(pixels<cfloat>(out.images[i]), pixels<cfloat>(first.images[i]));
  }
}

/// An ellipse that is longer than the field of view, seen by coils around it: its ends lie on each other. [coil, y, x]
std::vector<cdouble> folded_images(int coils, int nx, int ny, int whole) {
  std::vector<cdouble> images(static_cast<std::size_t>(coils * nx * ny));
  for (int c = 0; c < coils; ++c)
    for (int y = 0; y < whole; ++y)
      for (int x = 0; x < nx; ++x) {
        const double px = 2.0 * (x - nx / 2) / nx, py = 2.0 * (y - whole / 2) / whole,
                     turn = 2 * std::numbers::pi * c / coils;
        if (px * px / 0.64 + py * py / 0.49 > 1) continue;
        const double square = std::pow(px - 1.1 * std::cos(turn), 2) + std::pow(py - 1.1 * std::sin(turn), 2);
        const int to = (y - whole / 2 + ny / 2 + ny) % ny;
        images[static_cast<std::size_t>((c * ny + to) * nx + x)] +=
            std::polar(std::exp(-square / 2), 0.8 * c + 0.5 * std::sin(c) * px + 0.7 * std::cos(2 * c) * py + px);
      }
  return images;
}

// With both sets of maps, the root of the sum of squares of both images is that of all coils' images, though every
// second line is missing; one set cannot explain the voxels where two places fold.
TEST_P(EncodingTest, TwoSetsOfMapsExplainAnObjectLargerThanTheFieldOfView) {
  const int coils = 8, nx = 48, ny = 34;
  CoilScene scene({nx, ny, 1}, coils, 10);
  const auto images = folded_images(coils, nx, ny, 64);
  scene.object.assign(scene.voxels(), 1);
  scene.maps.assign(images.begin(), images.end());
  std::vector<double> truth(scene.voxels());
  for (std::size_t i = 0; i < images.size(); ++i) truth[i % truth.size()] += std::norm(images[i]);
  for (double& v : truth) v = std::sqrt(v);
  const auto scan = scene.scan([](int y, int) { return y % 2 == 1 || std::abs(y - 17) <= 12; });
  const auto error = [&](int sets, const std::string& pcg) {
    const auto out =
        run(yaml(fmt::format("  - cartesian_kspace\n  - encoding\n  - coil_maps: {{method: espirit, sets: {}}}\n"
                             "  - pcg: {{{}}}\n  - image\n",
                             sets, pcg)),
            scene.header_of(), scan, here());
    EXPECT_EQ(out.images.at(0).head.channels, 1);
    return nrmse(pixels<float>(out.images.at(0)), truth);
  };
  const std::string plain = "prior: tikhonov, lambda: 1e-4, iterations: 60";
  const double one = error(1, plain), two = error(2, plain);
  EXPECT_LT(two, 0.03);
  EXPECT_LT(two, 0.5 * one);
  EXPECT_NEAR(error(2, plain + ", preconditioner: jacobi"), two, 0.005);
  const auto refusal = [&](const std::string& pcg) { return client_error([&] { error(2, pcg); }); };
  EXPECT_THAT(refusal("prior: smoothness"), HasSubstr("several sets of coil maps"));
  EXPECT_THAT(refusal("preconditioner: circulant"), HasSubstr("several sets of coil maps"));
}

/// Smooth coils around an object; `whole` above ny: it folds.
CoilScene smooth_scene(int nx, int ny, int whole) {
  CoilScene scene({nx, ny, 1}, 8, 10);
  const auto images = folded_images(8, nx, ny, whole);
  scene.object.assign(scene.voxels(), 1);
  scene.maps.assign(images.begin(), images.end());
  return scene;
}
std::vector<double> root_sum_of_squares(const CoilScene& scene) {
  std::vector<double> sum(scene.voxels());
  for (std::size_t i = 0; i < scene.maps.size(); ++i) sum[i % sum.size()] += std::norm(cdouble(scene.maps[i]));
  for (double& v : sum) v = std::sqrt(v);
  return sum;
}

/// Every second line for the image, and reference lines that serve nothing else.
std::vector<Acquisition> with_references(const CoilScene& scene, int first, int last) {
  auto scan = scene.scan([&](int y, int) { return y >= first && y <= last; });
  for (Acquisition& a : scan) set_flag(a, kCalibration);
  for (Acquisition& a : scene.scan([](int y, int) { return y % 2 == 1; })) scan.push_back(std::move(a));
  return scan;
}
protocol::Header header_of_references(const CoilScene& scene, const std::string& mode) {
  HeaderSpec spec{.encoded = scene.n, .limits = step_limit(scene.n[1])};
  spec.parallel =
      "<accelerationFactor><kspace_encoding_step_1>2</kspace_encoding_step_1><kspace_encoding_step_2>1"
      "</kspace_encoding_step_2></accelerationFactor><calibrationMode>" +
      mode + "</calibrationMode>";
  return header(spec);
}
std::string sense_by(const std::string& maps) {
  return yaml("  - cartesian_kspace\n  - encoding\n  - coil_maps: {" + maps +
              "}\n  - pcg: {prior: tikhonov, lambda: 1e-4, iterations: 60}\n  - image\n");
}

TEST_P(EncodingTest, MapsComeFromReferenceLines) {
  const CoilScene scene = smooth_scene(48, 40, 40);
  const auto truth = root_sum_of_squares(scene);
  for (const std::string mode : {"separate", "embedded"})
    for (const std::string maps : {"method: espirit", "method: adaptive"}) {
      SCOPED_TRACE(mode + ", " + maps);
      RunOptions options = here();
      options.tap = "encoding";
      options.on_item = [&](const Item& item, numerics::Context&) {
        const auto& equations = std::get<NormalEquations>(item);
        ASSERT_NE(equations.calibration, nullptr);
        EXPECT_EQ(equations.calibration->data.shape(), (numerics::Shape{8, 1, 24, 48}));
        EXPECT_EQ(equations.padded, (numerics::Shape{1, 40, 48}));
      };
      const auto out = run(sense_by(maps), header_of_references(scene, mode), with_references(scene, 8, 31), options);
      ASSERT_EQ(out.images.size(), 1u);
      // Adaptive maps are smooth, and so miss more of the object's edge; of aliased k-space both are off by 0.3 and
      // more.
      EXPECT_LT(nrmse(pixels<float>(out.images[0]), truth), maps == "method: espirit" ? 0.03 : 0.08);
    }
}

TEST_P(EncodingTest, TwoSetsOfMapsComeFromReferenceLines) {
  const CoilScene scene = smooth_scene(48, 34, 64);
  const auto error = [&](int sets) {
    const auto out = run(sense_by(fmt::format("method: espirit, sets: {}", sets)),
                         header_of_references(scene, "separate"), with_references(scene, 5, 28), here());
    return nrmse(pixels<float>(out.images.at(0)), root_sum_of_squares(scene));
  };
  const double one = error(1), two = error(2);
  EXPECT_LT(two, 0.05);
  EXPECT_LT(two, 0.5 * one);
}

/// Every second line and reference lines, by a chain of the gadgets that maps come in two sets for.
std::string sets_by(const std::string& gadget, const std::string& sets) {
  const std::string maps = "coil_maps: {method: espirit, sets: " + sets + "}";
  return yaml("  - cartesian_kspace\n" +
              (gadget == "sense" ? "  - sense: {lambda: 1e-4, sets: " + sets + "}\n"
               : gadget == "pcg"
                   ? "  - encoding\n  - " + maps + "\n  - pcg: {prior: tikhonov, lambda: 1e-4, iterations: 60}\n"
                   : "  - encoding\n  - " + maps + "\n  - " + gadget + "\n") +
              "  - image\n");
}

// Each slice has the maps that its reference lines ask for: one that folds and one that does not, in the same scan.
TEST_P(EncodingTest, SlicesHaveAsManySetsOfMapsAsTheyNeed) {
  const CoilScene folds = smooth_scene(48, 34, 64), fits = smooth_scene(48, 34, 34);
  const auto scan = [&] {
    std::vector<Acquisition> out = with_references(folds, 5, 28);
    for (Acquisition a : with_references(fits, 5, 28)) {
      a.head.idx.slice = 1;
      out.push_back(std::move(a));
    }
    return out;
  }();
  const auto images = [&](const std::string& gadget, const std::string& sets) {
    const auto out = run(sets_by(gadget, sets), header_of_references(folds, "separate"), scan, here());
    EXPECT_EQ(out.images.size(), 2u) << gadget;
    return out.images;
  };
  const std::string wavelet = "regularised: {lambda: 1e-4, iterations: 200, tolerance: 1e-5}";
  for (const std::string& gadget : {std::string("sense"), std::string("pcg"), wavelet}) {
    SCOPED_TRACE(gadget);
    const auto one = images(gadget, "1"), two = images(gadget, "2"), chosen = images(gadget, "auto");
    const auto error = [&](const protocol::Image& image, const CoilScene& scene) {
      return nrmse(pixels<float>(image), root_sum_of_squares(scene));
    };
    EXPECT_EQ(pixels<float>(chosen.at(0)), pixels<float>(two.at(0)));
    EXPECT_EQ(pixels<float>(chosen.at(1)), pixels<float>(one.at(1)));
    EXPECT_THAT(chosen.at(0).attributes, ::testing::ContainsRegex("coil_map_sets</name>[^<]*<value>2<"));
    EXPECT_THAT(chosen.at(1).attributes, ::testing::ContainsRegex("coil_map_sets</name>[^<]*<value>1<"));
    // Maps from 24 lines of 34 leave 4 % (TwoSetsOfMapsComeFromReferenceLines).
    EXPECT_LT(error(two.at(0), folds), 0.05);
    EXPECT_LT(error(two.at(0), folds), 0.5 * error(one.at(0), folds));
    EXPECT_LT(error(one.at(1), fits), 0.05);
  }
}

// Priors in time are about the frames of both sets: of equal frames, temporal_variation and low_rank change nothing.
TEST_P(EncodingTest, SeriesOfTwoSetsOfMapsAreSolvedTogether) {
  const CoilScene scene = smooth_scene(48, 34, 64);
  auto scan = with_references(scene, 5, 28);
  for (Acquisition& a : scene.scan([](int y, int) { return y % 2 == 1; }, 0, 1)) scan.push_back(std::move(a));
  for (const std::string prior : {"temporal_variation", "low_rank", "[wavelet, total_variation, temporal_variation]"}) {
    const auto out = run(sets_by("regularised: {prior: " + prior +
                                     ", lambda: 1e-4, series: repetition, frames: 2, iterations: 200, tolerance: 1e-5}",
                                 "auto"),
                         header_of_references(scene, "separate"), scan, here());
    ASSERT_EQ(out.images.size(), 2u) << prior;
    for (const auto& image : out.images) {
      EXPECT_EQ(image.head.channels, 1);
      EXPECT_LT(nrmse(pixels<float>(image), root_sum_of_squares(scene)), 0.05) << prior;
    }
  }
}

// Frames of the same reference lines, and only they, share maps; the reference lines count, not the frame's own data.
TEST_P(EncodingTest, FramesShareTheMapsOfTheirReferenceLines) {
  CoilScene scene = smooth_scene(32, 24, 24);
  auto scan = with_references(scene, 2, 21);
  for (std::uint16_t repetition : {1, 2})
    for (Acquisition& a : scene.scan([](int y, int) { return y % 2 == 1; }, 0, repetition))
      scan.push_back(std::move(a));
  for (Acquisition a : with_references(scene, 4, 19)) {
    a.head.idx.slice = 1;
    a.head.idx.repetition = 2;
    scan.push_back(std::move(a));
  }
  RunOptions options = here();
  options.tap = "coil_maps";
  std::vector<std::pair<int, Array<cfloat>>> maps;
  options.on_item = [&](const Item& item, numerics::Context&) {
    const auto& equations = std::get<NormalEquations>(item);
    maps.emplace_back(equations.frame->key.slice, equations.maps);
  };
  for (const std::string keep : {"true", "false"}) {
    maps.clear();
    run(sense_by("method: adaptive, keep: " + keep), header_of_references(scene, "separate"), scan, options);
    ASSERT_EQ(maps.size(), 4u);
    for (const auto& [slice, of] : maps) EXPECT_EQ(of.data() == maps[0].second.data(), slice == 0);
  }
}

TEST_P(EncodingTest, SaysWhichReferenceLinesAreTooFew) {
  const CoilScene scene = smooth_scene(32, 24, 24);
  const auto refusal = [&](const std::string& maps, int first, int last) {
    return client_error([&] {
      run(sense_by(maps), header_of_references(scene, "separate"), with_references(scene, first, last), here());
    });
  };
  EXPECT_THAT(refusal("method: espirit", 10, 14), HasSubstr("24 x 5 x 1 samples (x, y, z) about the centre"));
  EXPECT_THAT(refusal("method: espirit", 10, 14), HasSubstr("method espirit needs 6 x 6 x 1"));
  EXPECT_EQ(refusal("method: espirit", 9, 14), "(no ClientError)");
  EXPECT_EQ(refusal("method: espirit, kernel: 5", 10, 14), "(no ClientError)");
  EXPECT_THAT(refusal("method: adaptive", 11, 13), HasSubstr("24 x 3 x 1"));
  EXPECT_EQ(refusal("method: adaptive", 10, 13), "(no ClientError)");
  // On one side of the centre, line 12, there are fewer.
  EXPECT_THAT(refusal("method: espirit", 11, 20), HasSubstr("24 x 3 x 1"));
}

TEST_P(EncodingTest, RefusesKspaceOfUnknownLines) {
  numerics::Context compute(GetParam(), test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  const CoilScene scene({8, 6, 1}, 1, 9);
  Encoding encoding({});
  encoding.start(scene.header_of(), scan);
  KSpace kspace{std::make_shared<Frame>(), compute.zeros<cfloat>({1, 1, 6, 8}), {1, 6, 8}, {1, 6, 8}, nullptr, nullptr};
  const auto refusal = [&](KSpace given) {
    return client_error([&] { encoding.process(std::move(given), [](NormalEquations&&) {}); });
  };
  EXPECT_THAT(refusal(kspace), HasSubstr("does not say which lines"));
  auto lines = std::make_shared<SampledLines>();
  lines->came.assign(5, 1);
  lines->last_x = 8;
  kspace.lines = lines;
  EXPECT_THAT(refusal(kspace), HasSubstr("another matrix"));
  auto good = std::make_shared<SampledLines>(*lines);
  good->came.push_back(0);
  kspace.lines = good;
  EXPECT_EQ(refusal(kspace), "(no ClientError)");
  good->last_x = 0;
  EXPECT_THAT(refusal(kspace), HasSubstr("no samples in common"));
}

ECHOTRAIN_ON_BACKENDS(EncodingTest);

}  // namespace
}  // namespace echotrain::testing
