// Gadgets that change contrast, noise and labels of finished images: of clients and of readouts.
#include <cmath>
#include <numeric>

#include "gadgets/images/contrast/denoise.h"
#include "gadgets/images/contrast/invert_contrast.h"
#include "gadgets/images/contrast/label.h"
#include "gadgets/numerics/mri/images/non_local_means.h"
#include "tests/gadgets/sent_images.h"

namespace echotrain::testing {
namespace {

using ContrastTest = OnEachBackend;
ECHOTRAIN_ON_BACKENDS(ContrastTest);

TEST_P(ContrastTest, InvertedIsTheSeriesMaximumMinusTheValue) {
  const Outcome out = run_images("  - invert_contrast\n  - image\n",
                                 {sent_image<std::uint16_t>({0, 100, 4000, 7}, {2, 2, 1}),
                                  sent_image<std::uint16_t>({4100, 4000, 1, 0}, {2, 2, 1})},
                                 here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_EQ(pixels<std::uint16_t>(out.images[0]), (std::vector<std::uint16_t>{4000, 3900, 0, 3993}));
  EXPECT_EQ(pixels<std::uint16_t>(out.images[1]), (std::vector<std::uint16_t>{0, 0, 3999, 4000}));
  EXPECT_EQ(meta_of(out.images[1], "WindowCenter"), Values{"2000"});
  EXPECT_EQ(meta_of(out.images[1], "WindowWidth"), Values{"4000"});
  EXPECT_EQ(meta_of(out.images[1], "ImageProcessingHistory"), (Values{"INVERT", "ECHOTRAIN"}));
  EXPECT_TRUE(meta_of(out.images[1], "echotrain_saturated_pixels").empty());
}

TEST_P(ContrastTest, TheWindowTurnsAboutWithTheValues) {
  const Outcome out = run_images(
      "  - invert_contrast: {maximum: 4095}\n  - image\n",
      {sent_image<float>({95, 4095}, {2, 1, 1}, {{"WindowCenter", "1000"}, {"WindowWidth", "300"}})}, here());
  EXPECT_EQ(pixels<float>(out.images.at(0)), (std::vector<float>{4000, 0}));
  EXPECT_EQ(meta_of(out.images[0], "WindowCenter"), Values{"3095"});
  EXPECT_EQ(meta_of(out.images[0], "WindowWidth"), Values{"300"});
}

TEST_P(ContrastTest, RealPartsKeepTheirSignAndComplexImagesTheirMagnitude) {
  Outcome out = run_images(
      "  - invert_contrast\n  - image\n",
      {sent_image<std::int16_t>({-50, 20}, {2, 1, 1}, {}, 3), sent_image<std::int16_t>({30, -1}, {2, 1, 1}, {}, 3)},
      here());
  EXPECT_EQ(pixels<std::int16_t>(out.images.at(0)), (std::vector<std::int16_t>{70, 0}));
  EXPECT_EQ(pixels<std::int16_t>(out.images.at(1)), (std::vector<std::int16_t>{-10, 21}));
  out = run_images("  - invert_contrast\n  - image: {component: magnitude}\n",
                   {sent_image<cfloat>({{3, 4}, {0, -12}}, {2, 1, 1}, {}, 5)}, here());
  EXPECT_EQ(pixels<float>(out.images.at(0)), (std::vector<float>{7, 0}));
}

/// A disc on a slope, and noise of deviation `noise` in both parts.
std::vector<cfloat> noisy_disc(int n, double noise, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, noise);
  std::vector<cfloat> out;
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      const double inside = std::hypot(x - n / 2, y - n / 2) < n / 3.0 ? 100 + 0.5 * x : 20;
      const double re = inside + (noise > 0 ? normal(random) : 0), im = noise > 0 ? normal(random) : 0;
      out.emplace_back(static_cast<float>(re), static_cast<float>(im));
    }
  return out;
}

std::vector<float> real_parts(const std::vector<cfloat>& values) {
  std::vector<float> out;
  for (const cfloat& v : values) out.push_back(v.real());
  return out;
}

TEST_P(ContrastTest, DenoisedImagesAreTheOperationsOnTheirNumbers) {
  const int n = 48;
  const std::vector<cfloat> noisy = noisy_disc(n, 4, 1);
  const std::vector<float> truth = real_parts(noisy_disc(n, 0, 1));
  // Complex images of a client, its real parts, its magnitudes.
  const Outcome complex =
      run_images("  - denoise: {noise_level: 4}\n  - image\n", {sent_image(noisy, {n, n, 1}, {}, 5)}, here());
  ASSERT_EQ(complex.images.size(), 1u);
  EXPECT_LT(nrmse(pixels<cfloat>(complex.images[0]), truth), 0.6 * nrmse(noisy, truth));
  EXPECT_EQ(meta_of(complex.images[0], "denoise_level"), Values{"4"});
  EXPECT_EQ(meta_of(complex.images[0], "ImageProcessingHistory"), (Values{"DENOISE", "ECHOTRAIN"}));

  numerics::Context compute(GetParam(), test_resources());
  const std::vector<float> reals = real_parts(noisy);
  const Array<float> image = compute.upload<float>({reals.data(), {1, n, n}});
  Array<float> expected = compute.allocate<float>({1, n, n});
  numerics::non_local_means(compute, image.cview(), {.patch = 1, .search = 5, .deviation = 4}, expected.view());
  for (const int type : {1, 3}) {
    const Outcome real =
        run_images("  - denoise: {noise_level: 4}\n  - image\n", {sent_image(reals, {n, n, 1}, {}, type)}, here());
    EXPECT_LT(nrmse(pixels<float>(real.images.at(0)), elements(compute, expected)), 1e-6);
  }
}

TEST_P(ContrastTest, TheLevelOfASeriesIsThatOfItsFirstImage) {
  const int n = 64;
  const auto image = [&](double noise, int series) {
    protocol::Image out = sent_image(real_parts(noisy_disc(n, noise, 7)), {n, n, 1});
    out.head.image_series_index = static_cast<std::uint16_t>(series);
    return out;
  };
  const Outcome out =
      run_images("  - denoise\n  - image\n", {image(2, 1), image(8, 1), image(8, 2), image(0, 3)}, here());
  ASSERT_EQ(out.images.size(), 4u);
  std::vector<double> levels;
  for (std::size_t i = 0; i < 3; ++i) levels.push_back(std::stod(meta_of(out.images[i], "denoise_level").at(0)));
  EXPECT_NEAR(levels[0], 2, 0.3);
  EXPECT_EQ(levels[1], levels[0]);
  EXPECT_NEAR(levels[2], 8, 1.2);
}

TEST_P(ContrastTest, AnImageWithoutNoiseStaysAsItIs) {
  const std::vector<std::uint16_t> flat(16, 40);
  const Outcome out = run_images("  - denoise\n  - image\n", {sent_image(flat, {4, 4, 1})}, here());
  EXPECT_EQ(pixels<std::uint16_t>(out.images.at(0)), flat);
  EXPECT_EQ(out.warned("denoise finds no noise"), 1);
}

TEST_P(ContrastTest, VolumesAreDenoisedInThreeDimensionsOrByPlanes) {
  const int n = 12;
  std::vector<float> volume;
  for (unsigned z = 0; z < 5; ++z) {
    const auto plane = real_parts(noisy_disc(n, 4, z));
    volume.insert(volume.end(), plane.begin(), plane.end());
  }
  const auto denoised = [&](const std::string& dimensions) {
    return pixels<float>(run_images("  - denoise: {noise_level: 4, dimensions: " + dimensions + "}\n  - image\n",
                                    {sent_image(volume, {n, n, 5})}, here())
                             .images.at(0));
  };
  EXPECT_EQ(denoised("auto"), denoised("3"));
  EXPECT_GT(nrmse(denoised("2"), denoised("3")), 0.001);
  const std::string text = client_error([&] {
    run_images("  - denoise: {dimensions: 3}\n  - image\n", {sent_image<float>({1, 2}, {2, 1, 1})}, here());
  });
  EXPECT_NE(text.find("put stack_slices before it"), std::string::npos) << text;
}

/// Images made of readouts: units of SNR have a deviation of 1, g-factors are no images, magnitudes keep their phase.
TEST_P(ContrastTest, ImagesOfReadoutsKeepTheirPhase) {
  numerics::Context compute(GetParam(), test_resources());
  std::vector<std::string> said;
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel,
            [&](protocol::Level, const std::string& t) { said.push_back(t); });
  Denoise gadget({});
  gadget.start(no_measurement(), scan);
  const int n = 32;
  std::vector<cfloat> turned = noisy_disc(n, 1, 3);
  for (cfloat& v : turned) v *= cfloat(0.6f, 0.8f);
  const auto given = [&](int series) {
    const auto frame = std::make_shared<Frame>();
    frame->key.series = static_cast<std::uint16_t>(series);
    CoilImages out;
    gadget.process({frame, compute.upload<cfloat>({turned.data(), {1, 1, n, n}})},
                   [&](CoilImages&& made) { out = std::move(made); });
    return out;
  };
  const CoilImages snr = given(2), g_factor = given(1), image = given(0);
  EXPECT_EQ(snr.frame->notes.at("denoise_level"), "1");
  EXPECT_FALSE(g_factor.frame->notes.contains("denoise_level"));
  EXPECT_EQ(elements(compute, g_factor.data), turned);
  EXPECT_NEAR(std::stod(image.frame->notes.at("denoise_level")), 1, 0.2);
  const auto values = elements(compute, image.data);
  std::vector<double> before, after;
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(std::arg(values[i] * std::conj(turned[i])), 0, 1e-4);
    before.push_back(std::abs(turned[i]));
    after.push_back(std::abs(values[i]));
  }
  const std::vector<float> truth = real_parts(noisy_disc(n, 0, 3));
  EXPECT_LT(nrmse(after, truth), 0.7 * nrmse(before, truth));
}

