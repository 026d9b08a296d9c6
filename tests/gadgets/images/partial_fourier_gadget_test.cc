// partial_fourier and filter in a chain: what arrives of a scan that leaves out a side, and what windows do to images.
#include "gadgets/images/kspace/partial_fourier_gadget.h"

#include <gmock/gmock.h>

#include "gadgets/images/kspace/filter.h"
#include "gadgets/images/kspace/unring_gadget.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

std::string with_gadget(const std::string& gadget, const std::string& parameters) {
  return yaml("  - cartesian_kspace\n" + (gadget.empty() ? "" : "  - " + gadget + ": {" + parameters + "}\n") +
              "  - fft\n  - coil_combine: {method: none}\n  - image: {component: complex}\n");
}

/// Two coils that see a real object, each with one phase of its own, so that opposite points of k-space tell each
/// other.
struct RealScene {
  int nx, ny;
  std::vector<cdouble> images;  // [coil, y, x]

  RealScene(int width, int height) : nx(width), ny(height) {
    std::mt19937 random(5);
    std::uniform_real_distribution<double> value(0.5, 1.5);
    for (int i = 0; i < 2 * nx * ny; ++i) images.push_back(std::polar(value(random), i < nx * ny ? 0.7 : -2.0));
  }
  /// Sample (kx, ky), counted from the corner of the encoded matrix.
  cdouble sample(int coil, int kx, int ky) const {
    cdouble sum = 0;
    for (int y = 0; y < ny; ++y)
      for (int x = 0; x < nx; ++x)
        sum += images[static_cast<std::size_t>((coil * ny + y) * nx + x)] *
               std::polar(1.0, -2 * std::numbers::pi *
                                   (static_cast<double>((kx - nx / 2) * (x - nx / 2)) / nx +
                                    static_cast<double>((ky - ny / 2) * (y - ny / 2)) / ny));
    return sum;
  }
  /// Lines first .. last - 1, without their first `cut` samples.
  std::vector<Acquisition> scan(int first, int last, int cut = 0) const {
    std::vector<Acquisition> out;
    for (int y = first; y < last; ++y) {
      std::vector<cfloat> line;
      for (int c = 0; c < 2; ++c)
        for (int x = cut; x < nx; ++x) line.push_back(cfloat(sample(c, x, y)));
      out.push_back(readout(2, std::move(line)));
      out.back().head.center_sample = static_cast<std::uint16_t>(nx / 2 - cut);
      out.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
    }
    return out;
  }
  protocol::Header header_of() const { return header({.encoded = {nx, ny, 1}, .limits = step_limit(ny)}); }
};

using PartialFourierGadgetTest = OnEachBackend;

TEST_P(PartialFourierGadgetTest, OneSideComesFromTheOther) {
  const RealScene scene(18, 25);
  const auto image = [&](const std::string& parameters, const std::vector<Acquisition>& scan) {
    const auto out =
        run(with_gadget(parameters.empty() ? "" : "partial_fourier", parameters), scene.header_of(), scan, here());
    EXPECT_EQ(out.texts.size(), 0u);
    return out.images.at(0);
  };
  for (const auto& scan : {scene.scan(8, 25), scene.scan(0, 17)}) {
    const auto homodyne = image("method: homodyne", scan);
    EXPECT_LT(nrmse(pixels<cfloat>(homodyne), scene.images), 1e-5);
    EXPECT_THAT(homodyne.attributes, HasSubstr("homodyne, y 0.68"));
    const double zero_filled = nrmse(pixels<cfloat>(image("", scan)), scene.images),
                 one = nrmse(pixels<cfloat>(image("method: pocs", scan)), scene.images),
                 twenty = nrmse(pixels<cfloat>(image("iterations: 20", scan)), scene.images);
    EXPECT_LT(one, 0.75 * zero_filled);
    EXPECT_LT(twenty, 0.5 * one);
    EXPECT_EQ(pixels<cfloat>(image("method: zero_fill", scan)), pixels<cfloat>(image("", scan)));
    EXPECT_EQ(pixels<cfloat>(image("least: 0.4", scan)), pixels<cfloat>(image("", scan)));
  }
  // Asymmetric echoes, and both axes. (Homodyne detection of one axis leaves the other to POCS.)
  for (const auto& scan : {scene.scan(0, 25, 5), scene.scan(8, 25, 5)})
    for (const std::string method : {"pocs", "homodyne"}) {
      const auto zero_filled = pixels<cfloat>(image("", scan));
      const auto filled = image("method: " + method, scan);
      EXPECT_LT(nrmse(pixels<cfloat>(filled), scene.images), 0.9 * nrmse(zero_filled, scene.images)) << method;
      EXPECT_THAT(filled.attributes, HasSubstr("x 0.722"));
    }
  // A whole scan, and one of low resolution, keep their bits.
  for (const auto& scan : {scene.scan(0, 25), scene.scan(5, 20)}) {
    const auto filled = image("method: pocs, iterations: 3", scan);
    EXPECT_EQ(pixels<cfloat>(filled), pixels<cfloat>(image("", scan)));
    EXPECT_EQ(filled.attributes.find("<name>partial_fourier<"), std::string::npos);
  }
}

