// regularised: images with priors, where the answer is known in closed form.
#include <gmock/gmock.h>

#include <regex>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

std::string regularised(const std::string& options) {
  return yaml("  - cartesian_kspace\n  - encoding\n  - regularised: {" + options +
              "}\n  - image: {component: complex}\n");
}
std::string attribute(const protocol::Image& image, const std::string& name) {
  std::smatch found;
  const std::regex pattern("<name>" + name + "</name>\\s*<value>([^<]*)");
  return std::regex_search(image.attributes, found, pattern) ? found[1].str() : "";
}

constexpr int kNx = 12, kNy = 10;

/// A scan of one coil whose lines all come: images [frame, y, x] by their sums, x and y centred.
struct WholeScan {
  std::vector<std::vector<cfloat>> images;

  explicit WholeScan(int frames, double sigma = 1, unsigned seed = 8) {
    std::mt19937 random(seed);
    for (int f = 0; f < frames; ++f) images.push_back(noise(kNx * kNy, random, sigma));
  }
  std::vector<Acquisition> readouts() const {
    std::vector<Acquisition> out;
    for (std::size_t f = 0; f < images.size(); ++f)
      for (int ky = 0; ky < kNy; ++ky) {
        std::vector<cfloat> line;
        for (int kx = 0; kx < kNx; ++kx) {
          cdouble sum = 0;
          for (int y = 0; y < kNy; ++y)
            for (int x = 0; x < kNx; ++x) {
              const double turns = static_cast<double>((kx - kNx / 2) * (x - kNx / 2)) / kNx +
                                   static_cast<double>((ky - kNy / 2) * (y - kNy / 2)) / kNy;
              sum += cdouble(images[f][static_cast<std::size_t>(y * kNx + x)]) *
                     std::polar(1.0, -2 * std::numbers::pi * turns);
            }
          line.push_back(cfloat(sum));
        }
        Acquisition a = readout(1, std::move(line));
        a.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(ky);
        a.head.idx.repetition = static_cast<std::uint16_t>(f);
        out.push_back(std::move(a));
      }
    return out;
  }
  protocol::Header header_of() const { return header({.encoded = {kNx, kNy, 1}, .limits = step_limit(kNy)}); }
  std::vector<cdouble> mean_of_frames(std::size_t first, std::size_t last) const {
    std::vector<cdouble> mean(kNx * kNy);
    for (std::size_t f = first; f < last; ++f)
      for (std::size_t i = 0; i < mean.size(); ++i)
        mean[i] += cdouble(images[f][i]) / static_cast<double>(last - first);
    return mean;
  }
};

using RegularisedTest = OnEachBackend;

TEST_P(RegularisedTest, WithoutWeightItIsTheImage) {
  const WholeScan scan(2);
  for (const std::string method : {"fista", "admm"})
    for (const std::string prior : {"wavelet", "total_variation", "[wavelet, total_variation]"}) {
      const auto out =
          run(regularised("lambda: 0, tolerance: 0, iterations: 30, method: " + method + ", prior: " + prior),
              scan.header_of(), scan.readouts(), here());
      ASSERT_EQ(out.images.size(), 2u);
      for (std::size_t f = 0; f < 2; ++f)
        EXPECT_LT(nrmse(pixels<cfloat>(out.images[f]), scan.images[f]), 1e-4) << method << prior;
    }
}

// F^H F is 1 here: each voxel that has no neighbour to speak of loses lambda of its size. Without a level, wavelets are
// the voxels themselves.
TEST_P(RegularisedTest, LambdaIsInTheUnitOfTheImageOrOfItsLargestVoxel) {
  const WholeScan scan(1);
  double most = 0;
  for (const cfloat v : scan.images[0]) most = std::max(most, std::abs(cdouble(v)));
  for (const bool relative : {false, true}) {
    const double lambda = relative ? 0.25 * most : 0.75;
    const auto out = run(regularised(fmt::format("prior: wavelet, wavelet: {{smallest: 64}}, scale: {}, lambda: {}",
                                                 relative ? "relative" : "absolute", relative ? 0.25 : 0.75)),
                         scan.header_of(), scan.readouts(), here());
    ASSERT_EQ(out.images.size(), 1u);
    std::vector<cdouble> truth;
    double objective = 0;
    for (const cfloat v : scan.images[0]) {
      const double size = std::abs(cdouble(v)), left = std::max(0.0, size - lambda);
      truth.push_back(left / size * cdouble(v));
      objective += (size - left) * (size - left) / 2 + lambda * left;
    }
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), truth), 1e-4);
    EXPECT_NEAR(std::stod(attribute(out.images[0], "regularised_lambda")), lambda, 1e-3 * lambda);
    EXPECT_NEAR(std::stod(attribute(out.images[0], "regularised_objective")), objective, 1e-4 * objective);
    EXPECT_EQ(attribute(out.images[0], "regularised_status"), "converged");
  }
}