TEST_P(ContrastTest, LabelsAreWhatThePipelineSays) {
  const Attributes meta{
      {"ImageComments", "breath hold"}, {"SeriesDescription", "t2"}, {"ImageProcessingHistory", "HOST"}};
  const Outcome out = run_images(
      "  - label: {data_role: Quantitative, series_description_additional: map, sequence_description_additional: ET, "
      "image_comments: T2 in ms, image_type: 'DERIVED, PRIMARY, T2', history: 'FIT, MASK', window_center: 50, "
      "window_width: 100, rescale_slope: 0.5, rescale_intercept: -10, keep_image_geometry: false}\n"
      "  - image: {type: int16, scale: 10}\n",
      {sent_image<float>({1.04f, 20}, {2, 1, 1}, meta)}, here());
  const protocol::Image& image = out.images.at(0);
  EXPECT_EQ(meta_of(image, "DataRole"), Values{"Quantitative"});
  EXPECT_EQ(meta_of(image, "SeriesDescription"), Values{"t2"});
  EXPECT_EQ(meta_of(image, "SeriesDescriptionAdditional"), Values{"map"});
  EXPECT_EQ(meta_of(image, "SequenceDescriptionAdditional"), Values{"ET"});
  EXPECT_EQ(meta_of(image, "ImageComments"), Values{"breath hold; T2 in ms"});
  EXPECT_EQ(meta_of(image, "ImageType"), (Values{"DERIVED", "PRIMARY", "T2"}));
  EXPECT_EQ(meta_of(image, "ImageProcessingHistory"), (Values{"HOST", "FIT", "MASK", "ECHOTRAIN"}));
  EXPECT_EQ(meta_of(image, "WindowCenter"), Values{"50"});  // in values, as DICOM's window comes after the rescale
  EXPECT_EQ(meta_of(image, "WindowWidth"), Values{"100"});
  EXPECT_EQ(pixels<std::int16_t>(image), (std::vector<std::int16_t>{10, 200}));
  EXPECT_EQ(meta_of(image, "RescaleSlope"), Values{"0.05"});  // value = pixel 0.05 - 10, as it was v 0.5 - 10
  EXPECT_EQ(meta_of(image, "RescaleIntercept"), Values{"-10"});
  EXPECT_EQ(meta_of(image, "Keep_image_geometry"), Values{"0"});
  EXPECT_THROW(Label({.window_center = 3}), std::invalid_argument);
  EXPECT_THROW(Label({.image_comments = "a\nb"}), std::invalid_argument);
}