// auto: what a smooth phase completes, and what it leaves with a word, of k-space and of images.
TEST_P(PartialFourierGadgetTest, AutoCompletesWhereThePhaseAllows) {
  const RealScene scene(10, 48);
  RealScene rough(10, 48);
  std::mt19937 random(3);
  for (cdouble& v : rough.images) v *= std::polar(1.0, std::uniform_real_distribution<double>(-3, 3)(random));
  const std::string gadget = "  - partial_fourier: {method: auto}\n", end =
                                                                          "  - coil_combine: {method: none}\n"
                                                                          "  - image: {component: complex}\n";
  const auto run_of = [&](const std::string& chain, const RealScene& of, const std::vector<Acquisition>& scan) {
    return run(yaml("  - cartesian_kspace\n" + chain + end), of.header_of(), scan, here());
  };
  for (const std::string& chain : {gadget + "  - fft\n", "  - fft\n" + gadget}) {
    SCOPED_TRACE(chain);
    const auto left_alone = [&](const RealScene& of, const std::vector<Acquisition>& scan) {
      const auto out = run_of(chain, of, scan), plain = run_of("  - fft\n", of, scan);
      // The form for images goes to k-space and back.
      EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), pixels<cfloat>(plain.images.at(0))), 1e-5);
      return out;
    };
    for (const auto& scan :
         {scene.scan(15, 48), scene.scan(0, 34), scene.scan(16, 48)}) {  // the last: 8 symmetric lines
      const auto out = run_of(chain, scene, scan);
      EXPECT_EQ(out.texts.size(), 0u);
      EXPECT_THAT(out.images.at(0).attributes, HasSubstr("pocs, y 0."));
      EXPECT_THAT(out.images.at(0).attributes, HasSubstr("partial_fourier_error"));
      // Random voxels fill the missing third of k-space as the rest; 0.6 of its error is what docs/pipelines.md
      // promises.
      const double zeros = nrmse(pixels<cfloat>(run_of("  - fft\n", scene, scan).images.at(0)), scene.images);
      EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scene.images), 0.6 * zeros);
    }
    const auto harsh = left_alone(rough, rough.scan(15, 48));
    EXPECT_EQ(harsh.warned("phase is too rough"), 1);
    EXPECT_THAT(harsh.images.at(0).attributes, HasSubstr("zero_fill, rough phase (pocs, y 0.688)"));
    const auto narrow = left_alone(scene, scene.scan(17, 48));
    EXPECT_EQ(narrow.warned("on axis y only 7 of 48 points"), 1);
    EXPECT_THAT(narrow.images.at(0).attributes, HasSubstr("zero_fill, y 0.646: 7 symmetric lines"));
    // Whole scans, low resolution, a lattice that ends early, and gaps inside of whole scans: not a word.
    auto gap = scene.scan(0, 48);
    gap.erase(gap.begin() + 3);
    for (const auto& scan : {scene.scan(0, 48), scene.scan(10, 39), scene.scan(0, 46), gap}) {
      const auto out = left_alone(scene, scan);
      EXPECT_EQ(out.texts.size(), 0u);
      EXPECT_EQ(out.images.at(0).attributes.find("<name>partial_fourier<"), std::string::npos);
    }
  }
}

