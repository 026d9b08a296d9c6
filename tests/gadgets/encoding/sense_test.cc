// sense: images of scans that leave lines out, against objects whose k-space is known in closed form.
#include "gadgets/encoding/sense.h"

#include "tests/gadgets/encoding/parallel_scene.h"

namespace echotrain::testing {
namespace {

std::string sense_with(const std::string& options) {
  return yaml("  - cartesian_kspace\n  - sense: {" + options + "}\n  - image\n");
}

using SenseTest = OnEachBackend;

TEST_P(SenseTest, ImagesAreThoseOfAllLines) {
  struct Case {
    const char* what;
    std::array<int, 3> n;
    Leaving left;
    std::string maps;
    double most;
  };
  for (const Case& c : {Case{"R=2", {40, 40, 1}, {.ry = 2, .band = 24, .separate = true}, "espirit", 0.016},
                        Case{"R=2, adaptive", {40, 40, 1}, {.ry = 2, .band = 24, .separate = true}, "adaptive", 0.045},
                        Case{"R=3", {40, 48, 1}, {.ry = 3, .y0 = 2, .band = 24}, "espirit", 0.1},
                        Case{"R=2x2", {16, 16, 16}, {.ry = 2, .rz = 2, .band = 12, .separate = true}, "espirit", 0.04},
                        Case{"CAIPIRINHA",
                             {16, 16, 16},
                             {.ry = 2, .rz = 2, .shift = 1, .z0 = 1, .band = 12, .separate = true},
                             "espirit",
                             0.075}}) {
    SCOPED_TRACE(c.what);
    const ParallelScene scene(c.n, 8);
    const auto out =
        run(sense_with("lambda: 1e-4, maps: " + c.maps), scene.header_of(c.left), scene.scan(c.left), here());
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_EQ(out.images[0].head.channels, 1);
    const double error = nrmse(pixels<float>(out.images[0]), scene.root_sum_of_squares());
    EXPECT_LT(error, c.most);
    for (const auto& [level, text] : out.texts) EXPECT_NE(level, protocol::Level::warning) << text;
  }
}

// More coils than ESPIRiT takes are compressed to 32 for it (24 of volumes): the images are as good as those of few
// coils, and adaptive maps, which are worse, are not taken instead.
TEST_P(SenseTest, ManyCoilsAreCompressedForTheirMaps) {
  for (const auto& [n, leaving, most] :
       {std::tuple{std::array{40, 40, 1}, Leaving{.ry = 2, .band = 24, .separate = true}, 0.016},
        std::tuple{std::array{16, 16, 16}, Leaving{.ry = 2, .rz = 2, .band = 12, .separate = true}, 0.04}}) {
    const ParallelScene scene(n, 40);
    const Leaving& left = leaving;  // lambdas of C++20 take no bindings in Clang 14
    const auto image = [&](const std::string& before) {
      const auto out = run(yaml(before + "  - cartesian_kspace\n  - sense: {lambda: 1e-4}\n  - image\n"),
                           scene.header_of(left), scene.scan(left), here());
      EXPECT_EQ(out.images.size(), 1u);
      return pixels<float>(out.images.at(0));
    };
    const auto all = image("");
    EXPECT_LT(nrmse(all, scene.root_sum_of_squares()), most);
    // The signal of 40 coils lies in 8 dimensions, which compression of all lines keeps as well.
    EXPECT_LT(nrmse(all, image("  - coil_compression: {channels: 20}\n")), 1e-3);
  }
}

// Lines that are transformed along x as they come make the images of those that are collected first.
TEST_P(SenseTest, LinesAsTheyComeMakeTheSameImages) {
  for (const Leaving& left : {Leaving{.ry = 3, .y0 = 2, .band = 24}, Leaving{.ry = 4, .band = 24, .separate = true}}) {
    const ParallelScene scene({40, 48, 1}, 6);
    const std::string text = sense_with("maps: adaptive, g_factor: true, snr_units: true");
    RunOptions apart = here();
    apart.tap = "cartesian_kspace";
    apart.on_item = [](const Item&, numerics::Context&) {};
    const auto fused = run(text, scene.header_of(left), scene.scan(left), here());
    const auto unfused = run(text, scene.header_of(left), scene.scan(left), apart);
    ASSERT_EQ(fused.images.size(), 3u);
    ASSERT_EQ(unfused.images.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LT(nrmse(pixels<float>(fused.images[i]), pixels<float>(unfused.images[i])), 1e-6);
      EXPECT_EQ(fused.images[i].attributes, unfused.images[i].attributes);
    }
  }
}

// Lines off the lattice that come with a frame change nothing.
TEST_P(SenseTest, TakesTheLinesOfTheLattice) {
  const ParallelScene scene({32, 32, 1}, 6);
  const Leaving left{.ry = 2, .band = 24, .separate = true};
  const auto image = [&](bool more, bool odd) {
    auto scan = scene.references(left);
    Leaving frame = left;
    frame.separate = !more;
    for (Acquisition& a : scene.frame(frame)) {
      if (odd && a.head.idx.kspace_encode_step_1 % 2 == 1)
        a.data = protocol::Payload::take(std::vector<cfloat>(6 * 32, cfloat(100)));
      scan.push_back(std::move(a));
    }
    return pixels<float>(run(sense_with(""), scene.header_of(left), scan, here()).images.at(0));
  };
  EXPECT_EQ(image(true, false), image(false, false));
  EXPECT_EQ(image(true, true), image(false, false));
}

TEST_P(SenseTest, RefusesTwoSetsOfAdaptiveMaps) {
  EXPECT_THROW(Sense([] {
                 Sense::Options options;
                 options.sets = "2";
                 options.maps = "adaptive";
                 return options;
               }()),
               std::invalid_argument);
}

TEST_P(SenseTest, SaysWhyItCannotUnfold) {
  const ParallelScene scene({32, 35, 1}, 6);
  const Leaving left{.ry = 2, .band = 24, .separate = true};
  const auto out = run(sense_with(""), scene.header_of(left), scene.scan(left), here());
  EXPECT_TRUE(out.images.empty());
  EXPECT_EQ(out.warned("sense: slice 0: unfold: a grid of 35 x 1 (y, z) is no whole multiple of 2 x 1"), 1);
  EXPECT_EQ(out.counts.work.frames_refused, 1u);
}

// Noise alone has a standard deviation of 1 in units of SNR.
TEST_P(SenseTest, NoiseIsAsPredicted) {
  const ParallelScene scene({24, 30, 1}, 6, 400);
  const Leaving left{.ry = 3, .y0 = 1, .band = 24, .separate = true};
  std::mt19937 random(6);
  const int frames = 60;
  std::vector<Acquisition> scan = scene.references(left, &random);
  for (int r = 0; r < frames; ++r)
    for (Acquisition& a : scene.frame(left, &random, 0)) {
      a.head.idx.repetition = static_cast<std::uint16_t>(r);
      scan.push_back(std::move(a));
    }
  const auto out =
      run(yaml("  - cartesian_kspace\n  - sense: {g_factor: true, snr_units: true}\n  - image: {component: complex}\n"),
          scene.header_of(left, frames), scan, here());
  ASSERT_EQ(out.images.size(), 2u * frames + 1);
  double power = 0, values_seen = 0, least_g = 100;
  for (const auto& image : out.images)
    for (const cfloat v : pixels<cfloat>(image)) {
      if (v == cfloat{}) continue;  // no map
      if (image.head.image_series_index == 5) power += std::norm(cdouble(v)) / 2, ++values_seen;
      if (image.head.image_series_index == 3) least_g = std::min(least_g, static_cast<double>(v.real()));
    }
  EXPECT_GT(values_seen, 0.3 * 24 * 30 * frames);
  EXPECT_NEAR(std::sqrt(power / values_seen), 1, 0.015);
  EXPECT_GT(least_g, 0.9);
}

ECHOTRAIN_ON_BACKENDS(SenseTest);

}  // namespace
}  // namespace echotrain::testing
