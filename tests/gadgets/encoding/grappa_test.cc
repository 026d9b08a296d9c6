// grappa: images of scans that leave lines out, against objects whose k-space is known in closed form.
#include "gadgets/encoding/grappa.h"

#include <gmock/gmock.h>

#include "gadgets/shared/sampled_lines.h"
#include "tests/gadgets/encoding/parallel_scene.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

std::string grappa_with(const std::string& options = "", const std::string& image = "component: magnitude") {
  return yaml("  - cartesian_kspace\n  - grappa: {" + options + "}\n  - image: {" + image + "}\n");
}
const std::string kPlain = yaml("  - cartesian_kspace\n  - fft\n  - coil_combine: {method: rss}\n  - image\n");
const std::string kPlainCoils =
    yaml("  - cartesian_kspace\n  - fft\n  - coil_combine: {method: none}\n  - image: {component: complex}\n");

std::string meta(const protocol::Image& image, const std::string& name) {
  const std::string& text = image.attributes;
  const auto at = text.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "";
  const auto begin = text.find("<value>", at) + 7;
  return text.substr(begin, text.find("</value>", begin) - begin);
}

struct SceneCase {
  const char* what;
  std::array<int, 3> n;
  Leaving left;
  double most;     ///< NRMSE
  double aliased;  ///< that of the plain transform is more
};

std::vector<SceneCase> scene_cases() {
  return {
      {"R=2", {40, 40, 1}, {.ry = 2, .band = 20, .separate = true}, 0.012, 0.4},
      {"R=3, uneven, put back", {40, 50, 1}, {.ry = 3, .y0 = 1, .band = 20}, 0.016, 0.04},
      {"R=2x2", {16, 18, 16}, {.ry = 2, .rz = 2, .band = 12, .separate = true}, 0.06, 0.6},
      {"CAIPIRINHA", {16, 18, 16}, {.ry = 2, .rz = 2, .shift = 1, .z0 = 1, .band = 12, .separate = true}, 0.06, 0.6}};
}
/// Without noise, little is needed.
std::string exact(const SceneCase& c) {
  return std::string("regularization: 1e-6") + (c.n[2] > 1 ? ", kernel_x: 3, kernel_y: 2, kernel_z: 2" : "");
}

using GrappaTest = OnEachBackend;

TEST_P(GrappaTest, ImagesAreThoseOfAllLines) {
  for (const SceneCase& c : scene_cases()) {
    SCOPED_TRACE(c.what);
    const ParallelScene scene(c.n, 8);
    const auto truth = scene.root_sum_of_squares();
    const auto scan = scene.scan(c.left);
    const auto header = scene.header_of(c.left);
    const auto out = run(grappa_with(exact(c)), header, scan, here());
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_EQ(out.images[0].head.channels, 1);
    const double error = nrmse(pixels<float>(out.images[0]), truth);
    EXPECT_LT(error, c.most);
    const auto aliased = run(kPlain, header, scan, here());
    EXPECT_GT(nrmse(pixels<float>(aliased.images.at(0)), truth), c.aliased);
    for (const auto& [level, text] : out.texts) EXPECT_NE(level, protocol::Level::warning) << text;
  }
}