// auto is pocs: of four iterations where lines are predicted well, of two where they are not, as the first frame of a
// slice says for all its repetitions.
TEST_P(PartialFourierGadgetTest, AutoTakesTheIterationsThatTheFirstFrameAllows) {
  const RealScene scene(10, 48);
  const auto bent = [&](double most) {
    RealScene out = scene;
    std::mt19937 random(3);
    for (cdouble& v : out.images) v *= std::polar(1.0, std::uniform_real_distribution<double>(-most, most)(random));
    return out;
  };
  const auto out = [&](const std::string& parameters, const std::vector<Acquisition>& scan) {
    HeaderSpec spec{.encoded = {10, 48, 1}, .limits = step_limit(48) + limit("repetition", 0, 1, 0)};
    return run(with_gadget("partial_fourier", parameters), header(spec), scan, here());
  };
  const auto error_of = [](const protocol::Image& image) {
    const auto at = image.attributes.find("<value>", image.attributes.find("partial_fourier_error"));
    return std::stod(image.attributes.substr(at + 7));
  };
  for (const auto& [of, least, most, iterations] : {std::tuple{scene, 0.0, 0.35, "4"}, {bent(0.2), 0.35, 1.0, "2"}}) {
    const auto scan = of.scan(15, 48);
    const auto automatic = out("method: auto, transition: 3", scan),
               fixed = out("iterations: " + std::string(iterations), scan);
    EXPECT_GE(error_of(automatic.images.at(0)), least);
    EXPECT_LT(error_of(automatic.images.at(0)), most);
    EXPECT_EQ(pixels<cfloat>(automatic.images.at(0)), pixels<cfloat>(fixed.images.at(0)));
  }
  auto scan = scene.scan(15, 48);
  for (Acquisition& line : bent(3).scan(15, 48)) {  // too rough if it came first
    line.head.idx.repetition = 1;
    scan.push_back(std::move(line));
  }
  const auto both = out("method: auto", scan);
  ASSERT_EQ(both.images.size(), 2u);
  EXPECT_EQ(both.texts.size(), 0u);
  EXPECT_EQ(error_of(both.images[1]), error_of(both.images[0]));
}

// Frames that `grappa` cannot unmix are roots of the sum of squares.
TEST_P(PartialFourierGadgetTest, MagnitudesStayAsTheyAre) {
  const RealScene scene(10, 48);
  const auto out = [&](const std::string& gadget) {
    return run(yaml("  - cartesian_kspace\n  - grappa: {otherwise: transform}\n" + gadget +
                    "  - image: {component: complex}\n"),
               scene.header_of(), scene.scan(15, 48), here());
  };
  const auto filled = out("  - partial_fourier: {method: auto}\n");
  EXPECT_EQ(pixels<cfloat>(filled.images.at(0)), pixels<cfloat>(out("").images.at(0)));
  EXPECT_EQ(filled.images.at(0).attributes.find("<name>partial_fourier<"), std::string::npos);
}

// What lacks is counted in what was encoded, not in what the image is interpolated to: five of 49 lines are a tenth.
TEST_P(PartialFourierGadgetTest, InterpolatedImagesLackWhatTheirScanLacks) {
  const RealScene scene(10, 49);
  HeaderSpec spec{
      .encoded = {10, 49, 1}, .recon = {20, 98, 1}, .encoded_fov = {100, 490, 5}, .recon_fov = {100, 490, 5}};
  spec.limits = step_limit(49);
  const auto out = [&](const std::string& gadget, const std::vector<Acquisition>& scan) {
    return run(yaml("  - cartesian_kspace\n  - fft\n" + gadget + "  - image: {component: complex}\n"), header(spec),
               scan, here());
  };
  const std::string gadget = "  - partial_fourier: {method: auto}\n";
  const auto full = pixels<cfloat>(out("", scene.scan(0, 49)).images.at(0));
  for (const auto& scan : {scene.scan(5, 49), scene.scan(0, 44)}) {
    const auto filled = out(gadget, scan);
    EXPECT_EQ(filled.texts.size(), 0u);
    EXPECT_THAT(filled.images.at(0).attributes, HasSubstr("pocs, y 0.898"));
    EXPECT_LT(nrmse(pixels<cfloat>(filled.images.at(0)), full),
              0.6 * nrmse(pixels<cfloat>(out("", scan).images.at(0)), full));
  }
  const auto narrow = out(gadget, scene.scan(17, 49));
  EXPECT_EQ(narrow.warned("on axis y only 7 of 49 points"), 1);
  EXPECT_THAT(narrow.images.at(0).attributes, HasSubstr("zero_fill, y 0.653: 7 symmetric lines"));
}

