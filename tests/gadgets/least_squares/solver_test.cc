// fhd, coil_maps and pcg: the least-squares image of a scan.
#include <gmock/gmock.h>

#include "tests/gadgets/blob.h"
#include "tests/support/direct_sum.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

std::string pipeline(const std::string& fhd, const std::string& pcg, const std::string& density = "method: none",
                     const std::string& keys = "", const std::string& maps = "") {
  return yaml(fmt::format("  - density_compensation: {{{}}}\n  - fhd: {{{}}}\n{}  - pcg: {{{}}}\n"
                          "  - coil_combine: {{method: none}}\n  - image: {{component: complex}}\n",
                          density, fhd, maps.empty() ? "" : "  - coil_maps: {" + maps + "}\n", pcg),
              keys);
}
protocol::Header plane(int x, int y, const std::string& limits = "") {
  return header({.encoded = {x, y, 1}, .trajectory = "radial", .limits = limits});
}
RunOptions split_by(Backend backend, std::size_t readouts) {
  return {.backend = backend, .split = [readouts](std::size_t) { return readouts; }};
}
void append(std::vector<Acquisition>& scan, std::vector<Acquisition> frame, int repetition, int contrast = 0) {
  for (auto& a : frame) {
    a.head.idx.repetition = static_cast<std::uint16_t>(repetition);
    a.head.idx.contrast = static_cast<std::uint16_t>(contrast);
    scan.push_back(std::move(a));
  }
}

using SolverTest = OnEachBackend;

// With enough samples and no prior, the image that explains the data is the object, whatever the weights.
TEST_P(SolverTest, FindsTheObject) {
  const Blob blob{2, {3, -2, 0}}, other{2, {-1.5, 4, 0}};
  for (const std::array<int, 2> n : {std::array{32, 32}, {31, 27}}) {
    const auto scan = sample(radial(101, 64), {blob, other});
    for (const std::string method : {"method: exact", "method: nufft, accuracy: 1e-5"})
      for (const std::string density : {"method: none", "method: ramp"}) {
        // The corners of k-space are not sampled; a blob of this size has 1e-4 of its energy there.
        const auto out = run(pipeline(method, "prior: none, iterations: 40, tolerance: 1e-5", density),
                             plane(n[0], n[1]), scan, here());
        ASSERT_EQ(out.images.size(), 1u) << method;
        const auto image = pixels<cfloat>(out.images[0]);
        EXPECT_LT(largest_error(image, 0, blob.image({n[0], n[1], 1})), 5e-3) << method << ", " << density;
        EXPECT_LT(largest_error(image, 1, other.image({n[0], n[1], 1})), 5e-3) << method << ", " << density;
      }
  }
}

TEST_P(SolverTest, ThreeDimensions) {
  const Blob blob{3, {2, -1, 1}};
  const auto h = header({.encoded = {16, 14, 15}, .trajectory = "other"});
  const auto scan = sample(kooshball(500, 32), {blob});
  for (const std::string method : {"exact", "nufft"}) {
    const auto out = run(pipeline(fmt::format("dimensions: 3, method: {}", method),
                                  "prior: none, iterations: 60, tolerance: 1e-4", "method: ramp"),
                         h, scan, here());
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_LT(largest_error(pixels<cfloat>(out.images[0]), 0, blob.image({16, 14, 15})), 2e-2) << method;
  }
}