TEST_P(GrappaTest, CoilImagesKeepWhatWasAcquired) {
  for (const SceneCase& c : scene_cases()) {
    SCOPED_TRACE(c.what);
    const ParallelScene scene(c.n, 8);
    const auto out = run(grappa_with("output: coils, " + exact(c), "component: complex"), scene.header_of(c.left),
                         scene.scan(c.left), here());
    ASSERT_EQ(out.images.size(), 1u);
    ASSERT_EQ(out.images[0].head.channels, 8);
    const auto& kspace = scene.kspace();
    const auto images = pixels<cfloat>(out.images[0]);
    EXPECT_LT(nrmse(images, ParallelScene::images(kspace, c.n)), 1.8 * c.most);
    // The images' k-space, by the sums of the other sign.
    std::vector<cdouble> back;
    for (const cfloat v : images) back.emplace_back(std::conj(cdouble(v)));
    back = ParallelScene::images(back, c.n);
    const auto points = static_cast<double>(c.n[0] * c.n[1] * c.n[2]);
    std::vector<cdouble> kept, acquired;
    for (std::size_t i = 0; i < back.size(); ++i) {
      const int y = static_cast<int>(i) / c.n[0] % c.n[1], z = static_cast<int>(i) / (c.n[0] * c.n[1]) % c.n[2];
      const bool came = scene.on_lattice(y, z, c.left) || (!c.left.separate && scene.in_band(y, z, c.left));
      if (!came) continue;
      kept.push_back(points * std::conj(back[i]));
      acquired.push_back(kspace[i]);
    }
    EXPECT_LT(nrmse(kept, acquired), 1e-5);
  }
}

// With maps of sum |S|^2 = 1, the combined image has the root sum of squares of the coils' images, where these agree.
TEST_P(GrappaTest, CombinedAndCoilImagesAgree) {
  const ParallelScene scene({40, 50, 1}, 8);
  for (const Leaving& left :
       {Leaving{.ry = 3, .y0 = 1, .band = 20}, Leaving{.ry = 3, .y0 = 2, .band = 20, .first_y = 14}}) {
    const auto combined = run(grappa_with(), scene.header_of(left), scene.scan(left), here());
    const auto coils = run(yaml("  - cartesian_kspace\n  - grappa: {output: coils}\n  - coil_combine\n  - image\n"),
                           scene.header_of(left), scene.scan(left), here());
    EXPECT_LT(nrmse(pixels<float>(combined.images.at(0)), pixels<float>(coils.images.at(0))), 0.01);
  }
}

TEST_P(GrappaTest, HoweverTheScanIsCut) {
  const ParallelScene scene({32, 32, 1}, 4);
  const Leaving left{.ry = 2, .band = 12};
  const auto scan = scene.scan(left);
  RunOptions options = here();
  const auto whole = run(grappa_with(), scene.header_of(left), scan, options);
  for (const std::size_t readouts : {1u, 3u, 7u}) {
    options.split = [readouts](std::size_t) { return readouts; };
    const auto cut = run(grappa_with(), scene.header_of(left), scan, options);
    EXPECT_EQ(pixels<float>(cut.images.at(0)), pixels<float>(whole.images.at(0)));
  }
}

// Slices and contrasts have weights of their own, which later repetitions use again.
TEST_P(GrappaTest, FramesOfTheSameLinesShareWeights) {
  const ParallelScene scene({32, 32, 1}, 4), other({32, 32, 1}, 4, 0.7);
  const Leaving left{.ry = 2, .band = 12};
  std::vector<Acquisition> scan;
  for (int r = 0; r < 3; ++r)
    for (int slice = 0; slice < 2; ++slice)
      for (Acquisition& a : (slice == 0 ? scene : other).frame(left)) {
        a.head.idx.repetition = static_cast<std::uint16_t>(r);
        a.head.idx.slice = static_cast<std::uint16_t>(slice);
        scan.push_back(std::move(a));
      }
  const auto out = run(grappa_with(), scene.header_of(left, 3, 2), scan, here());
  ASSERT_EQ(out.images.size(), 6u);
  EXPECT_EQ(out.counts.work.weights_made, 2u);
  EXPECT_EQ(out.counts.work.weights_reused, 4u);
  const auto first = scene.root_sum_of_squares(), second = other.root_sum_of_squares();
  for (const auto& image : out.images) {
    EXPECT_LT(nrmse(pixels<float>(image), image.head.slice == 0 ? first : second), 0.035);
    EXPECT_EQ(meta(image, "weights"), image.head.repetition == 0 ? "made" : "reused");
    EXPECT_EQ(meta(image, "calibration"), "embedded 12 x 32");
    EXPECT_EQ(meta(image, "acceleration"), "2x1");
    EXPECT_EQ(meta(image, "grappa_kernel"), "5x4x4");
    EXPECT_LT(std::stod(meta(image, "grappa_residual")), 0.1);
  }
}

