// Branches of a running scan: copies of items go their own way, and their images leave as series of their own.
#include "gadgets/engine/chain/branch.h"

#include <gmock/gmock.h>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "tests/gadgets/engine/chain/contrasts.h"
#include "tests/gadgets/sent_images.h"

namespace echotrain::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kCoils = "  - cartesian_kspace\n  - fft\n  - coil_combine: {method: none}\n";
const std::string kComplex = "  - image: {component: complex}\n";

std::vector<int> series_of(const Outcome& out) {
  std::vector<int> series;
  for (const auto& image : out.images) series.push_back(image.head.image_series_index);
  return series;
}

using BranchTest = OnEachBackend;

TEST_P(BranchTest, MagnitudeAndPhaseAreTwoSeries) {
  const Contrasts scene(2);
  const auto out = run(yaml(kCoils + "  - branch: {pipeline: [image: {component: phase}]}\n  - image\n"),
                       scene.measurement, scene.scan, here());
  EXPECT_THAT(series_of(out), ElementsAre(1001, 1, 1001, 1));
  for (std::size_t c = 0; c < 2; ++c) {
    ASSERT_EQ(of_series(out, 1).size(), 2u);
    const auto magnitude = pixels<float>(of_series(out, 1)[c]), phase = pixels<float>(of_series(out, 1001)[c]);
    std::vector<cdouble> both;
    for (std::size_t i = 0; i < phase.size(); ++i) both.push_back(std::polar<double>(magnitude[i], phase[i]));
    EXPECT_LT(nrmse(both, scene.images[c]), 1e-5);
    EXPECT_EQ(of_series(out, 1001)[c].head.image_type, ISMRMRD::ISMRMRD_IMTYPE_PHASE);
    EXPECT_EQ(of_series(out, 1001)[c].head.image_index, c + 1);
  }
  const auto alone = run(yaml(kCoils + "  - image\n"), scene.measurement, scene.scan, here());
  EXPECT_TRUE(same_pixels(of_series(out, 1), alone.images));
  EXPECT_EQ(out.counts.frames, 2u);
}

/// Multiplies its input, in place.
template <class T>
class Times final : public Gadget<T, T> {
 public:
  struct Options {
    double factor = 1;
  };
  static constexpr std::string_view kName = "times";
  static constexpr std::string_view kSummary = "Multiplies its input, in place.";
  static Parameters<Options> parameters() {
    return Parameters<Options>().number("factor", &Options::factor, -100, 100, "factor");
  }
  explicit Times(const Options& options) : factor_(static_cast<float>(options.factor)) {}
  void start(const protocol::Header& /*header*/, Scan& scan) override { scan_ = &scan; }
  void process(T&& item, const Emit<T>& emit) override {
    if (item.data.size() > 0) numerics::scale(scan_->compute, item.data.cview(), factor_, item.data.view());
    emit(std::move(item));
  }

 private:
  const float factor_;
  Scan* scan_ = nullptr;
};