TEST_P(SolverTest, AStreamedScanHasTheBitsOfAWholeOne) {
  const Blob blob{2, {3, -2, 0}};
  std::vector<Acquisition> scan;
  append(scan, sample(radial(61, 50), {blob, blob}), 0);
  append(scan, sample(radial(61, 50), {blob, blob}), 1);
  const std::string text = pipeline("method: exact", "iterations: 5");
  const auto whole = run(text, plane(24, 23), scan, here());
  ASSERT_EQ(whole.images.size(), 2u);
  for (const std::size_t readouts : {1u, 7u, 40u}) {
    const auto out = run(text, plane(24, 23), scan, split_by(GetParam(), readouts));
    ASSERT_EQ(out.images.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(pixels<cfloat>(out.images[i]), pixels<cfloat>(whole.images[i]));
  }
}

// Half-precision factors cost less than the data's noise, and say what they cost: F^H d is off by up to 4e-4. Solving
// amplifies that in weak directions by up to the condition number, 32 here as above; errors that look random have most
// of their power elsewhere, so that five times is plenty.
TEST_P(SolverTest, FastIsCloseToExact) {
  const Blob blob{2, {3, -2, 0}};
  const auto scan = sample(radial(101, 64), {blob});
  const auto reconstruct = [&](const std::string& precision) {
    return run(pipeline("method: exact, precision: " + precision, "iterations: 20, lambda: 1e-3"), plane(31, 28), scan,
               here());
  };
  const auto exact = reconstruct("exact"), fast = reconstruct("fast");
  const auto truth = pixels<cfloat>(exact.images.at(0)), image = pixels<cfloat>(fast.images.at(0));
  EXPECT_LT(relative_error(image, truth, truth.size()), 2e-3);
  EXPECT_EQ(exact.images[0].attributes.find("fhd_error"), std::string::npos);
  EXPECT_EQ(fast.images[0].attributes.find("fhd_error") != std::string::npos, GetParam() == Backend::cuda);
  EXPECT_EQ(image == truth, GetParam() == Backend::cpu);
}

TEST_P(SolverTest, TheOperatorIsMadeOnce) {
  const Blob blob{2, {3, -2, 0}};
  std::vector<Acquisition> scan;
  for (int r = 0; r < 3; ++r) append(scan, sample(radial(53, 50), {blob}), r);
  const std::string text = pipeline("method: nufft", "iterations: 5");
  const RunOptions options = here();  // both with the same resources
  const auto first = run(text, plane(24, 21), scan, options), second = run(text, plane(24, 21), scan, options);
  EXPECT_EQ(first.counts.work.operators_made, 1u);
  EXPECT_EQ(first.counts.work.operators_reused, 2u);
  EXPECT_EQ(second.counts.work.operators_made, 0u);
  EXPECT_EQ(second.counts.work.operators_reused, 3u);
}

TEST_P(SolverTest, TheHistoryIsInTheAttributes) {
  const Blob blob{2, {3, -2, 0}};
  const auto out = run(pipeline("method: nufft", "iterations: 4, tolerance: 0"), plane(24, 24),
                       sample(radial(53, 50), {blob}), here());
  ASSERT_EQ(out.images.size(), 1u);
  const std::string& meta = out.images[0].attributes;
  for (const char* part : {"pcg_iterations", "pcg_residuals", "pcg_status", "iterations used"})
    EXPECT_NE(meta.find(part), std::string::npos) << part << " in " << meta;
  const auto done = run(pipeline("method: nufft", "iterations: 200, tolerance: 1e-2, lambda: 0.01"), plane(24, 24),
                        sample(radial(53, 50), {blob}), here());
  EXPECT_NE(done.images.at(0).attributes.find("converged"), std::string::npos) << done.images[0].attributes;
}

TEST_P(SolverTest, AWarmStartNeedsFewerSteps) {
  const Blob blob{2, {3, -2, 0}};
  std::vector<Acquisition> scan;
  append(scan, sample(radial(53, 50), {blob}), 0);
  append(scan, sample(radial(53, 50), {blob}), 1);
  const auto steps = [](const protocol::Image& image) {
    const std::string& meta = image.attributes;
    const auto at = meta.find("<value>", meta.find("pcg_iterations"));
    return std::stoi(meta.substr(at + 7));
  };
  const std::string parameters = "iterations: 300, tolerance: 1e-3, lambda: 0.01, warm_start: ";
  const auto cold = run(pipeline("method: nufft", parameters + "false"), plane(24, 24), scan, here());
  const auto warm = run(pipeline("method: nufft", parameters + "true"), plane(24, 24), scan, here());
  EXPECT_EQ(steps(cold.images.at(1)), steps(cold.images.at(0)));
  EXPECT_GT(steps(cold.images.at(1)), 1);
  EXPECT_LE(steps(warm.images.at(1)), 1);
}

/// A disc with a hole seen by coils around it: images, and samples of every `keep`-th spoke in float64.
struct CoilScan {
  std::vector<double> object;  // [y, x]
  std::vector<cfloat> maps;    // [coil, y, x]
  std::vector<Acquisition> scan;
};
CoilScan coil_scan(int n, int coils, int spokes, int samples, int keep) {
  CoilScan out;
  std::vector<cfloat> images;
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      const double r = std::hypot(x - n / 2, y - n / 2) / n, hole = std::hypot(x - n / 2 - n / 8.0, y - n / 2) / n;
      out.object.push_back(r < 0.36 ? (hole < 0.1 ? 0.3 : 1.0) : 0.0);
    }
  for (int c = 0; c < coils; ++c) {
    const double angle = 2 * std::numbers::pi * c / coils, cx = 0.55 * std::cos(angle), cy = 0.55 * std::sin(angle);
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x) {
        const double dx = (x - n / 2) / static_cast<double>(n) - cx, dy = (y - n / 2) / static_cast<double>(n) - cy;
        out.maps.emplace_back(std::polar(std::exp(-(dx * dx + dy * dy) / 0.35), 2.0 * dx - 1.5 * dy + angle));
        images.push_back(static_cast<float>(out.object[static_cast<std::size_t>(y * n + x)]) * out.maps.back());
      }
  }
  const Path path = radial(spokes, samples);
  for (int i = 0; i < spokes; i += keep) {
    const std::vector<double>& k = path.k[static_cast<std::size_t>(i)];
    const auto values = direct_forward(k, images, coils, {n, n});  // [sample, coil]
    std::vector<cfloat> data;
    std::vector<float> trajectory(k.begin(), k.end());
    for (int c = 0; c < coils; ++c)
      for (int s = 0; s < samples; ++s) data.emplace_back(values[static_cast<std::size_t>(s * coils + c)]);
    out.scan.push_back(readout(coils, std::move(data), std::move(trajectory)));
    out.scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
  }
  set_flag(out.scan.back(), kLastInSlice);
  return out;
}

