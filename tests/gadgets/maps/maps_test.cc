// t1_map, t2_map, t2star_map, adc_map and b1_map in chains: their values against signals whose T is known, what a map
// says of itself, and what is refused.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tests/gadgets/sent_images.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kNx = 13, kNy = 7, kVoxels = kNx * kNy;
const std::vector<double> kTimes = {50, 200, 500, 900, 1500, 2400, 4000};

/// T1 or T of a voxel [ms].
double t_at(int voxel) { return 300 + 12.0 * voxel; }

struct Numbers {
  int set = 0, contrast = 0, slice = 0, repetition = 0, coils = 1;
};

/// An image of signal(voxel), times complex sensitivities of the coils.
template <class Signal>
protocol::Image image_of(const Signal& signal, const Numbers& at) {
  std::vector<cfloat> pixels;
  for (int c = 0; c < at.coils; ++c)
    for (int v = 0; v < kVoxels; ++v)
      pixels.emplace_back(cdouble(signal(v)) * std::polar(1.0 + 0.3 * c, 0.02 * v + 1.1 * c));
  protocol::Image image = sent_image(pixels, {kNx, kNy, 1}, {}, 5);
  image.head.set = static_cast<std::uint16_t>(at.set);
  image.head.contrast = static_cast<std::uint16_t>(at.contrast);
  image.head.slice = static_cast<std::uint16_t>(at.slice);
  image.head.repetition = static_cast<std::uint16_t>(at.repetition);
  return image;
}
protocol::Image inverted(int i, Numbers at = {}) {
  at.set = i;
  return image_of([&](int v) { return 1 - 1.9 * std::exp(-kTimes[static_cast<std::size_t>(i)] / t_at(v)); }, at);
}
std::vector<protocol::Image> inversions(const Numbers& at = {}) {
  std::vector<protocol::Image> out;
  for (int i = 0; i < static_cast<int>(kTimes.size()); ++i) out.push_back(inverted(i, at));
  return out;
}

std::string list(const std::vector<double>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }

/// Images of a statistic, in the order in which they came.
std::vector<protocol::Image> of(const Outcome& out, const std::string& quantity, const std::string& statistic) {
  std::vector<protocol::Image> some;
  for (const auto& image : out.images)
    if (meta_of(image, "map_quantity") == Values{quantity} && meta_of(image, "map_statistic") == Values{statistic})
      some.push_back(image);
  return some;
}

class MapsTest : public OnEachBackend {
 protected:
  Outcome map(const std::string& gadget, const std::string& parameters, std::vector<protocol::Image> images,
              const protocol::Header& measurement = no_measurement()) const {
    return run_images("  - " + gadget + ": {" + parameters + "}\n  - image: {component: real, type: float}\n",
                      std::move(images), here(), measurement);
  }
  /// The largest error of a map over what is true.
  template <class Truth>
  static double worst(const protocol::Image& image, const Truth& truth) {
    const auto got = pixels<float>(image);
    double most = got.size() == kVoxels ? 0 : 1e9;
    for (int v = 0; v < kVoxels; ++v)
      most = std::max(most, std::abs(static_cast<double>(got[static_cast<std::size_t>(v)]) / truth(v) - 1));
    return most;
  }
};

TEST_P(MapsTest, T1OfImagesInAnyOrder) {
  std::vector<protocol::Image> images = inversions();
  std::swap(images[0], images[5]);
  std::swap(images[2], images[3]);
  const Outcome out = map("t1_map", "refit: false, times_ms: " + list(kTimes), images);
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(worst(out.images[0], t_at), 1e-4);  // in float32; as VoxelFitTest's
  EXPECT_EQ(out.images[0].head.channels, 1);
  EXPECT_EQ(meta_of(out.images[0], "map_unit"), Values{"ms"});
  EXPECT_EQ(meta_of(out.images[0], "map_images"), Values{"7/7"});
  EXPECT_EQ(meta_of(out.images[0], "DataRole"), Values{"Quantitative"});
  EXPECT_EQ(meta_of(out.images[0], "RescaleSlope"), Values{"1"});
  EXPECT_EQ(meta_of(out.images[1], "map_statistic"), Values{"sd"});
  EXPECT_EQ(meta_of(out.images[1], "map_error"), Values{"residuals"});
  EXPECT_EQ(meta_of(out.images[1], "map_freedom"), Values{"9"});  // 2 (7 - 2) - 1
  EXPECT_NE(out.images[0].head.image_series_index, out.images[1].head.image_series_index);
  for (const float sd : pixels<float>(out.images[1])) EXPECT_LT(sd, 0.1);  // residuals are roundings
}