TEST_P(BranchTest, WhatIsChangedInPlaceChangesInItsBranchAlone) {
  Registry registry = Registry::builtin();
  registry.add<Times<Readouts>>();
  registry.add<Times<KSpace>>();
  registry.add<Times<CoilImages>>();
  const Contrasts scene(2);
  const auto alone = run(yaml(kCoils + kComplex), scene.measurement, scene.scan, here());
  const std::array<std::string, 4> gadgets{"cartesian_kspace", "fft", "coil_combine: {method: none}",
                                           "image: {component: complex}"};
  for (std::size_t place = 0; place + 1 < gadgets.size(); ++place) {
    std::string before, behind;  // in braces for the branch
    for (std::size_t i = 0; i < gadgets.size(); ++i) {
      if (i < place) before += "  - " + gadgets[i] + "\n";
      if (i >= place) behind += ", " + gadgets[i];
    }
    std::string rest;
    for (std::size_t i = place; i < gadgets.size(); ++i) rest += "  - " + gadgets[i] + "\n";
    const std::string branch = "  - branch: {pipeline: [times: {factor: 3}" + behind + "]}\n";
    const std::string second = "  - branch: {pipeline: [times: {factor: -2}" + behind + "]}\n";
    const auto out =
        run_with(registry, yaml(before + branch + second + rest), scene.measurement, scene.scan, GetParam());
    ASSERT_EQ(of_series(out, 1).size(), 2u);
    for (std::size_t c = 0; c < 2; ++c)
      EXPECT_LT(nrmse(pixels<cfloat>(of_series(out, 1)[c]), scene.images[c]), 1e-5) << place;
    if (place != 1) {  // where the branch does not part gadgets that run as one
      EXPECT_TRUE(same_pixels(of_series(out, 1), alone.images)) << place;
    }
    for (const auto& [series, factor] : {std::pair(1001, 3.0), std::pair(2001, -2.0)}) {
      ASSERT_EQ(of_series(out, series).size(), 2u) << place;
      for (std::size_t c = 0; c < 2; ++c) {
        auto truth = scene.images[c];
        for (cdouble& v : truth) v *= factor;
        EXPECT_LT(nrmse(pixels<cfloat>(of_series(out, series)[c]), truth), 1e-5) << place;
      }
    }
  }
}

TEST_P(BranchTest, ConditionsRouteAndWhatIsKeptGoesNowhereElse) {
  const Contrasts scene(3);
  const std::string routed =
      "  - branch: {when: {contrast: [0, 2]}, pipeline: [image: {component: complex}]}\n"
      "  - branch: {when: {contrast: 2}, pass_on: false, series_offset: 7, pipeline: [image: {component: complex}]}\n"
      "  - branch: {when: {contrast: {from: 2}}, pipeline: [image: {component: complex}]}\n";
  const auto out = run(yaml(kCoils + routed + kComplex), scene.measurement, scene.scan, here());
  EXPECT_THAT(series_of(out), ElementsAre(1001, 1, 1, 1001, 8));
  const std::array<std::size_t, 5> contrasts{0, 0, 1, 2, 2};
  for (std::size_t i = 0; i < out.images.size(); ++i)
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[i]), scene.images[contrasts.at(i)]), 1e-5) << i;
}

TEST_P(BranchTest, AChainMayEndInBranches) {
  const Contrasts scene(3);
  const std::string fork =
      "  - branch: {when: {contrast: 0}, pipeline: [cartesian_kspace, fft, image: {component: complex}]}\n"
      "  - branch: {when: {contrast: [0, 1]}, pipeline: [cartesian_kspace, fft, image: {component: complex}]}\n";
  const auto out = run(yaml(fork), scene.measurement, scene.scan, here());
  EXPECT_THAT(series_of(out), ElementsAre(1001, 2001, 2001));
  const std::array<std::size_t, 3> contrasts{0, 0, 1};
  for (std::size_t i = 0; i < out.images.size(); ++i)
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[i]), scene.images[contrasts.at(i)]), 1e-5) << i;
  EXPECT_EQ(out.warned("no branch of the pipeline takes some of the scan's Readouts; they are left out"), 1);
}

TEST_P(BranchTest, NoiseReachesBranchesThatChooseByCounters) {
  const Contrasts scene(2);
  std::mt19937 random(1);
  std::vector<Acquisition> scan;
  for (int i = 0; i < 8; ++i) {
    scan.push_back(readout(1, noise(64, random, 5)));
    set_flag(scan.back(), kNoise);
  }
  scan.insert(scan.end(), scene.scan.begin(), scene.scan.end());
  const std::string whitened = "noise_adjust, cartesian_kspace, fft, image: {component: complex}";
  const auto alone =
      run(yaml("  - noise_adjust\n  - cartesian_kspace\n  - fft\n" + kComplex), scene.measurement, scan, here());
  const auto out = run(yaml("  - branch: {when: {contrast: 1}, pass_on: false, pipeline: [" + whitened + "]}\n" +
                            "  - noise_adjust\n  - cartesian_kspace\n  - fft\n" + kComplex),
                       scene.measurement, scan, here());
  EXPECT_THAT(series_of(out), ElementsAre(1, 1001));
  EXPECT_TRUE(same_pixels(out.images, alone.images));
  // Readouts of a kind may have a branch to themselves.
  const auto unwhitened =
      run(yaml("  - branch: {when: {kind: imaging}, pipeline: [" + whitened + "]}\n"), scene.measurement, scan, here());
  EXPECT_GT(nrmse(pixels<cfloat>(unwhitened.images.at(0)), pixels<cfloat>(alone.images.at(0))), 0.5);
}

