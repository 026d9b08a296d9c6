// Whitening against plain float64 sums.
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

const std::string kAdjust = yaml("  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - image\n");

using Matrix = std::vector<cdouble>;  // [coil, coil]

Matrix multiply(const Matrix& a, const Matrix& b, std::size_t n, bool adjoint_b) {
  Matrix out(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < n; ++k)
        out[i * n + j] += a[i * n + k] * (adjoint_b ? std::conj(b[j * n + k]) : b[k * n + j]);
  return out;
}

/// sum n n^H / (samples - 1) of [coil, sample] readouts.
Matrix covariance(const std::vector<std::vector<cfloat>>& readouts, std::size_t coils) {
  Matrix out(coils * coils);
  double samples = 0;
  for (const auto& data : readouts) {
    const std::size_t n = data.size() / coils;
    samples += static_cast<double>(n);
    for (std::size_t i = 0; i < coils; ++i)
      for (std::size_t j = 0; j < coils; ++j)
        for (std::size_t s = 0; s < n; ++s)
          out[i * coils + j] += cdouble(data[i * n + s]) * std::conj(cdouble(data[j * n + s]));
  }
  for (auto& v : out) v /= samples - 1;
  return out;
}

constexpr std::size_t kCoils = 4;

/// Noise with strong correlation and unequal strengths.
std::vector<cfloat> coloured(std::size_t samples, std::mt19937& random) {
  const auto white = noise(kCoils * samples, random);
  std::vector<cfloat> out(white.size());
  for (std::size_t c = 0; c < kCoils; ++c)
    for (std::size_t s = 0; s < samples; ++s) {
      cdouble sum = (3.0 + static_cast<double>(c)) * cdouble(white[c * samples + s]);
      if (c > 0) sum += cdouble(1.5, -1.0 * static_cast<double>(c)) * cdouble(white[(c - 1) * samples + s]);
      out[c * samples + s] = cfloat(1e-3 * sum);
    }
  return out;
}

Acquisition noise_readout(std::vector<cfloat> data, float dwell_us) {
  Acquisition out = readout(static_cast<int>(kCoils), std::move(data));
  set_flag(out, kNoise);
  out.head.sample_time_us = dwell_us;
  return out;
}

/// A readout whose whitened samples are the columns of the whitening matrix.
Acquisition unit_readout(float dwell_us) {
  std::vector<cfloat> data(kCoils * kCoils);
  for (std::size_t c = 0; c < kCoils; ++c) data[c * kCoils + c] = 1;
  Acquisition out = readout(static_cast<int>(kCoils), std::move(data));
  out.head.sample_time_us = dwell_us;
  return out;
}

/// Returns the imaging readouts after noise_adjust: one [coil, sample] block each.
std::vector<std::vector<cfloat>> adjusted(const protocol::Header& h, std::vector<Acquisition> scan, Backend backend) {
  std::vector<std::vector<cfloat>> out;
  RunOptions options{.backend = backend, .tap = "noise_adjust"};
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& readouts = std::get<Readouts>(item);
    EXPECT_NE(readouts.kind, protocol::ReadoutKind::noise);
    if (readouts.heads.empty()) return;
    const HostArray<cfloat>& here = readouts.host_data;
    const auto all =
        here ? std::vector<cfloat>(here.data(), here.data() + here.size()) : elements(compute, readouts.data);
    const std::size_t each = all.size() / readouts.heads.size();
    for (std::size_t i = 0; i < readouts.heads.size(); ++i)
      out.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(i * each),
                       all.begin() + static_cast<std::ptrdiff_t>((i + 1) * each));
  };
  run(kAdjust, h, std::move(scan), options);
  return out;
}

/// The largest |W C W^H - factor I|, relative to the factor.
double off_white(const std::vector<cfloat>& w, const Matrix& c, double factor) {
  const Matrix m(w.begin(), w.end());
  const Matrix white = multiply(multiply(m, c, kCoils, false), m, kCoils, true);
  double largest = 0;
  for (std::size_t i = 0; i < kCoils; ++i)
    for (std::size_t j = 0; j < kCoils; ++j)
      largest = std::max(largest, std::abs(white[i * kCoils + j] - (i == j ? factor : 0.0)));
  return largest / factor;
}