/// Relative L2 distance of the magnitude to the object after the best common scale: coil maps have no scale of their
/// own.
double scaled_error(const std::vector<cfloat>& image, const std::vector<double>& object) {
  double dot = 0, power = 0, norm = 0, error = 0;
  for (std::size_t i = 0; i < object.size(); ++i) {
    dot += std::abs(image[i]) * object[i];
    power += std::norm(image[i]);
    norm += object[i] * object[i];
  }
  for (std::size_t i = 0; i < object.size(); ++i) error += std::pow(dot / power * std::abs(image[i]) - object[i], 2);
  return std::sqrt(error / norm);
}

// A third of the spokes that Nyquist asks for: what one coil aliases, eight tell apart.
TEST_P(SolverTest, CoilsMakeUpForSpokesLeftOut) {
  constexpr int kMatrix = 48;
  const auto h = plane(kMatrix, kMatrix);
  const CoilScan few = coil_scan(kMatrix, 8, 90, 96, 4);
  const auto gridded = run(yaml("  - density_compensation: {method: ramp}\n  - gridding\n  - fft\n  - deapodization\n"
                                "  - coil_combine: {method: rss}\n  - image: {component: complex}\n"),
                           h, few.scan, here());
  const double of_gridding = scaled_error(pixels<cfloat>(gridded.images.at(0)), few.object);
  for (const std::string maps : {"method: adaptive, calibration: 16, block: 5", "method: espirit, calibration: 16"}) {
    const auto sense =
        run(pipeline("method: nufft", "prior: tikhonov, lambda: 1e-4, iterations: 30", "method: ramp", "", maps), h,
            few.scan, here());
    ASSERT_EQ(sense.images.size(), 1u);
    EXPECT_EQ(sense.images[0].head.channels, 1);
    const double of_sense = scaled_error(pixels<cfloat>(sense.images[0]), few.object);
    EXPECT_LT(of_sense, 0.7 * of_gridding) << maps;
  }
}