TEST_P(BranchTest, EncodingSpacesGoThroughGadgetsThatFit) {
  const Contrasts scene(1);
  std::mt19937 random(2);
  std::vector<Acquisition> spokes;
  for (int s = 0; s < 40; ++s) {
    std::vector<float> trajectory;
    const double angle = s * std::numbers::pi / 40;
    for (int i = 0; i < 32; ++i) {
      const double k = (i - 16) / 32.0;
      trajectory.push_back(static_cast<float>(k * std::cos(angle)));
      trajectory.push_back(static_cast<float>(k * std::sin(angle)));
    }
    spokes.push_back(readout(1, noise(32, random), trajectory));
    spokes.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(s);
  }
  set_flag(spokes.back(), kLastInSlice);
  const HeaderSpec flat{.encoded = {16, 16, 1}, .limits = step_limit(16)};
  const HeaderSpec radial{.encoded = {16, 16, 1}, .trajectory = "radial", .limits = step_limit(40)};
  const std::string gridded = "density_compensation, gridding: {incremental: false}, fft, deapodization, image";
  std::string gridded_lines = "  - " + gridded + "\n";
  for (std::size_t at = 0; (at = gridded_lines.find(", ", at)) != std::string::npos;)
    gridded_lines.replace(at, 2, "\n  - ");
  const auto by_grid = run(yaml(gridded_lines), header(radial), spokes, here());
  const auto by_fft = run(yaml(kCoils + "  - image\n"), header(flat), scene.scan, here());
  std::vector<Acquisition> both = scene.scan;
  for (Acquisition spoke : spokes) {
    spoke.head.encoding_space_ref = 1;
    both.push_back(std::move(spoke));
  }
  for (const std::string& chains :
       {"  - branch: {when: {encoding: 1}, pass_on: false, pipeline: [" + gridded + "]}\n" + kCoils + "  - image\n",
        "  - branch: {when: {encoding: 1}, pipeline: [" + gridded + "]}\n" +
            "  - branch: {when: {encoding: 0}, pipeline: [cartesian_kspace, fft, coil_combine: {method: none}, "
            "image]}\n"}) {
    const auto out = run(yaml(chains), header({flat, radial}), both, here());
    ASSERT_EQ(out.images.size(), 2u);
    const bool cartesian_first = out.images[0].head.image_series_index % 1000 == 1;
    EXPECT_TRUE(same_pixels({out.images[cartesian_first ? 0 : 1]}, by_fft.images));
    EXPECT_TRUE(same_pixels({out.images[cartesian_first ? 1 : 0]}, by_grid.images));
    EXPECT_EQ(out.images[cartesian_first ? 1 : 0].head.image_series_index, 1002);
  }
  EXPECT_THAT(client_error([&] {
                run(yaml(kCoils + "  - image\n"), header({flat, radial}), both, here());
              }),
              HasSubstr("this pipeline reconstructs Cartesian data"));
}