// Noise of a known deviation gives an error for each voxel: that of the linearised fit, by hand for the first voxel.
TEST_P(MapsTest, TheErrorFollowsTheNoise) {
  const Outcome out = map("t1_map", "method: inversion_2, noise_sd: 0.01, times_ms: " + list(kTimes), [] {
    std::vector<protocol::Image> images;
    for (int i = 0; i < static_cast<int>(kTimes.size()); ++i)
      images.push_back(image_of([&](int v) { return 1 - 2 * std::exp(-kTimes[static_cast<std::size_t>(i)] / t_at(v)); },
                                {.set = i}));
    return images;
  }());
  const auto sd = of(out, "T1", "sd");
  ASSERT_EQ(sd.size(), 1u);
  EXPECT_EQ(meta_of(sd[0], "map_error"), Values{"noise"});
  for (const int v : {0, 40, kVoxels - 1}) {
    double square = 0, product = 0, slope = 0;  // of the curve and of its slope by T
    for (const double at : kTimes) {
      const double e = std::exp(-at / t_at(v)), curve = 1 - 2 * e, by_t = -2 * e * at / (t_at(v) * t_at(v));
      square += curve * curve, product += curve * by_t, slope += by_t * by_t;
    }
    const double truth = 0.01 / std::sqrt(slope - product * product / square);
    EXPECT_NEAR(pixels<float>(sd[0])[static_cast<std::size_t>(v)], truth, 1e-3 * truth) << v;
  }
}

TEST_P(MapsTest, MagnitudesGetTheirSignBack) {
  std::vector<protocol::Image> images;
  for (int i = 0; i < static_cast<int>(kTimes.size()); ++i) {
    std::vector<float> pixels;
    for (int v = 0; v < kVoxels; ++v)
      pixels.push_back(
          static_cast<float>(std::abs(1 - 1.9 * std::exp(-kTimes[static_cast<std::size_t>(i)] / t_at(v)))));
    images.push_back(sent_image(pixels, {kNx, kNy, 1}, {}, 1));
    images.back().head.set = static_cast<std::uint16_t>(i);
  }
  const Outcome out = map("t1_map", "times_ms: " + list(kTimes), images);
  const auto t1 = of(out, "T1", "value");
  ASSERT_FALSE(t1.empty());
  EXPECT_LT(worst(t1.back(), t_at), 1e-4);
}

// Each image makes the map better; maps before the last image have a series of their own, and no error.
TEST_P(MapsTest, AMapIsRefittedAsImagesCome) {
  const Outcome out = map("t1_map", "times_ms: " + list(kTimes), inversions());
  const auto values = of(out, "T1", "value");
  ASSERT_EQ(values.size(), 5u);  // of 3 (six numbers for five unknowns) to 7 images
  EXPECT_EQ(of(out, "T1", "sd").size(), 1u);
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(meta_of(values[i], "map_images"), Values{fmt::format("{}/7", i + 3)});
    EXPECT_EQ(values[i].head.image_series_index == values[0].head.image_series_index, i < 4) << i;
  }
  EXPECT_LT(worst(values[4], t_at), 1e-4);
}