TEST(EchoTimeTest, IsThatOfTheContrast) {
  auto h = header({.encoded = {4, 4, 1}, .limits = limit("contrast", 0, 1, 0)});
  h.xml.insert(h.xml.find("</ismrmrdHeader>"), "<sequenceParameters><TE>2.5</TE><TE>5</TE></sequenceParameters>");
  std::vector<protocol::Image> sent;
  for (int contrast = 0; contrast < 3; ++contrast) {
    sent.push_back(sent_image<float>({1, 2}, {2, 1, 1}));
    sent.back().head.contrast = static_cast<std::uint16_t>(contrast);
  }
  sent.push_back(sent_image<float>({1, 2}, {2, 1, 1}, {{"EchoTime", "9.9"}}));
  const Outcome out = run_images("  - image\n", sent, {}, h);
  ASSERT_EQ(out.images.size(), 4u);
  EXPECT_EQ(meta_of(out.images[0], "EchoTime"), Values{"2.5"});
  EXPECT_EQ(meta_of(out.images[1], "EchoTime"), Values{"5"});
  EXPECT_EQ(meta_of(out.images[2], "EchoTime"), Values{});
  EXPECT_EQ(meta_of(out.images[3], "EchoTime"), Values{"9.9"});
}

}  // namespace
}  // namespace echotrain::testing