TEST_P(BranchTest, ImageAndGFactorGoApart) {
  const ParallelScene scene({32, 32, 1}, 4);
  const Leaving left{.ry = 2, .band = 12, .separate = true};
  const std::string grappa = "  - cartesian_kspace\n  - grappa: {g_factor: true}\n";
  const auto alone = run(yaml(grappa + "  - image\n"), scene.header_of(left), scene.scan(left), here());
  ASSERT_EQ(alone.images.size(), 2u);
  const auto out = run(yaml(grappa + "  - branch: {when: {content: g_factor}, pass_on: false, pipeline: [image]}\n" +
                            "  - image: {scale: 100, type: uint16}\n"),
                       scene.header_of(left), scene.scan(left), here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_TRUE(same_pixels(of_series(out, 1003), of_series(alone, 3)));
  ASSERT_EQ(of_series(out, 1).size(), 1u);
  EXPECT_EQ(of_series(out, 1)[0].head.data_type, ISMRMRD::ISMRMRD_USHORT);
}

TEST_P(BranchTest, ImagesOfARoleGoToTheGadgetThatAsksForThem) {
  const Contrasts scene(2, 3);
  const std::string least_squares =
      "  - encoding\n  - coil_maps: {method: given}\n  - pcg: {lambda: 0, tolerance: 1.0e-6, iterations: 200}\n";
  const auto out = run(yaml("  - cartesian_kspace\n  - branch: {role: coil_maps, pipeline: [fft, image: {component: "
                            "complex}]}\n" +
                            least_squares + kComplex),
                       scene.measurement, scene.scan, here());
  // The maps are the images themselves, so that what they multiply is 1.
  EXPECT_THAT(series_of(out), ElementsAre(1, 1));
  const std::vector<cdouble> ones(Contrasts::kN * Contrasts::kN, 1.0);
  for (const auto& image : out.images) EXPECT_LT(nrmse(pixels<cfloat>(image), ones), 1e-3);
  const auto unasked = run(yaml(kCoils + "  - branch: {role: maps, pipeline: [image]}\n" + kComplex), scene.measurement,
                           scene.scan, here());
  EXPECT_EQ(unasked.warned("no gadget asks for images of role 'maps'"), 1);
  EXPECT_THAT(series_of(unasked), ElementsAre(1, 1));
}

TEST_P(BranchTest, TheRoleOfABranchCountsNotThatOfTheClientsImages) {
  const Contrasts scene(1, 2);
  const std::string chain =
      "  - branch: {when: {item: images}, role: coil_maps, pipeline: [from_messages, image: {component: complex}]}\n"
      "  - cartesian_kspace\n  - encoding\n  - coil_maps: {method: given}\n"
      "  - pcg: {lambda: 0, tolerance: 1.0e-6, iterations: 200}\n";
  // The maps are the coils' images themselves, so that what they multiply is 1.
  const std::vector<cfloat> maps(scene.images[0].begin(), scene.images[0].end());
  const std::vector<cdouble> ones(Contrasts::kN * Contrasts::kN, 1.0);
  for (const Attributes& own : {Attributes{}, Attributes{{"role", "maps_of_mine"}}}) {
    RunOptions options = here();
    options.images = {sent_image(maps, {Contrasts::kN, Contrasts::kN, 1}, own)};
    const auto out = run(yaml(chain + kComplex), scene.measurement, scene.scan, options);
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), ones), 1e-3);
  }
}