// After 3 to 8 of 20 images, then after each eighth more, and the last.
TEST_P(MapsTest, ManyImagesAreNotAllRefitted) {
  std::vector<double> times;
  for (int i = 0; i < 20; ++i) times.push_back(50 + 150 * i);
  std::vector<protocol::Image> images;
  for (int i = 0; i < 20; ++i)
    images.push_back(
        image_of([&](int v) { return 1 - 1.9 * std::exp(-times[static_cast<std::size_t>(i)] / t_at(v)); }, {.set = i}));
  std::vector<std::string> made;
  for (const auto& image : of(map("t1_map", "times_ms: " + list(times), images), "T1", "value"))
    made.push_back(meta_of(image, "map_images").at(0));
  std::vector<std::string> wanted;
  for (const int n : {3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 19, 20}) wanted.push_back(fmt::format("{}/20", n));
  EXPECT_EQ(made, wanted);
}

// A scan that has fallen behind does not wait for maps that the next ones replace.
TEST_P(MapsTest, NothingIsRefittedWhileReadoutsWait) {
  std::vector<Acquisition> scan;
  for (std::size_t set = 0; set < kTimes.size(); ++set)
    for (int line = 0; line < 8; ++line) {
      std::vector<cfloat> samples(8);
      if (line == 4) samples[4] = static_cast<float>(1 - 1.9 * std::exp(-kTimes[set] / 700));
      scan.push_back(readout(1, samples));
      scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(line);
      scan.back().head.idx.set = static_cast<std::uint16_t>(set);
    }
  const auto measurement =
      header({.encoded = {8, 8, 1}, .limits = step_limit(8) + limit("set", 0, static_cast<int>(kTimes.size()) - 1, 0)});
  for (const int waiting : {0, 100}) {
    RunOptions options = here();
    options.split = [](std::size_t) { return 8; };
    options.waiting = waiting;
    const Outcome out =
        run(yaml("  - cartesian_kspace: {calibration: none}\n  - fft: {direction: inverse}\n  - t1_map: "
                 "{times_ms: " +
                 list(kTimes) + "}\n  - image: {component: real, type: float}\n"),
            measurement, scan, options);
    const auto values = of(out, "T1", "value");
    EXPECT_EQ(values.size(), waiting > 0 ? 1u : 5u);
    EXPECT_NEAR(pixels<float>(values.back()).at(30), 700, 0.1);
  }
}

TEST_P(MapsTest, SlicesRepetitionsAndCoilsAreKeptApart) {
  std::vector<protocol::Image> images;
  for (int i = 0; i < static_cast<int>(kTimes.size()); ++i)
    for (const int slice : {1, 0}) images.push_back(inverted(i, {.slice = slice, .coils = 3}));
  images.push_back(inverted(0, {.repetition = 1, .coils = 3}));
  for (const auto& image : inversions({.repetition = 2, .coils = 3})) images.push_back(image);
  const Outcome out = map("t1_map", "refit: false, times_ms: " + list(kTimes), images);
  const auto t1 = of(out, "T1", "value");
  ASSERT_EQ(t1.size(), 3u);
  // The coils' maps are good to 1e-3, and the same for all images.
  for (const auto& image : t1) EXPECT_LT(worst(image, t_at), 1e-4);
  EXPECT_EQ(t1[0].head.slice, 1);
  EXPECT_EQ(t1[2].head.repetition, 2);
  EXPECT_EQ(out.warned("1 images of repetitions that remained incomplete"), 1);
}

TEST_P(MapsTest, AnIncompleteSliceIsMappedAtTheEnd) {
  auto images = inversions();
  images.resize(5);
  Outcome out = map("t1_map", "refit: false, times_ms: " + list(kTimes), images);
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(worst(out.images[0], t_at), 1e-4);
  EXPECT_EQ(meta_of(out.images[0], "map_images"), Values{"5/7"});
  EXPECT_EQ(out.warned("made of 5 of 7 images"), 1);
  images.resize(2);
  out = map("t1_map", "refit: false, times_ms: " + list(kTimes), images);
  EXPECT_EQ(out.images.size(), 0u);
  EXPECT_EQ(out.warned("too few for a map"), 1);
}