TEST_P(PartialFourierGadgetTest, EllipticFiltersAndUnringingSayWhatTheyDid) {
  const RealScene scene(20, 24);
  const auto out = [&](const std::string& gadgets, const std::vector<Acquisition>& scan) {
    return run(yaml("  - cartesian_kspace\n" + gadgets +
                    "  - coil_combine: {method: none}\n"
                    "  - image: {component: complex}\n"),
               scene.header_of(), scan, here());
  };
  const std::string fft = "  - fft\n", ellipse = "  - filter: {elliptic: true, shape: hann}\n", unring = "  - unring\n";
  const auto round = out(fft + ellipse, scene.scan(0, 24)), before = out(ellipse + fft, scene.scan(0, 24));
  EXPECT_THAT(round.images.at(0).attributes, HasSubstr("hann, elliptic"));
  EXPECT_LT(nrmse(pixels<cfloat>(round.images.at(0)), pixels<cfloat>(before.images.at(0))), 1e-5);
  const auto plain = out(fft, scene.scan(0, 24));
  EXPECT_GT(nrmse(pixels<cfloat>(round.images.at(0)), pixels<cfloat>(plain.images.at(0))), 0.1);

  const auto clean = out(fft + unring, scene.scan(0, 24));
  EXPECT_EQ(clean.texts.size(), 0u);
  EXPECT_THAT(clean.images.at(0).attributes, HasSubstr("20 shifts"));
  EXPECT_GT(nrmse(pixels<cfloat>(clean.images.at(0)), pixels<cfloat>(plain.images.at(0))), 0.1);
  const auto refuses = [&](const std::string& gadgets, const std::vector<Acquisition>& scan, const std::string& why) {
    const auto kept = out(gadgets + unring, scan), as_it_was = out(gadgets, scan);
    EXPECT_EQ(kept.warned(why), 1) << why;
    EXPECT_THAT(kept.images.at(0).attributes, HasSubstr("none, because " + why));
    EXPECT_EQ(pixels<cfloat>(kept.images.at(0)), pixels<cfloat>(as_it_was.images.at(0)));
  };
  refuses(fft + ellipse, scene.scan(0, 24), "it was filtered");
  refuses("  - partial_fourier\n" + fft, scene.scan(8, 24), "it is one of partial Fourier");
  refuses(fft, scene.scan(8, 24), "of its k-space one side is longer");
  refuses(fft, scene.scan(5, 20), "its k-space ends before the matrix does");
  refuses(fft + "  - resize: {matrix_x: 40, matrix_y: 48}\n", scene.scan(0, 24), "its k-space ends before");
}

TEST_P(PartialFourierGadgetTest, UnringingNeedsWhatItKnows) {
  numerics::Context compute(GetParam(), test_resources());
  const auto refuses = [&](std::array<int, 3> n, bool acquired, const std::string& why) {
    int warned = 0;
    Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel,
              [&](protocol::Level, const std::string& text) { warned += text.find(why) != std::string::npos ? 1 : 0; });
    auto frame = std::make_shared<Frame>();
    if (acquired) frame->acquired = {-0.5f, 0.45f, -0.5f, 0.45f, 0, 0};
    Unring gadget({});
    gadget.start(header({.encoded = n, .limits = step_limit(n[1])}), scan);
    const std::int64_t ny = std::max(n[1], 8);
    std::vector<cfloat> values(static_cast<std::size_t>(ny * n[0])), out;
    values[3] = 1;
    gadget.process({frame, compute.upload<cfloat>({values.data(), {1, 1, ny, n[0]}})}, [&](CoilImages&& images) {
      EXPECT_EQ(images.frame->notes.at("unring"), "none, because " + why);
      out = elements(compute, images.data);
    });
    EXPECT_EQ(out, values);
    EXPECT_EQ(warned, 1) << why;
  };
  refuses({16, 16, 1}, false, "it is not known what of its k-space was acquired");
  refuses({7, 16, 1}, true, "it is too small");
  refuses({16, 1, 1}, true, "an axis was not encoded");

  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) { FAIL(); });
  auto frame = std::make_shared<Frame>();
  frame->key.series = 1;  // a map of the g-factor
  Unring gadget({});
  gadget.start(header({.encoded = {16, 16, 1}, .limits = step_limit(16)}), scan);
  gadget.process({frame, compute.zeros<cfloat>({1, 1, 16, 16})},
                 [](CoilImages&& images) { EXPECT_TRUE(images.frame->notes.empty()); });
}