/// Two contrasts of a noisy disc with a hole, seen by one coil.
struct Contrasts {
  std::vector<Acquisition> scan;
  std::vector<double> object;
  std::array<std::vector<cdouble>, 2> truth;  // what the coil sees of the object, by contrast
};
Contrasts two_contrasts(int n, double sigma) {
  constexpr std::array kScale{1.0f, 0.6f};
  Contrasts out;
  std::mt19937 random(3);
  for (std::size_t contrast = 0; contrast < 2; ++contrast) {
    CoilScan one = coil_scan(n, 1, 80, 64, 1);
    for (Acquisition& a : one.scan) {
      std::vector<cfloat> data(static_cast<std::size_t>(a.head.number_of_samples));
      a.data.copy_to(data.data());
      const auto extra = noise(data.size(), random, sigma);
      for (std::size_t s = 0; s < data.size(); ++s) data[s] = data[s] * kScale[contrast] + extra[s];
      a.data = protocol::Payload::take(std::move(data));
    }
    append(out.scan, std::move(one.scan), 0, static_cast<int>(contrast));
    for (std::size_t i = 0; i < one.object.size(); ++i)
      out.truth[contrast].push_back(one.object[i] * cdouble(one.maps[i] * kScale[contrast]));
    out.object = std::move(one.object);
  }
  return out;
}

// Noise is averaged within structures and not across them: the image is nearer to the object, whose coil's sensitivity
// it shares, than with the best strength of a prior that knows no edges. The corners of k-space are not sampled:
// without noise and without a prior, the error is what they hold of the object.
TEST_P(SolverTest, AnAnatomicalPriorKeepsEdges) {
  constexpr int kMatrix = 32;
  const auto h = plane(kMatrix, kMatrix, limit("contrast", 0, 1, 0));
  const Contrasts noisy = two_contrasts(kMatrix, 4);
  const auto error = [&](const std::string& pcg, std::size_t contrast) {
    const auto out = run(pipeline("method: nufft", pcg + ", iterations: 60"), h, noisy.scan, here());
    EXPECT_EQ(out.images.size(), 2u);
    EXPECT_EQ(out.images.at(contrast).head.contrast, contrast);
    return nrmse(pixels<cfloat>(out.images.at(contrast)), noisy.truth[contrast]);
  };
  for (const std::size_t contrast : {0u, 1u}) {
    const double plain = error("prior: tikhonov, lambda: 1e-6", contrast);
    double smooth = plain;
    for (const char* lambda : {"0.003", "0.01", "0.03", "0.1"})
      smooth = std::min(smooth, error(std::string("prior: smoothness, lambda: ") + lambda, contrast));
    for (const char* reference : {"all_contrasts", "first_contrast"}) {
      double anatomical = plain;
      for (const char* lambda : {"0.003", "0.01", "0.03", "0.1", "0.3", "1"})
        anatomical =
            std::min(anatomical,
                     error(fmt::format("prior: anatomical, lambda: {}, reference: {}", lambda, reference), contrast));
      EXPECT_LT(anatomical, 0.9 * smooth) << reference << ", without prior " << plain;
    }
    EXPECT_LT(smooth, plain);
  }
}

// A sender that does not count repetitions: the same contrasts again are other images, with a reference of their own.
//
// On CUDA, samples are added to the grid in any order, so that right-hand sides differ by rounding. Solutions whose
// residuals are within the tolerance t of them differ by at most 2 c t, where c is the condition number: the density of
// unweighted radial samples falls as 1/|k| over 32 samples, c = 32. To stop after a few steps would say less: the
// solver begins again from the draft, whose residual is orthogonal to the strongest directions but for rounding, and a
// few steps make of that rounding anything up to the residual that remains (3e-4 of the image when data move by 1e-7).
TEST_P(SolverTest, ContrastsThatComeAgain) {
  constexpr double kTolerance = 1e-6, kCondition = 32, kRounding = 1e-5;
  std::vector<Acquisition> scan;
  const Contrasts once = two_contrasts(24, 0);
  for (int time = 0; time < 3; ++time) scan.insert(scan.end(), once.scan.begin(), once.scan.end());
  const auto h = plane(24, 24, limit("contrast", 0, 1, 0));
  for (const char* reference : {"all_contrasts", "first_contrast"}) {
    const auto pcg =
        fmt::format("prior: anatomical, iterations: 200, tolerance: {}, reference: {}", kTolerance, reference);
    const auto out = run(pipeline("method: nufft", pcg, "method: none", "frame: {until: last_in_slice}\n"), h, scan,
                         split_by(GetParam(), 20));
    ASSERT_EQ(out.images.size(), 6u) << reference;
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(out.images[i].head.contrast, i % 2);
      EXPECT_NE(out.images[i].attributes.find("<value>converged<"), std::string::npos);
      EXPECT_LT(nrmse(pixels<cfloat>(out.images[i]), pixels<cfloat>(out.images[i % 2])),
                GetParam() == numerics::Backend::cuda ? 2 * kCondition * kTolerance + kRounding : kRounding);
    }
  }
}