/// Images exp(-t / t2_at) of type T, counted by the contrast.
const std::vector<double> kEchoes = {10, 25, 45, 70, 100, 140};
double t2_at(int voxel) { return 30.0 + 0.7 * voxel; }
template <class T>
std::vector<protocol::Image> echoes(double size, const Attributes& meta = {}, int image_type = 1, double above = 0) {
  std::vector<protocol::Image> out;
  for (const double at : kEchoes) {
    std::vector<T> values;
    for (int v = 0; v < kVoxels; ++v)
      values.push_back(static_cast<T>(std::lround(size * std::exp(-at / t2_at(v)) + above)));
    out.push_back(sent_image(values, {kNx, kNy, 1}, meta, image_type));
    out.back().head.contrast = static_cast<std::uint16_t>(out.size() - 1);
  }
  return out;
}

// A client's integers are values after its rescale; the map has a rescale, a type and times of its own. Rounding is 1
// of 20000 of the signal, at the last echo 1 of 200.
TEST_P(MapsTest, TheRescaleOfSentImagesIsAppliedAndDoesNotPass) {
  Attributes meta = {{"RescaleSlope", "0.5"}, {"RescaleIntercept", "-10"}, {"ImageType", "ORIGINAL"},
                     {"EchoTime", "10"},      {"InversionTime", "3"},      {"FlipAngle", "90"}};
  const Outcome out =
      map("t2_map", "refit: false, times_ms: " + list(kEchoes), echoes<std::uint16_t>(20000, meta, 1, 20));
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(worst(out.images[0], t2_at), 1e-3);
  for (const auto& image : out.images) {
    EXPECT_EQ(meta_of(image, "RescaleSlope"), Values{"1"});
    EXPECT_EQ(meta_of(image, "RescaleIntercept"), Values{"0"});
    for (const char* of_source : {"ImageType", "EchoTime", "InversionTime", "FlipAngle"})
      EXPECT_EQ(meta_of(image, of_source), Values{}) << of_source;
  }
}

// A client that leaves the type at 0 (python-ismrmrd) sends magnitudes; signed pixels say so by type REAL.
TEST_P(MapsTest, RealPixelsWithoutATypeAreMagnitudes) {
  std::vector<protocol::Image> images;
  for (const double at : kTimes) {
    std::vector<float> values;
    for (int v = 0; v < kVoxels; ++v) values.push_back(static_cast<float>(std::abs(1 - 1.9 * std::exp(-at / t_at(v)))));
    images.push_back(sent_image(values, {kNx, kNy, 1}, {}, 0));
    images.back().head.set = static_cast<std::uint16_t>(images.size() - 1);
  }
  const Outcome out = map("t1_map", "refit: false, times_ms: " + list(kTimes), images);
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(worst(out.images[0], t_at), 1e-4);
}

// Signed images are one number each: their residuals, not twice as many zeros, tell the noise. The deviation of T over
// 200 voxels of one T is known to 1 / sqrt(2 * 200), thrice that is 15 %.
TEST_P(MapsTest, SignedImagesCountOnce) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.02);
  std::vector<protocol::Image> images;
  for (const double at : kTimes) {
    std::vector<float> values;
    for (int v = 0; v < 200; ++v) values.push_back(static_cast<float>(1 - 1.9 * std::exp(-at / 800) + noise(random)));
    images.push_back(sent_image(values, {20, 10, 1}, {}, ISMRMRD::ISMRMRD_IMTYPE_REAL));
    images.back().head.set = static_cast<std::uint16_t>(images.size() - 1);
  }
  const Outcome out = map("t1_map", "refit: false, times_ms: " + list(kTimes), images);
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_EQ(meta_of(out.images[0], "map_freedom"), Values{"4"});  // 7 - 3
  double squares = 0, claimed = 0;
  for (const float t : pixels<float>(out.images[0])) squares += (t - 800.0) * (t - 800.0);
  for (const float sd : pixels<float>(out.images[1])) claimed += std::pow(static_cast<double>(sd), 2);
  EXPECT_NEAR(std::sqrt(claimed / squares), 1, 0.15);
}