TEST_P(PartialFourierGadgetTest, SaysWhatItLeavesAlone) {
  const RealScene scene(20, 24);
  auto gap = scene.scan(8, 24);
  gap.erase(gap.begin() + 3);
  const auto untouched = [&](const std::vector<Acquisition>& scan, const std::string& warning) {
    const auto plain = run(with_gadget("", ""), scene.header_of(), scan, here()),
               out = run(with_gadget("partial_fourier", "method: pocs"), scene.header_of(), scan, here());
    EXPECT_EQ(pixels<cfloat>(out.images.at(0)), pixels<cfloat>(plain.images.at(0)));
    EXPECT_EQ(out.warned(warning), 1) << warning;
  };
  untouched(gap, "lines are missing in between");
  untouched(scene.scan(11, 24), "on axis y only 1 of 24 points");
  untouched(scene.scan(13, 24), "on axis y only 0 of 24 points");
  // The lines about the centre are whole, others lack four samples: what only the former have must not be lost.
  auto mixed = scene.scan(8, 24);
  for (auto& line : mixed)
    if (std::abs(line.head.idx.kspace_encode_step_1 - 12) > 2) line.head.discard_pre = 4;
  untouched(mixed, "different parts of their samples");

  numerics::Context compute(GetParam(), test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  PartialFourier gadget({});
  gadget.start(scene.header_of(), scan);
  EXPECT_THAT(
      client_error([&] {
        gadget.process(
            {std::make_shared<Frame>(), compute.zeros<cfloat>({1, 1, 6, 8}), {1, 6, 8}, {1, 6, 8}, nullptr, nullptr},
            [](KSpace&&) {});
      }),
      HasSubstr("does not say which lines"));
}

TEST_P(PartialFourierGadgetTest, TheLinesSayWhatWasFilled) {
  const RealScene scene(20, 24);
  RunOptions options = here();
  options.tap = "partial_fourier";
  SampledLines lines;
  std::vector<cfloat> data;  // of the first coil
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& kspace = std::get<KSpace>(item);
    lines = *kspace.lines;
    data = elements(compute, kspace.data);
  };
  const auto fill = [&](const std::string& method, const std::vector<Acquisition>& scan) {
    data.clear();
    run(with_gadget("partial_fourier", "method: " + method), scene.header_of(), scan, options);
    ASSERT_EQ(data.size(), 2u * 20 * 24);
  };
  const auto is_zero = [&](int x, int y) { return data[static_cast<std::size_t>(y * 20 + x)] == cfloat(); };
  const auto says = [&](std::int64_t count, std::int64_t first, std::int64_t first_x) {
    EXPECT_EQ(lines.count(), count);
    EXPECT_EQ(lines.first[0], first);
    EXPECT_EQ(lines.last[0], 23);
    EXPECT_EQ(lines.first_x, first_x);
    EXPECT_EQ(lines.last_x, 20);
  };
  fill("pocs", scene.scan(8, 24));
  says(23, 1, 0);  // line 0 is its own opposite
  for (int y = 0; y < 24; ++y) EXPECT_EQ(is_zero(10, y), y == 0) << y;
  // With two cut axes, pocs fills all but the corners at their two cut sides: they have no opposites, so that the lines
  // say what was acquired.
  fill("pocs", scene.scan(8, 24, 4));
  says(16, 8, 4);
  EXPECT_FALSE(is_zero(10, 2) || is_zero(2, 12) || is_zero(2, 2));
  EXPECT_TRUE(is_zero(18, 2) && is_zero(2, 22));
  // Homodyne detection fills one of them before.
  fill("homodyne", scene.scan(8, 24, 4));
  says(23, 1, 1);
  EXPECT_FALSE(is_zero(10, 2) || is_zero(2, 12) || is_zero(2, 2) || is_zero(18, 2) || is_zero(2, 22));
}