// A frame without signal, which a scan may begin with, does not end the scan and tells nothing about the coils.
TEST_P(SolverTest, AFrameWithoutSignal) {
  std::vector<Acquisition> scan;
  const Blob blob{2, {3, -2, 0}};
  append(scan, sample(radial(51, 50), {blob, blob}), 1);
  std::vector<Acquisition> silent;
  for (const Acquisition& a : scan) {
    silent.push_back(a);
    silent.back().data = protocol::Payload::take(std::vector<cfloat>(100));
    silent.back().head.idx.repetition = 0;
  }
  silent.insert(silent.end(), scan.begin(), scan.end());
  const std::string text = pipeline("method: nufft", "iterations: 10", "method: ramp", "", "method: adaptive");
  const auto out = run(text, plane(24, 25), silent, here()), alone = run(text, plane(24, 25), scan, here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_EQ(out.warned("holds no signal"), 1);
  for (const cfloat v : pixels<cfloat>(out.images[0])) EXPECT_EQ(v, cfloat());
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[1]), pixels<cfloat>(alone.images.at(0))), 1e-5);
}

// A scan that breaks off gives no image of contrasts that waited for others.
TEST_P(SolverTest, ContrastsThatNeverCome) {
  const auto scan = two_contrasts(24, 0).scan;
  const auto three = plane(24, 24, limit("contrast", 0, 2, 0));
  const std::string text = pipeline("method: nufft", "prior: anatomical, iterations: 5");
  EXPECT_EQ(run(text, three, scan, here()).images.size(), 2u);
  auto options = here();
  options.end = End::truncated;
  const auto out = run(text, three, scan, options);
  EXPECT_EQ(out.images.size(), 0u);
  EXPECT_EQ(out.warned("waited for further contrasts"), 1);
}

// A volume may be reconstructed to a single plane, along whose normal there are no edges.
TEST_P(SolverTest, AnAnatomicalPriorOfOnePlaneOfAVolume) {
  const Blob blob{3, {2, -1, 0}};
  const auto h = header({.encoded = {16, 14, 3}, .recon = {16, 14, 1}, .trajectory = "other"});
  const auto scan = sample(kooshball(500, 32), {blob});
  const auto solved = [&](const std::string& prior) {
    const auto out =
        run(pipeline("dimensions: 3, method: exact", prior + ", iterations: 60", "method: ramp"), h, scan, here());
    return out.images.size() == 1 ? pixels<cfloat>(out.images[0]) : std::vector<cfloat>();
  };
  // Edges that count next to nothing leave the prior without edges.
  const auto anatomical = solved("prior: anatomical, edge_strength: 1000");
  ASSERT_EQ(anatomical.size(), 16u * 14u);
  EXPECT_LT(nrmse(anatomical, solved("prior: smoothness")), 1e-3);
}

/// |F x - d|^2 over the samples of contrast 0, in float64 and by the definition of F.
double squared_residual(const protocol::Image& image, const std::vector<Acquisition>& scan, std::size_t* samples) {
  const auto x = pixels<cfloat>(image);
  double sum = 0;
  for (const Acquisition& a : scan) {
    if (a.head.idx.contrast != 0) continue;
    std::vector<float> k(2ull * a.head.number_of_samples);
    std::vector<cfloat> data(a.head.number_of_samples);
    a.trajectory.copy_to(k.data());
    a.data.copy_to(data.data());
    const auto explained =
        direct_forward({k.begin(), k.end()}, x, 1, {image.head.matrix_size[1], image.head.matrix_size[0]});
    for (std::size_t s = 0; s < data.size(); ++s) sum += std::norm(explained[s] - cdouble(data[s]));
    *samples += data.size();
  }
  return sum;
}