// With fewer than all images, the map says so where a reader of DICOM sees it.
TEST_P(MapsTest, MapsOfTooFewImagesSayIt) {
  auto images = echoes<std::uint16_t>(20000, {{"ImageComments", "mine"}});
  images.pop_back();
  const Outcome out = map("t2_map", "times_ms: " + list(kEchoes), images);
  ASSERT_GE(out.images.size(), 3u);
  EXPECT_EQ(meta_of(out.images[0], "ImageComments"), Values{"mine; incomplete: made of 3 of 6 images"});
  EXPECT_EQ(meta_of(out.images[0], "SeriesDescriptionAdditional"), Values{"incomplete"});
  for (std::size_t last = out.images.size() - 2; last < out.images.size(); ++last)
    EXPECT_EQ(meta_of(out.images[last], "ImageComments"), Values{"mine; incomplete: made of 5 of 6 images"});
  const Outcome whole = map("t2_map", "refit: false, times_ms: " + list(kEchoes), echoes<std::uint16_t>(20000));
  EXPECT_EQ(meta_of(whole.images.at(0), "ImageComments"), Values{});
}

// As many unknowns as images leave no residuals: what is weak against the brightest voxels has no value.
TEST_P(MapsTest, BackgroundIsMaskedWithoutResiduals) {
  std::vector<protocol::Image> images;
  for (const double b : {0.0, 1000.0}) {
    std::vector<float> values;
    for (int v = 0; v < kVoxels; ++v)  // a background of 1 % that seems to decay
      values.push_back(static_cast<float>((v % 3 == 0 ? 1.0 : 100.0) * std::exp(-b * 1e-3)));
    images.push_back(sent_image(values, {kNx, kNy, 1}));
    images.back().head.set = static_cast<std::uint16_t>(images.size() - 1);
  }
  const Outcome out = map("adc_map", "b_s_per_mm2: [0, 1000]", images);
  const auto adc = pixels<float>(of(out, "ADC", "value").at(0));
  for (int v = 0; v < kVoxels; ++v) EXPECT_NEAR(adc[static_cast<std::size_t>(v)], v % 3 == 0 ? 0 : 1e-3, 1e-8) << v;
}

// An image that comes again takes the place of the first, here of one whose pixels are wrong.
TEST_P(MapsTest, AnImageThatComesAgainReplacesTheFirst) {
  auto images = inversions();
  auto wrong = images[0];
  wrong.head.set = 2;
  images.insert(images.begin() + 2, wrong);
  const Outcome out = map("t1_map", "refit: false, times_ms: " + list(kTimes), images);
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(worst(out.images[0], t_at), 1e-4);
  EXPECT_EQ(out.warned("set 2 has come again"), 1);
}

TEST_P(MapsTest, SaysWhyNoMapWasMade) {
  auto images = inversions();
  for (std::size_t i = 0; i < images.size(); ++i) images[i].head.image_series_index = static_cast<std::uint16_t>(i + 1);
  Outcome out = map("t1_map", "times_ms: " + list(kTimes), images);
  EXPECT_EQ(out.images.size(), 0u);
  EXPECT_GE(out.warned("differ in series"), 1);
  // Equal times, and two times for three unknowns.
  for (const char* times : {"[50, 50, 50, 50, 50, 50, 50]", "[50, 900, 50, 900, 50, 900, 50]"}) {
    out = map("t1_map", std::string("times_ms: ") + times, inversions());
    EXPECT_EQ(out.images.size(), 0u) << times;
    EXPECT_EQ(out.warned("different"), 1) << times;
  }
  std::vector<double> many(70);
  std::iota(many.begin(), many.end(), 1.0);
  EXPECT_THAT(client_error([&] { map("t1_map", "times_ms: " + list(many), {}); }), HasSubstr("70"));
  many.assign(70, 1000);
  many[0] = 0;
  EXPECT_EQ(client_error([&] { map("adc_map", "b_s_per_mm2: " + list(many), {}); }), "(no ClientError)");
  EXPECT_THAT(
      client_error([&] { map("t1_map", "method: inversion_2, period_ms: 3000, times_ms: " + list(kTimes), {}); }),
      HasSubstr("period_ms"));
}