TEST_P(PartialFourierGadgetTest, FiltersAreWindowsOverTheAcquiredPart) {
  const RealScene scene(20, 24);
  const auto filtered = [&](const std::string& parameters, const std::vector<Acquisition>& scan) {
    RunOptions options = here();
    options.tap = "filter";
    std::vector<cfloat> data;
    options.on_item = [&](const Item& item, numerics::Context& compute) {
      data = elements(compute, std::get<KSpace>(item).data);
    };
    const auto out = run(with_gadget("filter", parameters), scene.header_of(), scan, options);
    EXPECT_THAT(out.images.at(0).attributes, HasSubstr("<name>filter</name>"));
    return data;
  };
  const auto expected = [&](int first, const std::function<double(double kx, double ky)>& window) {
    std::vector<cdouble> data;
    for (int c = 0; c < 2; ++c)
      for (int y = 0; y < 24; ++y)
        for (int x = 0; x < 20; ++x)
          data.push_back(y < first ? 0.0 : scene.sample(c, x, y) * window(std::abs(x - 10), std::abs(y - 12)));
    return data;
  };
  constexpr double kPi = std::numbers::pi;
  // Along y, the outermost sample is 12 from the centre, or 11 where the other side came in part.
  const auto hann = [](double k, double width) { return k > width ? 0 : 0.5 + 0.5 * std::cos(kPi * k / width); };
  const auto tukey = [](double k, double width) {
    return k > width ? 0 : k < 0.75 * width ? 1 : 0.5 + 0.5 * std::cos(kPi * (k - 0.75 * width) / (0.25 * width));
  };
  EXPECT_LT(nrmse(filtered("shape: hann", scene.scan(0, 24)),
                  expected(0, [&](double x, double y) { return hann(x, 10) * hann(y, 12); })),
            1e-6);
  EXPECT_LT(nrmse(filtered("alpha: 0.25, axes: y", scene.scan(6, 24)),
                  expected(6, [&](double, double y) { return tukey(y, 11); })),
            1e-6);
  EXPECT_LT(nrmse(filtered("shape: gaussian, sigma: 0.3, width: 0.5, axes: zx", scene.scan(0, 24)),
                  expected(0, [&](double x, double) { return std::exp(-x * x / (2 * 1.5 * 1.5)); })),
            1e-6);
  // Fewer lines acquired on both sides: the window ends with them.
  EXPECT_LT(nrmse(filtered("shape: hann, axes: y", scene.scan(4, 20)),
                  [&] {
                    auto data = expected(4, [&](double, double y) { return hann(y, 8); });
                    for (std::size_t i = 0; i < data.size(); ++i)
                      if (i / 20 % 24 >= 20) data[i] = 0;
                    return data;
                  }()),
            1e-6);
  EXPECT_THROW(Filter({.axes = "xw"}), std::invalid_argument);
  EXPECT_THROW(Filter({.axes = ""}), std::invalid_argument);
}

/// The pixels of the one image that these gadgets make, complex.
std::vector<cfloat> image_by(const std::string& gadgets, const protocol::Header& h,
                             const std::vector<Acquisition>& scan, const RunOptions& options) {
  const auto out = run(yaml(gadgets + "  - image: {component: complex}\n"), h, scan, options);
  EXPECT_EQ(out.texts.size(), 0u);
  return pixels<cfloat>(out.images.at(0));
}