TEST_P(RegularisedTest, MuchVariationLeavesTheMean) {
  const WholeScan scan(1);
  cdouble mean = 0;
  for (const cfloat v : scan.images[0]) mean += cdouble(v) / static_cast<double>(kNx * kNy);
  const std::vector<cdouble> truth(kNx * kNy, mean);
  const auto out =
      run(regularised("prior: total_variation, lambda: 50, scale: absolute, iterations: 60, inner: 50, tolerance: 0"),
          scan.header_of(), scan.readouts(), here());
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), truth), 1e-2);
}

// Frames of a series are solved together, so many at a time, and leave in their order.
TEST_P(RegularisedTest, ASeriesIsSolvedTogether) {
  const WholeScan scan(5);
  for (const std::string method : {"fista", "admm"}) {
    const auto out =
        run(regularised("prior: temporal_variation, series: repetition, frames: 3, lambda: 20, scale: absolute, "
                        "iterations: 200, inner: 20, tolerance: 0, method: " +
                        method),
            scan.header_of(), scan.readouts(), here());
    ASSERT_EQ(out.images.size(), 5u);
    for (std::size_t f = 0; f < 5; ++f) {
      EXPECT_EQ(out.images[f].head.repetition, f);
      const auto truth = f < 3 ? scan.mean_of_frames(0, 3) : scan.mean_of_frames(3, 5);
      EXPECT_LT(nrmse(pixels<cfloat>(out.images[f]), truth), 1e-2) << method << f;
    }
  }
}

TEST_P(RegularisedTest, OfABrokenScanOnlyWholeSeriesCome) {
  const WholeScan scan(6);
  RunOptions options = here();
  options.end = End::truncated;
  const std::string text =
      regularised("prior: temporal_variation, series: repetition, frames: 3, lambda: 20, scale: absolute");
  const auto out = run(text, scan.header_of(), scan.readouts(), options);
  EXPECT_EQ(out.images.size(), 3u);  // the sixth frame may not be whole, and the fourth and fifth wait for it
  EXPECT_EQ(out.warned("regularised: 2 frame(s) waited for the rest of their series and are dropped"), 1);
}

TEST_P(RegularisedTest, LowRankLeavesWhatFramesShare) {
  WholeScan scan(4, 0.1);
  const auto common = WholeScan(1, 5, 9).images[0];
  const float share[4] = {1, -0.5f, 2, 0.25f};
  auto truth = scan.images;
  for (std::size_t f = 0; f < 4; ++f)
    for (std::size_t i = 0; i < common.size(); ++i) scan.images[f][i] += truth[f][i] = share[f] * common[i];
  for (const std::string shifts : {"none", "random"}) {
    const auto out = run(regularised("prior: low_rank, series: repetition, frames: 4, lambda: 0.1, scale: absolute, "
                                     "low_rank: {shifts: " +
                                     shifts + "}"),
                         scan.header_of(), scan.readouts(), here());
    ASSERT_EQ(out.images.size(), 4u);
    double before = 0, after = 0;
    for (std::size_t f = 0; f < 4; ++f) {
      before += nrmse(scan.images[f], truth[f]);
      after += nrmse(pixels<cfloat>(out.images[f]), truth[f]);
    }
    EXPECT_LT(after, 0.8 * before) << shifts;
  }
}

TEST_P(RegularisedTest, NoiseChoosesLambda) {
  WholeScan scan(1, 0.2);
  for (int y = 3; y < 7; ++y)
    for (int x = 4; x < 9; ++x) scan.images[0][static_cast<std::size_t>(y * kNx + x)] += 10.0f;
  // Samples are sums over all voxels: their noise is larger by the root of the number of voxels.
  const double sigma = 0.2 * std::sqrt(static_cast<double>(kNx * kNy));
  const auto out =
      run(regularised(fmt::format("prior: total_variation, noise_level: {}, iterations: 200, tolerance: 1e-5", sigma)),
          scan.header_of(), scan.readouts(), here());
  const auto image = pixels<cfloat>(out.images.at(0));
  double residual = 0;
  for (std::size_t i = 0; i < image.size(); ++i) residual += std::norm(cdouble(image[i]) - cdouble(scan.images[0][i]));
  EXPECT_EQ(attribute(out.images[0], "regularised_noise"), "matched");
  EXPECT_NEAR(residual, 2 * 0.2 * 0.2 * kNx * kNy, 0.03 * residual);
  const auto nothing = run(regularised("prior: wavelet, noise_level: 1e6"), scan.header_of(), scan.readouts(), here());
  EXPECT_EQ(nothing.warned("nothing but noise"), 1);
}