/// A header with these sequenceParameters or user parameters.
protocol::Header with(const std::string& parts, const std::string& limits) {
  HeaderSpec spec;
  spec.limits = limits;
  const auto parsed = protocol::parse_header(
      "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions><H1resonanceFrequency_Hz>63870000"
      "</H1resonanceFrequency_Hz></experimentalConditions>" +
          encoding_xml(spec) + parts + "</ismrmrdHeader>",
      {});
  EXPECT_TRUE(parsed);
  return *parsed;
}

TEST_P(MapsTest, TheHeaderHasTheTimesAndTheCounter) {
  std::string sequence = "<sequenceParameters>", user = "<userParameters>";
  for (const double t : kTimes) {
    sequence += fmt::format("<TI>{}</TI>", t);
    user +=
        fmt::format("<userParameterDouble><name>inversion_time_ms</name><value>{}</value></userParameterDouble>", t);
  }
  std::vector<protocol::Image> images = inversions();
  for (auto& image : images) image.head.repetition = std::exchange(image.head.set, std::uint16_t{0});
  const std::string limits = limit("repetition", 0, 6, 0);
  for (const std::string& parts : {sequence + "</sequenceParameters>", user + "</userParameters>"}) {
    const Outcome out = map("t1_map", "refit: false", images, with(parts, limits));
    ASSERT_EQ(out.images.size(), 2u);
    EXPECT_LT(worst(out.images[0], t_at), 1e-4);
  }
  EXPECT_THAT(client_error([&] { map("t1_map", "", images, with("", limits)); }), HasSubstr("say them by times_ms"));
}

// The gadget's own counter is meant where two have as many values.
TEST_P(MapsTest, TheGadgetsOwnCounterIsTriedFirst) {
  const auto measurement = with("", limit("contrast", 0, 5, 0) + limit("set", 0, 5, 0));
  const Outcome out =
      map("t2_map", "refit: false, times_ms: " + list(kEchoes), echoes<std::uint16_t>(20000), measurement);
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(worst(out.images[0], t2_at), 1e-3);
}

TEST_P(MapsTest, TheDimensionOfDiffusionIsTheCounter) {
  const auto scan = [](const std::string& dimension) {
    std::string parts = "<sequenceParameters><diffusionDimension>" + dimension + "</diffusionDimension>";
    for (const int b : {0, 500, 1000})
      parts += fmt::format(
          "<diffusion><gradientDirection><rl>1</rl><ap>0</ap><fh>0</fh></gradientDirection><bvalue>{}"
          "</bvalue></diffusion>",
          b);
    return with(parts + "</sequenceParameters>", limit("set", 0, 2, 0));
  };
  std::vector<protocol::Image> images;
  for (int i = 0; i < 3; ++i) images.push_back(image_of([&](int) { return std::exp(-0.5 * i); }, {.repetition = i}));
  const Outcome out = map("adc_map", "refit: false", images, scan("repetition"));
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(worst(out.images[0], [](int) { return 1e-3; }), 1e-4);
  EXPECT_THAT(client_error([&] { map("adc_map", "", images, scan("average")); }),
              AllOf(HasSubstr("average"), HasSubstr("over")));
  EXPECT_EQ(map("adc_map", "refit: false, over: repetition", images, scan("segment")).images.size(), 2u);
}