TEST_P(PartialFourierGadgetTest, ImagesAreCompletedAsTheirKspaceIs) {
  const RealScene scene(18, 25);
  for (const auto& scan : {scene.scan(8, 25), scene.scan(0, 17), scene.scan(0, 25, 5), scene.scan(8, 25, 5)})
    for (const std::string how :
         {"method: homodyne", "method: pocs, iterations: 3", "method: pocs, transition: 2", "method: zero_fill"}) {
      SCOPED_TRACE(how);
      const std::string gadget = "  - partial_fourier: {" + how + "}\n";
      const auto kspace = image_by("  - cartesian_kspace\n" + gadget + "  - fft\n", scene.header_of(), scan, here()),
                 images = image_by("  - cartesian_kspace\n  - fft\n" + gadget, scene.header_of(), scan, here());
      EXPECT_LT(nrmse(images, kspace), 1e-5);
    }
  // The side that is missing comes out of the solver as it went in.
  const std::string solved =
      "  - cartesian_kspace\n  - encoding\n  - pcg: {prior: none, iterations: 3}\n  - partial_fourier: {method: "
      "homodyne}\n";
  EXPECT_LT(nrmse(image_by(solved, scene.header_of(), scene.scan(8, 25), here()), scene.images), 1e-5);
  // What was completed before, and what lacks nothing, keeps its bits.
  const std::string once = "  - cartesian_kspace\n  - partial_fourier\n  - fft\n",
                    fft = "  - cartesian_kspace\n  - fft\n", filled = "  - partial_fourier\n";
  EXPECT_EQ(image_by(once + filled, scene.header_of(), scene.scan(8, 25), here()),
            image_by(once, scene.header_of(), scene.scan(8, 25), here()));
  for (const auto& scan : {scene.scan(0, 25), scene.scan(5, 20)})
    EXPECT_EQ(image_by(fft + filled, scene.header_of(), scan, here()), image_by(fft, scene.header_of(), scan, here()));
}

// Lines of twice the field of view, whose images are cut; the object is within what is kept.
TEST_P(PartialFourierGadgetTest, ImagesOfACutFieldOfViewAreCompleted) {
  RealScene scene(36, 25);
  for (int i = 0; i < 2 * 36 * 25; ++i)
    if (i % 36 < 12 || i % 36 >= 24) scene.images[static_cast<std::size_t>(i)] = 0;
  HeaderSpec spec{
      .encoded = {36, 25, 1}, .recon = {18, 25, 1}, .encoded_fov = {360, 250, 5}, .recon_fov = {180, 250, 5}};
  spec.limits = step_limit(25);
  std::vector<cdouble> truth;
  for (int row = 0; row < 2 * 25; ++row)
    for (int x = 9; x < 27; ++x) truth.push_back(scene.images[static_cast<std::size_t>(row * 36 + x)]);
  const std::string fft = "  - cartesian_kspace\n  - fft\n", homodyne = "  - partial_fourier: {method: homodyne}\n";
  EXPECT_LT(nrmse(image_by(fft + homodyne, header(spec), scene.scan(8, 25), here()), truth), 1e-5);
  // With partial echoes, the cut softens the edge.
  const auto echoes = scene.scan(0, 25, 10);
  const double zero_filled = nrmse(image_by(fft, header(spec), echoes, here()), truth),
               filled = nrmse(image_by(fft + homodyne, header(spec), echoes, here()), truth);
  EXPECT_GT(zero_filled, 0.15);
  EXPECT_LT(filled, 0.5 * zero_filled);
}

// Solvers leave something where nothing was acquired; it counts as missing.
TEST_P(PartialFourierGadgetTest, OnlyWhatWasAcquiredCounts) {
  const RealScene scene(18, 25);
  RunOptions options = here();
  options.tap = "fft";
  std::shared_ptr<const Frame> frame;
  std::vector<cfloat> data;
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    frame = std::get<CoilImages>(item).frame;
    data = elements(compute, std::get<CoilImages>(item).data);
  };
  numerics::Context compute(GetParam(), test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  for (const std::string method : {"homodyne", "pocs"}) {
    std::vector<std::vector<cfloat>> filled;
    for (const int first : {0, 8}) {
      run(with_gadget("", ""), scene.header_of(), scene.scan(first, 25), options);
      auto said = std::make_shared<Frame>(*frame);
      (*said->acquired)[2] = (8.0f - 12) / 25;  // line 8
      PartialFourierOfImages gadget({.method = method});
      gadget.start(scene.header_of(), scan);
      gadget.process({said, compute.upload<cfloat>({data.data(), {2, 1, 25, 18}})},
                     [&](CoilImages&& made) { filled.push_back(elements(compute, made.data)); });
    }
    ASSERT_EQ(filled.size(), 2u);
    EXPECT_LT(nrmse(filled[0], filled[1]), 1e-5) << method;
  }
}