// Noise alone, in units of SNR, has a standard deviation of 1 in each part; in the image, it is that of all lines,
// times sqrt(R) and the g-factor.
TEST_P(GrappaTest, NoiseIsAsPredicted) {
  const ParallelScene scene({24, 31, 1}, 8, 400);
  const Leaving left{.ry = 2, .y0 = 1, .band = 18};
  std::mt19937 random(5);
  Leaving before = left;
  before.separate = true;
  const int frames = 200;
  std::vector<Acquisition> scan = scene.references(before, &random);
  for (int r = 0; r < frames; ++r)
    for (Acquisition& a : scene.frame(left, &random, 0)) {
      a.head.idx.repetition = static_cast<std::uint16_t>(r);
      scan.push_back(std::move(a));
    }
  const auto out = run(grappa_with("g_factor: true, snr_units: true", "component: complex"),
                       scene.header_of(before, frames), scan, here());
  ASSERT_EQ(out.images.size(), 2u * frames + 1);
  EXPECT_EQ(out.warned("noise_adjust has not whitened"), 1);
  const std::size_t voxels = 24 * 31;
  std::vector<double> power(voxels), in_units(voxels), g;
  for (const auto& image : out.images) {
    const auto values = pixels<cfloat>(image);
    const int series = image.head.image_series_index;  // 1, and two further ones for each series of FrameKey
    if (series == 3) {
      for (const cfloat v : values) g.push_back(static_cast<double>(v.real()));
      continue;
    }
    ASSERT_TRUE(series == 1 || series == 5) << series;
    for (std::size_t v = 0; v < voxels; ++v) (series == 1 ? power : in_units)[v] += std::norm(cdouble(values[v])) / 2;
  }
  ASSERT_EQ(g.size(), voxels);
  int lattice = 0;
  for (int y = 0; y < 31; ++y) lattice += scene.on_lattice(y, 0, left) ? 1 : 0;
  double mean_units = 0, mean_ratio = 0;
  for (std::size_t v = 0; v < voxels; ++v) {
    mean_units += in_units[v] / frames / voxels;
    const double deviation = std::sqrt(power[v] / frames), full = 1 / std::sqrt(24.0 * 31);
    mean_ratio += deviation / (full * std::sqrt(31.0 / lattice) * g[v]) / voxels;
  }
  EXPECT_NEAR(std::sqrt(mean_units), 1, 0.01);
  EXPECT_NEAR(mean_ratio, 1, 0.01);
  double mean_g = 0;
  for (const double v : g) mean_g += v / voxels;
  EXPECT_GT(mean_g, 1.02);
  EXPECT_NEAR(std::stod(meta(out.images.at(0), "gfactor_mean")), mean_g, 0.001);
}