// Points of the grid with a weight per frame: F^H W F is that weight times the number of points. Of a long series only
// some frames' eigenvalues are looked for; with a step for the others' weight of 1 the fifth frame would grow by 24 in
// each step.
TEST_P(RegularisedTest, AFrameThatWeighsMoreSetsTheStepOfItsSeries) {
  const WholeScan scan(9);
  auto readouts = scan.readouts();
  for (Acquisition& a : readouts) {
    std::vector<cfloat> line(kNx);
    a.data.copy_to(line.data());
    const auto idx = a.head.idx;
    std::vector<float> k;
    for (int kx = 0; kx < kNx; ++kx) {
      k.push_back(static_cast<float>(kx - kNx / 2) / kNx);
      k.push_back(static_cast<float>(idx.kspace_encode_step_1 - kNy / 2) / kNy);
      k.push_back(idx.repetition == 4 ? 25 : 1);
    }
    a = readout(1, std::move(line), std::move(k));
    a.head.idx = idx;
  }
  const std::string pipeline = yaml(
      "  - density_compensation: {method: from_data}\n  - fhd: {dimensions: 2, method: nufft, accuracy: 1e-5}\n"
      "  - regularised: {prior: temporal_variation, series: repetition, frames: 9, lambda: 0, iterations: 150, "
      "tolerance: 0}\n  - image: {component: complex}\n");
  const auto out = run(pipeline, header({.encoded = {kNx, kNy, 1}, .trajectory = "other"}), readouts, here());
  ASSERT_EQ(out.images.size(), 9u);
  // The others' error falls to 24/25 of itself in a step, and faster with momentum; fhd's accuracy is 1e-5.
  for (std::size_t f = 0; f < 9; ++f) EXPECT_LT(nrmse(pixels<cfloat>(out.images[f]), scan.images[f]), 1e-3) << f;
}

TEST_P(RegularisedTest, NoSignalGivesNoImage) {
  const WholeScan scan(1, 0);
  const auto out = run(regularised("prior: wavelet"), scan.header_of(), scan.readouts(), here());
  for (const cfloat v : pixels<cfloat>(out.images.at(0))) ASSERT_EQ(v, cfloat{});
}

TEST_P(RegularisedTest, RefusesWhatItCannotSolve) {
  const WholeScan scan(1);
  auto readouts = scan.readouts();
  for (Acquisition& a : readouts) {
    std::vector<cfloat> line(2 * kNx);
    a.data.copy_to(line.data());
    a = readout(2, line);
  }
  EXPECT_THAT(client_error([&] { run(regularised("prior: wavelet"), scan.header_of(), readouts, here()); }),
              HasSubstr("put coil_maps before it"));
  auto broken = scan.readouts();
  std::vector<cfloat> line(kNx, cfloat(3e38f, 0));
  broken[3].data = protocol::Payload::take(std::move(line));
  EXPECT_THAT(client_error([&] { run(regularised("prior: wavelet"), scan.header_of(), broken, here()); }),
              HasSubstr("not finite"));
}
ECHOTRAIN_ON_BACKENDS(RegularisedTest);

TEST(RegularisedOptionsTest, AreChecked) {
  const auto error = [](const std::string& options) {
    try {
      PipelinePlan::check(config::read_pipeline(regularised(options), "test.yaml"));
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("prior: [wavelet, low_rank], series: phase"), "");
  EXPECT_THAT(error("prior: wavelets"), HasSubstr("expected wavelet, total_variation"));
  EXPECT_THAT(error("prior: [wavelet, wavelet]"), HasSubstr("named twice"));
  EXPECT_THAT(error("prior: low_rank"), HasSubstr("series names the counter"));
  EXPECT_THAT(error("prior: temporal_variation"), HasSubstr("series names the counter"));
  EXPECT_THAT(error("method: gradient"), HasSubstr("fista, admm"));
  EXPECT_THAT(error("wavelet: {levels: 3}"), HasSubstr("levels"));
}

}  // namespace
}  // namespace echotrain::testing