TEST_P(MapsTest, SaturationAndLookLocker) {
  const std::vector<double> times = {0, 150, 300, 500, 800};  // 0: without saturation
  std::vector<protocol::Image> images, train;
  for (int i = 0; i < static_cast<int>(times.size()); ++i)
    images.push_back(image_of(
        [&](int v) { return i == 0 ? 1 : 1 - std::exp(-times[static_cast<std::size_t>(i)] / t_at(v)); }, {.set = i}));
  for (const char* method : {"saturation", "saturation_2"}) {
    const Outcome out = map("t1_map", fmt::format("method: {}, times_ms: {}", method, list(times)), images);
    EXPECT_LT(worst(of(out, "T1", "value").back(), t_at), 1e-4) << method;
  }
  for (int i = 0; i < static_cast<int>(kTimes.size()); ++i)
    train.push_back(image_of(
        [&](int v) { return (1 - 2.3 * std::exp(-1.3 * kTimes[static_cast<std::size_t>(i)] / t_at(v))) / 1.3; },
        {.set = i}));
  const Outcome out = map("t1_map", "method: look_locker, times_ms: " + list(kTimes), train);
  EXPECT_LT(worst(of(out, "T1", "value").back(), t_at), 2e-4);
}

TEST_P(MapsTest, EchoesDiffusionAndAngles) {
  const std::vector<double> echoes = {10, 25, 45, 70, 100, 140};
  const auto t2 = [](int v) { return 30.0 + 0.7 * v; };
  std::vector<protocol::Image> images;
  for (int i = 0; i < static_cast<int>(echoes.size()); ++i)
    images.push_back(
        image_of([&](int v) { return std::exp(-echoes[static_cast<std::size_t>(i)] / t2(v)); }, {.contrast = i}));
  EXPECT_LT(worst(of(map("t2_map", "times_ms: " + list(echoes), images), "T2", "value").back(), t2), 1e-4);

  const std::vector<double> gradient = {2, 5, 8, 11, 14};
  const auto hz = [](int v) { return 2.5 * (v - 45) + 0.3; };
  images.clear();
  for (int i = 0; i < static_cast<int>(gradient.size()); ++i)
    images.push_back(image_of(
        [&](int v) {
          const double te = gradient[static_cast<std::size_t>(i)];
          return std::polar(std::exp(-te / (5 + 0.2 * v)), 2e-3 * std::numbers::pi * hz(v) * te);
        },
        {.contrast = i}));
  const Outcome out = map("t2star_map", "times_ms: " + list(gradient), images);
  EXPECT_LT(worst(of(out, "T2star", "value").back(), [](int v) { return 5 + 0.2 * v; }), 1e-4);
  const auto field = of(out, "B0", "value");
  ASSERT_EQ(field.size(), 1u);
  EXPECT_EQ(meta_of(field[0], "role"), Values{"field_map"});
  for (int v = 0; v < kVoxels; ++v) EXPECT_NEAR(pixels<float>(field[0])[static_cast<std::size_t>(v)], hz(v), 0.01);

  // Three directions of one b are their geometric mean, whose ADC is the mean of theirs.
  const std::vector<double> b = {0, 400, 400, 400, 1000, 1000, 1000};
  images.clear();
  for (int i = 0; i < static_cast<int>(b.size()); ++i)
    images.push_back(image_of(
        [&](int v) { return std::exp(-b[static_cast<std::size_t>(i)] * (0.6e-3 + 1e-5 * v) * (0.5 + 0.5 * (i % 3))); },
        {.set = i}));
  const auto adc = of(map("adc_map", "b_s_per_mm2: " + list(b), images), "ADC", "value");
  EXPECT_LT(worst(adc.back(), [](int v) { return 0.6e-3 + 1e-5 * v; }), 1e-4);

  images.clear();
  for (int i = 0; i < 2; ++i)
    images.push_back(
        image_of([&](int v) { return std::sin((i + 1) * std::numbers::pi / 3 * (0.7 + 0.006 * v)); }, {.set = i}));
  const auto b1 = of(map("b1_map", "angles_deg: [60, 120]", images), "B1", "value");
  EXPECT_LT(worst(b1.back(), [](int v) { return 0.7 + 0.006 * v; }), 1e-4);
}