// Lines that are transformed along x as they come make the images of those that are collected first.
TEST_P(GrappaTest, LinesAsTheyComeMakeTheSameImages) {
  struct Case {
    const char* what;
    std::array<int, 3> n;
    Leaving left;
    std::string options;
  };
  for (const Case& c : {Case{"uneven", {40, 50, 1}, {.ry = 3, .y0 = 1, .band = 20, .separate = true}, ""},
                        Case{"put back", {40, 50, 1}, {.ry = 3, .y0 = 2, .band = 20, .first_y = 14}, ""},
                        Case{"in units", {40, 48, 1}, {.ry = 4, .band = 24}, "g_factor: true, snr_units: true"},
                        Case{"coils", {40, 48, 1}, {.ry = 2, .band = 20}, "output: coils"},
                        Case{"a volume",
                             {16, 18, 16},
                             {.ry = 2, .rz = 2, .shift = 1, .z0 = 1, .band = 12},
                             "kernel_x: 3, kernel_y: 2, kernel_z: 2"}}) {
    SCOPED_TRACE(c.what);
    const ParallelScene scene(c.n, 6);
    std::vector<Acquisition> scan = scene.references(c.left);
    for (int r = 0; r < 2; ++r)
      for (Acquisition& a : scene.frame(c.left)) {
        a.head.idx.repetition = static_cast<std::uint16_t>(r);
        scan.push_back(a);
        if (a.head.idx.kspace_encode_step_1 == 17 && (a.head.flags & 1 << (kLastInSlice - 1)) == 0) scan.push_back(a);
      }
    const std::string text = grappa_with(c.options, "component: complex");
    RunOptions apart = here();
    apart.tap = "cartesian_kspace";
    int seen = 0;
    apart.on_item = [&](const Item& item, numerics::Context&) { seen += std::holds_alternative<KSpace>(item) ? 1 : 0; };
    const auto fused = run(text, scene.header_of(c.left, 2), scan, here());
    const auto unfused = run(text, scene.header_of(c.left, 2), scan, apart);
    EXPECT_EQ(seen, 2);
    ASSERT_EQ(fused.images.size(), unfused.images.size());
    ASSERT_GE(fused.images.size(), 2u);
    for (std::size_t i = 0; i < fused.images.size(); ++i) {
      EXPECT_LT(nrmse(pixels<cfloat>(fused.images[i]), pixels<cfloat>(unfused.images[i])), 1e-6);
      EXPECT_EQ(fused.images[i].attributes, unfused.images[i].attributes);
    }
    EXPECT_EQ(fused.texts, unfused.texts);
    EXPECT_THAT(PipelinePlan::check(config::read_pipeline(text, "t.yaml"))->describe(),
                HasSubstr("as one on the CPU: cartesian_kspace, grappa"));
  }
}

// Frames of lines that were transformed as they came wait for a block of several, as others do.
TEST_P(GrappaTest, LinesAsTheyComeWaitForTheirBlock) {
  const ParallelScene scene({32, 32, 1}, 6);
  const Leaving left{.ry = 2};
  auto header = scene.header_of(left, 4);
  header.encodings.at(0).calibration_mode = "interleaved";
  std::vector<Acquisition> scan;
  for (int r = 0; r < 4; ++r)
    for (Acquisition& a : scene.frame({.ry = 2, .y0 = r % 2})) {
      a.head.idx.repetition = static_cast<std::uint16_t>(r);
      scan.push_back(std::move(a));
    }
  const std::string text = grappa_with("", "component: complex");
  RunOptions options = here(), apart = here();
  apart.tap = "cartesian_kspace";
  apart.on_item = [](const Item&, numerics::Context&) {};
  const auto fused = run(text, header, scan, options), unfused = run(text, header, scan, apart);
  ASSERT_EQ(fused.images.size(), 4u);
  ASSERT_EQ(unfused.images.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_LT(nrmse(pixels<cfloat>(fused.images[i]), pixels<cfloat>(unfused.images[i])), 1e-6);
    EXPECT_EQ(fused.images[i].head.repetition, i);
    EXPECT_EQ(meta(fused.images[i], "calibration"), "sliding 32 x 32");
  }
  scan.resize(17);  // one frame, and the first line of the next
  options.end = End::truncated;
  const auto cut = run(text, header, scan, options);
  EXPECT_TRUE(cut.images.empty());
  EXPECT_EQ(cut.warned("1 frame(s) dropped: the scan ended before their calibration was whole"), 1);
}