// lambda is chosen so that the residual is what noise of this standard deviation, in the real and in the imaginary part
// of each sample, would leave: 2 sigma^2 samples, to the 2 % of lambda_by_discrepancy() and a rounding.
TEST_P(SolverTest, TheDiscrepancyPrincipleMeetsTheNoise) {
  for (const double sigma : {0.5, 5.0}) {
    const auto scan = two_contrasts(24, sigma).scan;
    const auto solved = [&](double noise_level) {
      return run(
          pipeline("method: nufft", fmt::format("prior: smoothness, iterations: 60, noise_level: {}", noise_level)),
          plane(24, 24), scan, here());
    };
    const auto out = solved(sigma);
    ASSERT_EQ(out.images.size(), 2u);
    std::size_t samples = 0;
    const double residual = squared_residual(out.images[0], scan, &samples);
    EXPECT_EQ(samples, 80u * 64u);
    EXPECT_NEAR(residual / (2 * sigma * sigma * static_cast<double>(samples)), 1, 0.021) << sigma;
    EXPECT_NE(out.images[0].attributes.find("pcg_lambda"), std::string::npos);
    EXPECT_EQ(out.warned("pcg"), 0) << sigma;
    // The noise level is far too high, so the data seem to hold noise only.
    EXPECT_EQ(solved(1e6).warned("nothing but noise"), 1);
  }
}

/// An image message as a client sends it, or a file holds it.
template <class T>
protocol::Image side_image(std::vector<T> values, std::uint16_t type, int channels, int n, const std::string& role,
                           std::uint16_t slice = 0) {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = type;
  image.head.channels = static_cast<std::uint16_t>(channels);
  image.head.matrix_size[0] = image.head.matrix_size[1] = static_cast<std::uint16_t>(n);
  image.head.matrix_size[2] = 1;
  image.head.slice = slice;
  image.pixels = protocol::Payload::take(std::move(values));
  image.attributes = "<ismrmrdMeta><meta><name>role</name><value>" + role + "</value></meta></ismrmrdMeta>";
  return image;
}

// The maps that the scan was made with, from a file or sent, do better than maps from the data.
TEST_P(SolverTest, CoilMapsThatAreGiven) {
  constexpr int kMatrix = 40;
  const auto h = plane(kMatrix, kMatrix);
  const CoilScan few = coil_scan(kMatrix, 6, 80, 80, 4);
  const auto solved = [&](const std::string& maps, const RunOptions& options) {
    const auto out =
        run(pipeline("method: nufft", "prior: tikhonov, lambda: 1e-5, iterations: 40", "method: ramp", "", maps), h,
            few.scan, options);
    EXPECT_EQ(out.images.size(), 1u);
    return pixels<cfloat>(out.images.at(0));
  };
  const protocol::Image maps = side_image(few.maps, 7, 6, kMatrix, "coil_maps");
  RunOptions from_file = here(), from_client = here();
  from_file.read_asset = [&](const std::string& name) {
    EXPECT_EQ(name, "head.h5");
    return std::vector{maps};
  };
  from_client.images = {maps};
  const auto image = solved("method: given, file: head.h5", from_file);
  EXPECT_EQ(solved("method: given", from_client), image);
  std::vector<std::complex<double>> wide(few.maps.begin(), few.maps.end());
  from_client.images = {side_image(std::move(wide), 8, 6, kMatrix, "coil_maps")};
  EXPECT_EQ(solved("method: given", from_client), image);
  EXPECT_LT(scaled_error(image, few.object),
            0.9 * scaled_error(solved("method: adaptive, calibration: 16, block: 5", here()), few.object));
}