TEST_P(BranchTest, ImagesBesideReadoutsHaveABranchOfTheirOwn) {
  const Contrasts scene(1);
  std::vector<std::uint16_t> values(6 * 4);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint16_t>(100 + i);
  RunOptions options = here();
  options.images = {sent_image(values, {6, 4, 1}), sent_image(std::vector<float>(24, 2.0f), {6, 4, 1}, {}, 2),
                    sent_image(std::vector<float>(24, 3.0f), {6, 4, 1}, {{"own", "x"}}, 3)};
  const std::string branches =
      "  - branch: {when: {item: images, image_type: magnitude}, pipeline: [invert_contrast: {maximum: 200}, image]}\n"
      "  - branch: {when: {item: images, meta: {own: [x, y]}}, pipeline: [from_messages, image]}\n";
  const auto out = run(yaml(branches + kCoils + kComplex), scene.measurement, scene.scan, options);
  EXPECT_THAT(series_of(out), ElementsAre(1001, 2001, 1));
  std::vector<std::uint16_t> inverted;
  for (const std::uint16_t v : values) inverted.push_back(static_cast<std::uint16_t>(200 - v));
  EXPECT_EQ(pixels<std::uint16_t>(out.images.at(0)), inverted);
  EXPECT_EQ(pixels<float>(out.images.at(1)), std::vector<float>(24, 3.0f));
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(2)), scene.images[0]), 1e-5);
  EXPECT_EQ(out.warned("no branch of pipeline 'test' takes images of series 1 and image_type 2; they are left out"), 1);
  EXPECT_EQ(out.counts.images_in, 3u);
  EXPECT_EQ(out.counts.frames, 2u);  // the frame of readouts, and the image that became an item
}

TEST_P(BranchTest, PipelinesOfImagesMayBranch) {
  const auto out = run_images(
      "  - branch: {when: {series: 2}, pass_on: false, pipeline: [invert_contrast: {maximum: 9}, image]}\n  - image\n",
      [] {
        std::vector<protocol::Image> images;
        for (std::uint16_t series = 1; series < 4; ++series) {
          images.push_back(sent_image(std::vector<float>(24, 2.0f), {6, 4, 1}));
          images.back().head.image_series_index = series;
        }
        return images;
      }(),
      here());
  EXPECT_THAT(series_of(out), ElementsAre(1, 1002, 3));
  EXPECT_EQ(pixels<float>(out.images.at(1)), std::vector<float>(24, 7.0f));
}

TEST_P(BranchTest, ImagesBesideMessagesAsTheyCameHaveABranch) {
  const Contrasts scene(1);
  RunOptions options = here();
  options.images = {sent_image(std::vector<float>(24, 2.0f), {6, 4, 1}),
                    sent_image(std::vector<float>(24, 3.0f), {6, 4, 1}),
                    sent_image(std::vector<float>(24, 4.0f), {6, 4, 1})};
  for (std::size_t i = 0; i < 3; ++i) options.images[i].head.image_series_index = static_cast<std::uint16_t>(i + 1);
  const auto out = run(yaml("  - branch: {when: {item: images, series: 2}, pass_on: false, pipeline: [image]}\n"
                            "  - branch: {when: {item: images, series: [2, 3]}, pipeline: [image]}\n  - passthrough\n"),
                       scene.measurement, scene.scan, options);
  EXPECT_THAT(series_of(out), ElementsAre(1, 1002, 2003, 3));
  EXPECT_EQ(out.warned("no branch"), 0);
}

TEST_P(BranchTest, AcceleratedChainsMayBranch) {
  const ParallelScene scene({32, 32, 1}, 4);
  const std::string both =
      "  - cartesian_kspace: {calibration: none}\n  - fft\n  - coil_combine: {method: rss}\n  - image\naccelerated:\n"
      "  - cartesian_kspace\n  - grappa\n  - branch: {pipeline: [image: {component: phase}]}\n  - image\n";
  const Leaving all, left{.ry = 2, .band = 12, .separate = true};
  EXPECT_THAT(series_of(run(yaml(both), scene.header_of(all), scene.scan(all), here())), ElementsAre(1));
  EXPECT_THAT(series_of(run(yaml(both), scene.header_of(left), scene.scan(left), here())), ElementsAre(1001, 1));
}