// Magnitudes have no phase, so that there is T2* alone; echoes that nearly coincide bound the field's range.
TEST_P(MapsTest, EchoesWithoutAPhaseTellT2StarAlone) {
  Outcome out = map("t2star_map", "refit: false, times_ms: " + list(kEchoes), echoes<std::uint16_t>(20000));
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(worst(out.images[0], t2_at), 1e-3);
  EXPECT_EQ(out.said(protocol::Level::info, "no field"), 1);
  std::vector<protocol::Image> images;
  const std::vector<double> near = {1, 1.001, 20};
  for (int i = 0; i < 3; ++i)
    images.push_back(image_of(
        [&](int) {
          return std::polar(std::exp(-near[static_cast<std::size_t>(i)] / 30),
                            0.05 * near[static_cast<std::size_t>(i)]);
        },
        {.contrast = i}));
  out = map("t2star_map", "refit: false, times_ms: " + list(near), images);
  ASSERT_EQ(out.images.size(), 4u);
  EXPECT_LT(worst(out.images[0], [](int) { return 30; }), 1e-3);
}

// Maps of integers or of complex images are real numbers: ADC would be 0 in integers.
TEST_P(MapsTest, MapsLeaveAsFloatUnlessAsked) {
  std::vector<protocol::Image> images;
  for (int i = 0; i < 3; ++i) {
    images.push_back(sent_image(
        std::vector<std::uint16_t>(kVoxels, static_cast<std::uint16_t>(10000 * std::exp(-0.4 * i))), {kNx, kNy, 1}));
    images.back().head.set = static_cast<std::uint16_t>(i);
  }
  Outcome out = run_images("  - adc_map: {refit: false, b_s_per_mm2: [0, 400, 800]}\n  - image\n", images, here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_EQ(+out.images[0].head.data_type, 5);
  EXPECT_LT(worst(out.images[0], [](int) { return 1e-3; }), 1e-3);
  out = run_images("  - t1_map: {refit: false, times_ms: " + list(kTimes) + "}\n  - image\n", inversions(), here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_EQ(+out.images[0].head.data_type, 5);
  EXPECT_EQ(+out.images[0].head.image_type, ISMRMRD::ISMRMRD_IMTYPE_REAL);
  EXPECT_LT(worst(out.images[0], t_at), 1e-4);
}

TEST_P(MapsTest, OddImagesAreRefused) {
  const std::string times = "times_ms: " + list(kTimes);
  auto other = inversions();
  other[1] = sent_image(std::vector<cfloat>(30), {6, 5, 1}, {}, 5);
  other[1].head.set = 1;
  EXPECT_THAT(client_error([&] { map("t1_map", times, other); }), HasSubstr("must be alike"));
  auto beyond = inversions();
  beyond.back().head.set = 9;
  EXPECT_EQ(map("t1_map", times, beyond).warned("set 9 have no place in a list of 7 values"), 1);
  auto phases = inversions();
  phases[0].head.image_type = ISMRMRD::ISMRMRD_IMTYPE_PHASE;
  EXPECT_EQ(map("t1_map", times, phases).warned("phase images are not used"), 1);
  for (const char* wrong :
       {"t1_map: {times_ms: [1, x]}", "t1_map: {least_ms: 10, most_ms: 5}", "t2star_map: {rician: true, noise_sd: 1}",
        "adc_map: {least: 1, most: 0.5}", "b1_map: {angles_deg: [-1, 2]}"})
    EXPECT_ANY_THROW(run_images(fmt::format("  - {}\n  - image\n", wrong), {}, here())) << wrong;
}

ECHOTRAIN_ON_BACKENDS(MapsTest);

}  // namespace
}  // namespace echotrain::testing