TEST_P(GrappaTest, WithoutAccelerationIsThePlainTransform) {
  const ParallelScene scene({32, 30, 1}, 4);
  const Leaving all{};
  const auto scan = scene.scan(all);
  RunOptions apart = here(), grappa_apart = here();
  apart.tap = "fft";  // gadget by gadget: neighbours that run as one round otherwise
  grappa_apart.tap = "grappa";
  apart.on_item = grappa_apart.on_item = [](const Item&, numerics::Context&) {};
  const auto plain = run(kPlain, scene.header_of(all), scan, here());
  const auto out = run(grappa_with("otherwise: transform"), scene.header_of(all), scan, here());
  EXPECT_EQ(pixels<float>(out.images.at(0)), pixels<float>(plain.images.at(0)));
  EXPECT_EQ(
      pixels<float>(run(grappa_with("otherwise: transform"), scene.header_of(all), scan, grappa_apart).images.at(0)),
      pixels<float>(run(kPlain, scene.header_of(all), scan, apart).images.at(0)));
  EXPECT_EQ(out.warned(""), 0);
  EXPECT_EQ(out.said(protocol::Level::info, "no acceleration"), 1);
  EXPECT_EQ(meta(out.images[0], "grappa"), "transform");
  const auto coils =
      run(grappa_with("otherwise: transform, output: coils", "component: complex"), scene.header_of(all), scan, here());
  const auto plain_coils = run(kPlainCoils, scene.header_of(all), scan, here());
  EXPECT_EQ(pixels<cfloat>(coils.images.at(0)), pixels<cfloat>(plain_coils.images.at(0)));
  const auto refused = run(grappa_with(), scene.header_of(all), scan, here());
  EXPECT_TRUE(refused.images.empty());
  EXPECT_EQ(refused.warned("use cartesian_2d"), 1);
  EXPECT_EQ(refused.counts.work.frames_refused, 1u);
}

// What cannot be unmixed gives no image, or an aliased one, and a warning; the next frame goes on.
TEST_P(GrappaTest, FramesThatCannotBeUnmixedSayWhy) {
  const ParallelScene scene({32, 32, 1}, 4);
  struct Bad {
    const char* what;
    Leaving left;
    std::function<void(std::vector<Acquisition>&)> change;
    std::string options, text;
  };
  const auto nothing = [](std::vector<Acquisition>&) {};
  const auto lose = [](std::vector<Acquisition>& scan) {
    std::erase_if(scan, [](const Acquisition& a) {
      return a.head.idx.repetition == 0 &&
             (a.head.idx.kspace_encode_step_1 == 4 || a.head.idx.kspace_encode_step_1 == 28);
    });
  };
  const auto silence = [](std::vector<Acquisition>& scan) {
    for (Acquisition& a : scan)
      if (protocol::readout_kind(a.head) == protocol::ReadoutKind::calibration)
        a.data = protocol::Payload::take(std::vector<cfloat>(4 * 32));
  };
  for (const Bad& bad :
       {Bad{"lost lines",
            {.ry = 2, .band = 12},
            lose,
            "",
            "slice 0: R=2x1 is announced, but of the lines at these steps 4, 28 are missing"},
        Bad{"no reference lines", {.ry = 2, .separate = true}, nothing, "", "send some (flags 20, 21)"},
        Bad{"a small block",
            {.ry = 2, .band = 5, .separate = true},
            nothing,
            "",
            "the kernel reaches over 5 x 7 x 1 (x, y, z) points, and calibration lines have 32 x 5 x 1"},
        Bad{"few equations",
            {.ry = 2, .band = 8, .separate = true},
            nothing,
            "kernel_x: 15",
            "at least a third is needed"},
        Bad{"no signal", {.ry = 2, .band = 12, .separate = true}, silence, "", "singular calibration"}}) {
    SCOPED_TRACE(bad.what);
    std::vector<Acquisition> scan = scene.references(bad.left);
    for (int r = 0; r < 2; ++r)
      for (Acquisition& a : scene.frame(bad.left)) {
        a.head.idx.repetition = static_cast<std::uint16_t>(r);
        scan.push_back(std::move(a));
      }
    bad.change(scan);
    const bool once = std::string(bad.what) == "lost lines";
    const auto refused = run(grappa_with(bad.options), scene.header_of(bad.left, 2), scan, here());
    EXPECT_EQ(refused.images.size(), once ? 1u : 0u);
    EXPECT_EQ(refused.warned(bad.text), 1);
    EXPECT_EQ(refused.warned("give no image"), 1);
    EXPECT_EQ(refused.counts.work.frames_refused, once ? 1u : 2u);
    const auto aliased = run(grappa_with(bad.options + (bad.options.empty() ? "" : ", ") + "otherwise: transform"),
                             scene.header_of(bad.left, 2), scan, here());
    ASSERT_EQ(aliased.images.size(), 2u);
    EXPECT_EQ(aliased.warned(bad.text), 1);
    EXPECT_EQ(aliased.warned("images alias"), 1);
    const auto plain = run(kPlain, scene.header_of(bad.left, 2), scan, here());
    EXPECT_LT(nrmse(pixels<float>(aliased.images[0]), pixels<float>(plain.images.at(0))), 1e-6);
    EXPECT_EQ(meta(aliased.images[0], "grappa"), "transform");
    EXPECT_EQ(meta(aliased.images[1], "grappa"), once ? "" : "transform");
  }
}