TEST_P(BranchTest, GadgetsOfABranchAreFusedAndTappedAsOthers) {
  const ParallelScene scene({32, 32, 1}, 4);
  const Leaving all;
  const std::string chain = "cartesian_kspace, fft, coil_combine: {method: rss}";
  const auto alone = run(yaml("  - cartesian_kspace\n  - fft\n  - coil_combine: {method: rss}\n  - image\n"),
                         scene.header_of(all), scene.scan(all), here());
  const std::string text = yaml("  - branch: {pipeline: [" + chain + ", branch: {pipeline: [image]}]}\n" +
                                "  - cartesian_kspace\n  - fft\n  - coil_combine: {method: none}\n  - image\n");
  const auto plan = PipelinePlan::check(config::read_pipeline(text, "p.yaml"));
  EXPECT_THAT(plan->describe(), HasSubstr("\n  as one on the CPU: cartesian_kspace, fft, coil_combine\n"));
  EXPECT_TRUE(same_pixels(of_series(run(text, scene.header_of(all), scene.scan(all), here()), 2001), alone.images));
  RunOptions options = here();
  int frames = 0;
  options.tap = "resize";
  options.on_item = [&](const Item& item, numerics::Context&) { frames += std::holds_alternative<CoilImages>(item); };
  run(yaml(kCoils + "  - branch: {pipeline: [resize: {crop_x: 8}, image]}\n  - image\n"), scene.header_of(all),
      scene.scan(all), options);
  EXPECT_EQ(frames, 1);
  numerics::Context compute(GetParam(), test_resources());
  EXPECT_FALSE(Pipeline(plan, compute, {}).tap("branch", [](const Item&) {}));
}
ECHOTRAIN_ON_BACKENDS(BranchTest);

TEST(Branch, SeriesNumbersThatDoNotFitAreRefused) {
  auto image = sent_image(std::vector<float>(24, 2.0f), {6, 4, 1});
  image.head.image_series_index = 65000;
  const auto run_it = [&] { run_images("  - branch: {pipeline: [image]}\n  - image\n", {image}); };
  EXPECT_THAT(client_error(run_it), HasSubstr("series 65000 leaves a branch that adds 1000"));
}

/// Holds images back until it is asked for them, and counts what passes by.
class Holder final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    bool at_end = false;
  };
  static constexpr std::string_view kName = "holder";
  static constexpr std::string_view kSummary = "Holds images back.";
  static Parameters<Options> parameters() {
    return Parameters<Options>().flag("at_end", &Options::at_end, "until the end");
  }
  explicit Holder(const Options& options) : at_end_(options.at_end) {}
  void process(CoilImages&& images, const Emit<CoilImages>& /*emit*/) override { held_.push_back(std::move(images)); }
  void rest(const Emit<CoilImages>& emit) override {
    if (!at_end_) give(emit);
  }
  void finish(End how, const Emit<CoilImages>& emit) override {
    complete += how == End::complete ? 1 : 0;
    give(emit);
  }
  bool take_aside(Item& item, const Emit<CoilImages>& /*emit*/) override {
    waveforms += std::holds_alternative<Waveform>(item) ? 1 : 0;
    return false;
  }

  static inline int waveforms = 0, complete = 0;

 private:
  void give(const Emit<CoilImages>& emit) {
    for (CoilImages& images : std::exchange(held_, {})) emit(std::move(images));
  }
  const bool at_end_;
  std::vector<CoilImages> held_;
};

TEST(Branch, PausesEndsAndWaveformsReachIt) {
  Registry registry = Registry::builtin();
  registry.add<Holder>();
  Holder::waveforms = Holder::complete = 0;
  const Contrasts scene(1);
  protocol::Waveform waveform;
  waveform.head.version = 1;
  const std::string branches =
      "  - branch: {pipeline: [holder: {at_end: true}, image]}\n  - branch: {pipeline: [holder, branch: {pipeline: "
      "[holder, image]}, image]}\n";
  const auto out = run_with(registry, yaml(kCoils + branches + "  - holder\n  - image\n"), scene.measurement,
                            scene.scan, Backend::cpu, {waveform, waveform});
  EXPECT_THAT(series_of(out), ElementsAre(2001, 3001, 1, 1001));
  EXPECT_EQ(Holder::waveforms, 2 * 4);
  EXPECT_EQ(Holder::complete, 4);
}

}  // namespace
}  // namespace echotrain::testing