using NoiseAdjustTest = OnEachBackend;

TEST_P(NoiseAdjustTest, TheMatrixWhitensTheMeasuredCovariance) {
  std::mt19937 random(1);
  const std::vector<std::vector<cfloat>> measured = {coloured(300, random), coloured(300, random)};
  const Matrix c = covariance(measured, kCoils);
  struct Case {
    float noise_dwell, dwell;
    std::string bandwidth;
    double factor;
  };
  // Noise power is proportional to bandwidth, 1 / dwell; in the noise scan the receiver saw `bandwidth` of it.
  for (const Case& k : {Case{5, 5, "", 2},
                        {5, 10, "", 4},
                        {8, 2, "", 0.5},
                        {5, 5, "0.79", 2 * 0.79},
                        {0, 5, "", 2},
                        {5, 0, "", 2},
                        {4, 6, "0.8", 2.4}}) {
    SCOPED_TRACE(fmt::format("dwell {} and {} us, bandwidth {}", k.noise_dwell, k.dwell, k.bandwidth));
    const auto h = header({.encoded = {4, 1, 1}, .bandwidth = k.bandwidth});
    const auto out = adjusted(
        h,
        {noise_readout(measured[0], k.noise_dwell), noise_readout(measured[1], k.noise_dwell), unit_readout(k.dwell)},
        GetParam());
    ASSERT_EQ(out.size(), 1u);
    EXPECT_LT(off_white(out[0], c, k.factor), 1e-5);  // float32 matrix, condition about 10
  }
}

TEST_P(NoiseAdjustTest, EachReadoutIsScaledByItsOwnDwellTime) {
  std::mt19937 random(2);
  const auto measured = coloured(500, random);
  const auto out =
      adjusted(header({.encoded = {4, 3, 1}}),
               {noise_readout(measured, 5), unit_readout(5), unit_readout(10), unit_readout(5)}, GetParam());
  ASSERT_EQ(out.size(), 3u);
  const Matrix c = covariance({measured}, kCoils);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(off_white(out[i], c, i == 1 ? 4 : 2), 1e-5) << i;
}

TEST_P(NoiseAdjustTest, PhaseCorrectionIsWhitenedLikeLinesOfItsDwellTime) {
  std::mt19937 random(2);
  const auto measured = coloured(500, random);
  Acquisition navigator = unit_readout(10);
  set_flag(navigator, 24);
  const auto out = adjusted(header({.encoded = {4, 2, 1}}),
                            {noise_readout(measured, 5), navigator, unit_readout(5), unit_readout(5)}, GetParam());
  ASSERT_EQ(out.size(), 3u);
  const Matrix c = covariance({measured}, kCoils);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_LT(off_white(out[i], c, i == 0 ? 4 : 2), 1e-5) << i;
}

TEST_P(NoiseAdjustTest, NoiseOfTheScanBecomesWhite) {
  // With N noise and M imaging samples, elements of the covariance scatter by 2 sqrt(1/N + 1/M): 0.022 here. Chance
  // never gives five times that.
  std::mt19937 random(3);
  constexpr std::size_t kSamples = 16384;
  const auto out = adjusted(header({.encoded = {4096, 1, 1}, .limits = limit("average", 0, 3, 0)}),
                            {noise_readout(coloured(kSamples, random), 5),
                             [&] {
                               Acquisition a = readout(static_cast<int>(kCoils), coloured(4096, random));
                               a.head.sample_time_us = 5;
                               return a;
                             }()},
                            GetParam());
  ASSERT_EQ(out.size(), 1u);
  const Matrix white = covariance({out[0]}, kCoils);
  for (std::size_t i = 0; i < kCoils; ++i)
    for (std::size_t j = 0; j < kCoils; ++j)
      EXPECT_NEAR(std::abs(white[i * kCoils + j] - (i == j ? 2.0 : 0.0)), 0, 10 * std::sqrt(1.0 / 16384 + 1.0 / 4096));
}