TEST_P(GrappaTest, RefusesWhatNoFrameCanMend) {
  const ParallelScene scene({32, 32, 1}, 4);
  const Leaving left{.ry = 2, .band = 12, .separate = true};
  const auto refusal = [&](const std::string& pipeline, const protocol::Header& header) {
    return client_error([&] { run(pipeline, header, scene.scan(left), here()); });
  };
  EXPECT_THAT(refusal(grappa_with(), scene.header_of({.ry = 17})), HasSubstr("R=17x1 is announced"));
  EXPECT_THAT(refusal(yaml("  - cartesian_kspace\n  - filter\n  - grappa\n  - image\n"), scene.header_of(left)),
              HasSubstr("put 'filter' after grappa"));
  EXPECT_ANY_THROW(run(grappa_with("output: coils, g_factor: true"), scene.header_of(left), scene.scan(left), here()));
}

TEST_P(GrappaTest, RefusesKspaceThatDoesNotFitItsLines) {
  numerics::Context compute(GetParam(), test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  const ParallelScene scene({16, 16, 1}, 4);
  Grappa grappa({});
  grappa.start(scene.header_of({.ry = 2}), scan);
  KSpace kspace{
      std::make_shared<Frame>(), compute.zeros<cfloat>({4, 1, 16, 16}), {1, 16, 16}, {1, 16, 16}, nullptr, nullptr};
  const auto refusal = [&] { return client_error([&] { grappa.process(KSpace(kspace), [](CoilImages&&) {}); }); };
  EXPECT_THAT(refusal(), HasSubstr("does not say which lines"));
  auto lines = std::make_shared<SampledLines>();
  for (int y = 0; y < 16; ++y) lines->came.push_back(y % 2 == 0 ? 1 : 0);
  *lines = sampled_lines(lines->came, 16, 1, {2, 1});
  lines->last_x = 16;
  kspace.lines = lines;
  EXPECT_EQ(refusal(), "(no ClientError)");  // a warning: there are no reference lines
  EXPECT_EQ(scan.numbers.frames_refused, 1u);
  auto calibration = std::make_shared<Calibration>();
  calibration->data = compute.zeros<cfloat>({3, 1, 12, 16});
  calibration->matrix = {16, 16, 1};
  kspace.calibration = calibration;
  EXPECT_THAT(refusal(), HasSubstr("reference lines have 3 coils, and lines of images have 4"));
  lines->came.pop_back();
  EXPECT_THAT(refusal(), HasSubstr("another matrix"));
}

ECHOTRAIN_ON_BACKENDS(GrappaTest);

}  // namespace
}  // namespace echotrain::testing