// A reference adds its edges only: one without edges equals the smoothness prior, bright or dark. The true object is
// the best possible reference: with its edges, the image is nearer to what the coil sees of it.
TEST_P(SolverTest, AReferenceThatIsGiven) {
  constexpr int kMatrix = 32;
  const Contrasts noisy = two_contrasts(kMatrix, 4);
  const auto h = plane(kMatrix, kMatrix);
  const auto solved = [&](const std::string& prior, const RunOptions& options) {
    const auto out = run(pipeline("method: nufft", prior + ", lambda: 0.03, iterations: 60"), h, noisy.scan, options);
    EXPECT_EQ(out.images.size(), 2u);
    return pixels<cfloat>(out.images.at(0));
  };
  RunOptions flat = here(), truth = here();
  flat.images = {side_image(std::vector<float>(kMatrix * kMatrix, 7.0f), 5, 1, kMatrix, "reference")};
  truth.read_asset = [&](const std::string&) { return std::vector{side_image(noisy.object, 6, 1, kMatrix, "")}; };
  const auto smooth = solved("prior: smoothness", here());
  EXPECT_LT(nrmse(solved("prior: anatomical, reference: given", flat), smooth), 1e-5);
  const auto sharp = solved("prior: anatomical, reference: given, reference_file: t1.h5", truth);
  EXPECT_LT(nrmse(sharp, noisy.truth[0]), 0.8 * nrmse(smooth, noisy.truth[0]));
}

TEST_P(SolverTest, ImagesAreGivenBySlice) {
  constexpr int kMatrix = 24;
  CoilScan one = coil_scan(kMatrix, 4, 60, 48, 1);
  std::vector<cfloat> halved = one.maps;
  for (cfloat& v : halved) v *= 0.5f;
  std::vector<Acquisition> scan;
  for (const std::uint16_t slice : {0, 1, 2})
    for (Acquisition a : one.scan) {
      a.head.idx.slice = slice;
      scan.push_back(std::move(a));
    }
  const auto h = plane(kMatrix, kMatrix, limit("slice", 0, 2, 0));
  const std::string text =
      pipeline("method: nufft", "prior: none, iterations: 20", "method: ramp", "", "method: given");
  RunOptions options = here();
  options.images = {side_image(one.maps, 7, 4, kMatrix, "coil_maps", 0),
                    side_image(halved, 7, 4, kMatrix, "coil_maps", 1),
                    side_image(one.maps, 7, 4, kMatrix, "coil_maps", 2)};
  const auto out = run(text, h, scan, options);
  ASSERT_EQ(out.images.size(), 3u);
  auto doubled = pixels<cfloat>(out.images[0]);  // half the sensitivity explains the data by twice the image
  EXPECT_EQ(pixels<cfloat>(out.images[2]), doubled);
  for (cfloat& v : doubled) v *= 2.0f;
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[1]), doubled), 1e-5);
  options.images.pop_back();
  EXPECT_NE(client_error([&] { run(text, h, scan, options); }).find("for 2 slices, but none for slice 2"),
            std::string::npos);
  options.images.pop_back();
  EXPECT_EQ(run(text, h, scan, options).images.size(), 3u);  // the only map serves all slices
}

ECHOTRAIN_ON_BACKENDS(SolverTest);