TEST_P(NoiseAdjustTest, LaterNoiseReadoutsCountForWhatFollows) {
  std::mt19937 random(8);
  auto first = coloured(200, random), second = coloured(200, random);
  for (cfloat& v : second) v *= 3;
  const auto out =
      adjusted(header({.encoded = {4, 2, 1}}),
               {noise_readout(first, 5), unit_readout(5), noise_readout(second, 5), unit_readout(5)}, GetParam());
  ASSERT_EQ(out.size(), 2u);
  EXPECT_LT(off_white(out[0], covariance({first}, kCoils), 2), 1e-5);
  EXPECT_LT(off_white(out[1], covariance({first, second}, kCoils), 2), 1e-5);
}

TEST_P(NoiseAdjustTest, WithoutANoiseScanNothingChanges) {
  std::mt19937 random(4);
  const auto data = coloured(4, random);
  auto odd = readout(2, noise(6, random));
  set_flag(odd, kNavigator);
  const auto out = adjusted(header({.encoded = {4, 1, 1}}), {odd, readout(static_cast<int>(kCoils), data)}, GetParam());
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[1], data);  // bit by bit
}

TEST_P(NoiseAdjustTest, NavigatorsAreNotWhitened) {
  std::mt19937 random(5);
  auto navigator = readout(2, noise(6, random));
  const auto data = pixels<cfloat>({.pixels = navigator.data});
  set_flag(navigator, kNavigator);
  const auto out =
      adjusted(header({.encoded = {4, 1, 1}}), {noise_readout(coloured(100, random), 5), navigator}, GetParam());
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0], data);
}

TEST_P(NoiseAdjustTest, CalibrationIsWhitenedAsImagingIs) {
  std::mt19937 random(9);
  const auto measured = coloured(500, random);
  Acquisition calibration = unit_readout(5);
  set_flag(calibration, kCalibration);
  const auto h = header({.encoded = {4, 1, 1}});
  const auto out = adjusted(h, {noise_readout(measured, 5), calibration, unit_readout(5)}, GetParam());
  ASSERT_EQ(out.size(), 2u);
  EXPECT_LT(off_white(out[0], covariance({measured}, kCoils), 2), 1e-5);
  EXPECT_EQ(out[0], out[1]);

  // A readout of other coils than the noise is for whoever uses it to refuse.
  Acquisition other = readout(2, noise(6, random));
  const auto data = pixels<cfloat>({.pixels = other.data});
  set_flag(other, kCalibration);
  const auto mixed = adjusted(h, {noise_readout(measured, 5), other, unit_readout(5)}, GetParam());
  ASSERT_EQ(mixed.size(), 2u);
  EXPECT_EQ(mixed[0], data);
  EXPECT_EQ(mixed[1], out[1]);
}

ECHOTRAIN_ON_BACKENDS(NoiseAdjustTest);

TEST(NoiseAdjustErrorTest, SingularCovarianceIsTheSendersFault) {
  std::mt19937 random(6);
  const auto h = header({.encoded = {4, 1, 1}});
  auto dead = coloured(200, random);
  std::fill_n(dead.begin() + 200, 200, cfloat{});  // coil 1
  auto twin = coloured(200, random);
  std::copy_n(twin.begin(), 200, twin.begin() + 200);  // coil 1 = coil 0
  for (const auto& data : {dead, twin, coloured(3, random), coloured(1, random)}) {
    const std::string text = client_error([&] { run(kAdjust, h, {noise_readout(data, 5), unit_readout(5)}); });
    EXPECT_NE(text.find("has no usable covariance"), std::string::npos) << text;
    EXPECT_NE(text.find("leave 'noise_adjust' out"), std::string::npos) << text;
  }
}

TEST(NoiseAdjustErrorTest, AnotherNumberOfCoilsIsTheSendersFault) {
  std::mt19937 random(7);
  const std::string text = client_error([&] {
    run(kAdjust, header({.encoded = {4, 1, 1}}),
        {noise_readout(coloured(100, random), 5), readout(3, noise(12, random))});
  });
  EXPECT_EQ(text, "noise was measured with 4 coils, but readouts have 3");
}

}  // namespace
}  // namespace echotrain::testing