TEST_P(PartialFourierGadgetTest, WhatWasAcquiredTurnsWithTheImage) {
  const RealScene scene(17, 25);
  for (const bool exchanged : {false, true}) {
    auto scan = scene.scan(8, 25);
    for (Acquisition& a : scan) {
      a.head.read_dir[exchanged ? 1 : 0] = exchanged ? 1.0f : -1.0f;
      a.head.phase_dir[exchanged ? 0 : 1] = -1.0f;
      a.head.slice_dir[2] = 1;
    }
    const std::string fft = "  - cartesian_kspace\n  - fft\n", fill = "  - partial_fourier: {method: pocs}\n",
                      orient = "  - orient\n", hann = "  - filter: {shape: hann, axes: xy}\n";
    EXPECT_LT(nrmse(image_by(fft + orient + fill + hann, scene.header_of(), scan, here()),
                    image_by(fft + fill + hann + orient, scene.header_of(), scan, here())),
              1e-5);
  }
}

TEST_P(PartialFourierGadgetTest, ImagesThatAreNoneStayAsTheyAre) {
  numerics::Context compute(GetParam(), test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  const RealScene scene(8, 6);
  std::vector<cfloat> values(scene.images.begin(), scene.images.end());
  const auto given = [&](std::uint16_t series, bool acquired) {
    auto frame = std::make_shared<Frame>();
    frame->key.series = series;
    if (acquired) frame->acquired = {-0.125f, 0.375f, -0.5f, 0.334f, 0, 0};
    return CoilImages{frame, compute.upload<cfloat>({values.data(), {2, 1, 6, 8}})};
  };
  const auto same = [&](auto&& gadget, CoilImages images) {
    gadget.start(scene.header_of(), scan);
    std::vector<cfloat> out;
    gadget.process(std::move(images), [&](CoilImages&& made) { out = elements(compute, made.data); });
    return out == values;
  };
  EXPECT_FALSE(same(PartialFourierOfImages({}), given(0, true)));
  EXPECT_FALSE(same(FilterOfImages({}), given(0, true)));
  EXPECT_FALSE(same(FilterOfImages({}), given(0, false)));
  for (const std::uint16_t series : {1, 2}) {
    EXPECT_TRUE(same(PartialFourierOfImages({}), given(series, true)));
    EXPECT_TRUE(same(FilterOfImages({}), given(series, true)));
  }
  EXPECT_THAT(client_error([&] { same(PartialFourierOfImages({}), given(0, false)); }),
              HasSubstr("does not say which"));
  EXPECT_THROW(FilterOfImages({.axes = "xw"}), std::invalid_argument);
}

TEST_P(PartialFourierGadgetTest, FiltersOfImagesAreThoseOfTheirKspace) {
  const RealScene scene(20, 24);
  for (const auto& scan : {scene.scan(0, 24), scene.scan(6, 24), scene.scan(4, 20), scene.scan(0, 24, 4)})
    for (const std::string how : {"shape: hann", "alpha: 0.25, axes: y", "shape: gaussian, sigma: 0.3, width: 0.5"}) {
      SCOPED_TRACE(how);
      const std::string gadget = "  - filter: {" + how + "}\n", finer = "  - resize: {matrix_x: 30, matrix_y: 48}\n",
                        kspace = "  - cartesian_kspace\n", fft = "  - fft\n";
      const auto filtered = [&](const std::string& chain) { return image_by(chain, scene.header_of(), scan, here()); };
      EXPECT_LT(nrmse(filtered(kspace + fft + gadget), filtered(kspace + gadget + fft)), 1e-5);
      EXPECT_LT(nrmse(filtered(kspace + fft + finer + gadget), filtered(kspace + gadget + fft + finer)), 1e-5);
    }
}

ECHOTRAIN_ON_BACKENDS(PartialFourierGadgetTest);

}  // namespace
}  // namespace echotrain::testing