TEST(SideImagesTest, WhatCannotBeUsedIsRefused) {
  constexpr int kMatrix = 16;
  const CoilScan one = coil_scan(kMatrix, 3, 30, 32, 1);
  const auto h = plane(kMatrix, kMatrix);
  const std::string given = pipeline("method: nufft", "iterations: 3", "method: ramp", "", "method: given");
  const auto refusal = [&](const std::string& text, std::vector<protocol::Image> images, ReadAsset read = nullptr) {
    RunOptions options;
    options.images = std::move(images);
    options.read_asset = std::move(read);
    return client_error([&] { run(text, h, one.scan, options); });
  };
  EXPECT_THAT(refusal(given, {}), HasSubstr("send an IMAGE whose meta attribute role is coil_maps"));
  EXPECT_THAT(refusal(given, {side_image(one.maps, 7, 3, kMatrix, "reference")}), HasSubstr("no image was given"));
  EXPECT_THAT(refusal(given, {side_image(std::vector<cfloat>(2 * 16 * 16), 7, 2, 16, "coil_maps")}),
              HasSubstr("[2, 1, 16, 16]"));
  auto broken = one.maps;
  broken[5] = cfloat(0, NAN);
  EXPECT_THAT(refusal(given, {side_image(broken, 7, 3, kMatrix, "coil_maps")}), HasSubstr("not finite"));
  const std::string from_file =
      pipeline("method: nufft", "iterations: 3", "method: ramp", "", "method: given, file: head.h5");
  EXPECT_THAT(refusal(from_file, {}), HasSubstr("coil_maps: files cannot be read here"));
  EXPECT_THAT(refusal(from_file, {},
                      [](const std::string&) -> std::vector<protocol::Image> {
                        throw std::runtime_error("there is no such file");
                      }),
              HasSubstr("coil_maps: there is no such file"));
  const std::string anatomical =
      pipeline("method: nufft", "prior: anatomical, reference: given, iterations: 3", "method: ramp");
  EXPECT_THAT(refusal(anatomical, {}), HasSubstr("meta attribute role is reference"));
  EXPECT_THAT(refusal(anatomical, {side_image(std::vector<float>(64), 5, 1, 8, "reference")}),
              HasSubstr("1 x 8 x 8 voxels [z, y, x], but this scan's images have 1 x 16 x 16"));
  // A pipeline that has no use for such images says so once and goes on.
  RunOptions options;
  options.images = {side_image(one.maps, 7, 3, kMatrix, "coil_maps")};
  const auto out = run(pipeline("method: nufft", "iterations: 3"), h, one.scan, options);
  EXPECT_EQ(out.images.size(), 1u);
  EXPECT_EQ(out.warned("has no use for images of role 'coil_maps'"), 1);
}

TEST(SideImagesTest, NamesAreNeverPaths) {
  for (const char* name : {"head.h5", "a", "A-1_b.h5"}) EXPECT_TRUE(SideImages::is_file_name(name)) << name;
  for (const std::string& name : std::vector<std::string>{"", ".", "..", ".hidden", "a/b", "/etc/passwd", "..\\a",
                                                          "a b", std::string("a\0b", 3), std::string(256, 'a')})
    EXPECT_FALSE(SideImages::is_file_name(name)) << name;
  for (const char* maps : {"method: given, file: ../head.h5", "method: adaptive, file: head.h5"})
    EXPECT_THROW(PipelinePlan::check(config::read_pipeline(
                     pipeline("method: nufft", "iterations: 3", "method: ramp", "", maps), "test.yaml")),
                 config::ConfigError);
}

TEST(SolverRefusalTest, WhatCannotBeSolvedFor) {
  const Blob blob{2, {3, -2, 0}};
  auto scan = sample(radial(30, 40), {blob, blob});
  const auto h = plane(20, 20);
  const auto refusal = [&](const std::string& text, const protocol::Header& of, const std::vector<Acquisition>& data) {
    return client_error([&] { run(text, of, data); });
  };
  EXPECT_NE(refusal(pipeline("method: nufft", "noise_level: 1"), h, scan).find("put coil_maps before pcg"),
            std::string::npos);
  EXPECT_NE(refusal(pipeline("dimensions: 3", "iterations: 5"), h, scan).find("3D"), std::string::npos);
  std::vector<cfloat> data(80, cfloat(3e38f, 0));  // sums of these are not finite
  scan[3].data = protocol::Payload::take(std::move(data));
  EXPECT_NE(refusal(pipeline("method: exact", "iterations: 5"), h, scan).find("not finite"), std::string::npos);
  const auto loading = [](const std::string& text) {
    try {
      PipelinePlan::check(config::read_pipeline(text, "test.yaml"));
      return std::string();
    } catch (const config::ConfigError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(loading(pipeline("method: nufft, precision: fast", "iterations: 5")).find("fast needs method: exact"),
            std::string::npos);
  EXPECT_NE(loading(pipeline("method: nufft, voxel: box", "iterations: 5")).find("box needs method: exact"),
            std::string::npos);
  EXPECT_NE(loading(pipeline("method: nufft", "prior: none, noise_level: 1")).find("prior is none"), std::string::npos);
}

}  // namespace
}  // namespace echotrain::testing
