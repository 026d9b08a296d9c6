// Plane-wave imaging of arbitrary traces against its definition, summed in float64.
#include <cmath>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr double kPi = std::numbers::pi;
constexpr int kElements = 13, kSamples = 90, kColumns = 17, kRows = 14;
constexpr double kPitch = 0.25, kSound = 1500, kCenter = 4, kBegin = 3.5;  // mm, m/s, MHz, us
constexpr double kWidth = 4, kDepth = 3, kAtX = 0.4, kAtZ = 6;             // of the image [mm]
constexpr double kSampling[] = {16, 5};                                    // MHz: RF, and IQ

struct Shot {
  double angle_deg = 0;
  std::vector<cfloat> traces;  // [element, sample]
};

HeaderSpec image_header(int waves) {
  HeaderSpec spec;
  spec.encoded = {kSamples, waves, 1};
  spec.recon = {kColumns, kRows, 1};
  spec.encoded_fov = {10, 10, 1};
  spec.recon_fov = {kWidth, kDepth, 1};
  spec.trajectory = "other";
  spec.limits = limit("kspace_encoding_step_1", 0, waves - 1, 0);
  return spec;
}

Acquisition wave(const Shot& shot, int number, bool iq, int repetition = 0) {
  Acquisition out = readout(kElements, shot.traces);
  auto& head = out.head;
  head.sample_time_us = static_cast<float>(1 / kSampling[iq ? 1 : 0]);
  head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(number);
  head.idx.repetition = static_cast<std::uint16_t>(repetition);
  head.read_dir[0] = head.phase_dir[1] = head.slice_dir[2] = 1;
  head.position[0] = static_cast<float>(kAtX);
  head.position[1] = static_cast<float>(kAtZ);
  const std::array<double, 6> fields{shot.angle_deg, kBegin, kPitch, kSound, kCenter, iq ? kCenter : 0.0};
  for (std::size_t i = 0; i < fields.size(); ++i) head.user_float[i] = static_cast<float>(fields[i]);
  return out;
}

std::vector<Shot> random_shots(const std::vector<double>& angles, bool iq) {
  std::mt19937 random(8);
  std::vector<Shot> shots;
  for (const double angle : angles) {
    shots.push_back({angle, noise(kElements * kSamples, random)});
    for (auto& value : shots.back().traces)
      if (!iq) value = value.real();
  }
  return shots;
}

/// The sum over the frequencies of `bins` and the spatial frequencies of `columns` that the definition names: each term
/// is the traces' transform there, placed where the image's spectrum has it.
std::vector<cdouble> defined(const Shot& shot, bool iq, int bins, int columns, double most_angle_deg) {
  const double sampling = kSampling[iq ? 1 : 0], c = kSound / 1000, base = iq ? kCenter : 0;  // MHz, mm/us
  const double angle = shot.angle_deg * kPi / 180;
  std::vector<cdouble> image(kColumns * kRows);
  const int first = iq ? -bins / 2 : 0, end = bins / 2;
  int kept = 0;
  for (int j = first; j < end; ++j) {
    const double f = base + j * sampling / bins, k = f / c;
    if (f < 0.25 * kCenter || f > 1.75 * kCenter || f <= 0) continue;
    ++kept;
    for (int m = 0; m < columns; ++m) {
      double u = m / (columns * kPitch) - k * std::sin(angle);
      u -= std::nearbyint(u * kPitch) / kPitch;  // a half: either side is as good
      if (std::abs(u) >= k * std::sin(most_angle_deg * kPi / 180)) continue;
      cdouble value = 0;
      for (int e = 0; e < kElements; ++e)
        for (int n = 0; n < kSamples; ++n) {
          const double x = (e - (kElements - 1) / 2.0) * kPitch, t = kBegin + n / sampling;
          value += cdouble(shot.traces[static_cast<std::size_t>(e * kSamples + n)]) *
                   std::polar(1.0, -2 * kPi * (u * x + (f - base) * t));
        }
      const double root = std::sqrt(k * k - u * u);
      // Area of the image's spectrum per area of the traces', by differences.
      const auto fz = [&](double kk) {
        const double uu = u - (kk - k) * std::sin(angle);  // the column stays
        return kk * std::cos(angle) + std::sqrt(kk * kk - uu * uu);
      };
      const double h = 1e-5 * root * root / k;
      value *= (fz(k + h) - fz(k - h)) / (2 * h) * root / k;
      for (int row = 0; row < kRows; ++row)
        for (int column = 0; column < kColumns; ++column) {
          const double x = kAtX + (column - kColumns / 2) * kWidth / kColumns;  // NOLINT: whole columns
          const double z = kAtZ + (row - kRows / 2) * kDepth / kRows;           // NOLINT: whole rows
          image[static_cast<std::size_t>(row * kColumns + column)] +=
              value * std::polar(1.0, 2 * kPi * ((u + k * std::sin(angle)) * x + fz(k) * z));
        }
    }
  }
  for (auto& value : image) value *= (iq ? 1.0 : 2.0) / (static_cast<double>(kept) * columns);
  return image;
}

std::string chain(const std::string& more = "", double most_angle = 90) {
  return yaml(
      fmt::format("  - echo_traces\n  - echo_spectrum\n  - stolt_migration: {{kernel_width: 8, oversampling: 2, "
                  "max_angle_deg: {}}}\n{}  - image: {{component: complex}}\n",
                  most_angle, more));
}

class UltrasoundTest : public OnEachBackend {};
ECHOTRAIN_ON_BACKENDS(UltrasoundTest);

TEST_P(UltrasoundTest, ImagesAreTheSumsThatDefineThem) {
  for (const bool iq : {false, true}) {
    const std::vector<Shot> shots = random_shots({0, 11, -7}, iq);
    std::vector<Acquisition> scan;
    for (int w = 0; w < 3; ++w) scan.push_back(wave(shots[static_cast<std::size_t>(w)], w, iq));
    const Outcome out = run(chain("", 40), header(image_header(3)), scan, here());
    ASSERT_EQ(out.images.size(), 1u);
    std::vector<cdouble> expected;
    for (const Shot& shot : shots) {
      const auto image = defined(shot, iq, 180, 28, 40);
      expected.insert(expected.end(), image.begin(), image.end());
    }
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), expected), 2e-5) << (iq ? "IQ" : "RF");
  }
}

TEST_P(UltrasoundTest, WavesCompoundAndTurnToDecibels) {
  const std::vector<Shot> shots = random_shots({4, -4}, true);
  const std::vector<Acquisition> scan{wave(shots[0], 0, true), wave(shots[1], 1, true)};
  const auto image = [&](const std::string& more) {
    return pixels<cfloat>(run(chain(more), header(image_header(2)), scan, here()).images.at(0));
  };
  const auto each = image("");
  const std::size_t n = each.size() / 2;
  std::vector<cdouble> mean, envelope;
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) {
    mean.push_back((cdouble(each[i]) + cdouble(each[n + i])) / 2.0);
    envelope.emplace_back((std::abs(cdouble(each[i])) + std::abs(cdouble(each[n + i]))) / 2);
    most = std::max(most, std::abs(mean.back()));
  }
  EXPECT_LT(nrmse(image("  - angle_compounding\n"), mean), 1e-6);
  EXPECT_LT(nrmse(image("  - angle_compounding: {method: incoherent}\n"), envelope), 1e-6);
  std::vector<cdouble> decibels;
  for (const cdouble value : mean) decibels.emplace_back(std::max(0.0, 15 + 20 * std::log10(std::abs(value) / most)));
  EXPECT_LT(nrmse(image("  - angle_compounding\n  - log_compression: {range_db: 15}\n"), decibels), 1e-5);
}

TEST_P(UltrasoundTest, DecibelsKeepTheFirstImagesReference) {
  const std::vector<Shot> shots = random_shots({0}, true);
  Shot half = shots[0];
  for (auto& value : half.traces) value *= 0.5f;
  Shot silent = shots[0];
  for (auto& value : silent.traces) value = 0;
  const std::vector<Acquisition> scan{wave(silent, 0, true, 0), wave(shots[0], 0, true, 1), wave(half, 0, true, 2)};
  const Outcome out = run(chain("  - log_compression: {range_db: 100}\n"), header(image_header(1)), scan, here());
  ASSERT_EQ(out.images.size(), 3u);
  const auto nothing = pixels<cfloat>(out.images[0]), full = pixels<cfloat>(out.images[1]),
             less = pixels<cfloat>(out.images[2]);
  for (std::size_t i = 0; i < full.size(); ++i) {
    EXPECT_EQ(nothing[i], cfloat(0));
    ASSERT_GT(less[i].real(), 1);
    EXPECT_NEAR(full[i].real() - less[i].real(), 20 * std::log10(2), 1e-3);
  }
}

TEST(UltrasoundScanTest, RepeatedWavesAreAveragedAndMissingOnesCounted) {
  const std::vector<Shot> shots = random_shots({0, 5}, true);
  Shot tripled = shots[0];
  for (auto& value : tripled.traces) value *= 3.0f;
  const auto image = [&](const std::vector<Acquisition>& scan) {
    const Outcome out = run(chain(), header(image_header(2)), scan);
    EXPECT_EQ(out.images.size(), 1u);
    return out.images.at(0);
  };
  auto pair = [&](const Shot& shot) { return std::vector{wave(shot, 0, true), wave(shots[1], 1, true)}; };
  const auto once = pixels<cfloat>(image(pair(shots[0])));
  auto scan = std::vector{wave(shots[0], 0, true)};
  scan.push_back(wave(tripled, 0, true));
  scan.push_back(wave(shots[1], 1, true));
  for (auto& each : scan) each.head.idx.average = static_cast<std::uint16_t>(&each - scan.data());
  const auto averaged = pixels<cfloat>(image(scan));
  std::vector<cdouble> expected;
  for (std::size_t i = 0; i < once.size(); ++i)
    expected.push_back(cdouble(once[i]) * (i < once.size() / 2 ? 2.0 : 1.0));
  EXPECT_LT(nrmse(averaged, expected), 1e-6);
  const protocol::Image alone = image({wave(shots[1], 1, true)});
  const auto at = alone.attributes.find("missing_waves");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(alone.attributes.find("<value>1</value>", at), at + 60);
}

TEST(UltrasoundScanTest, ReadoutsThatDoNotSayHowTheyWereSampledAreRefused) {
  const std::vector<Shot> shots = random_shots({0, 5}, true);
  const auto refused = [&](const std::function<void(Acquisition&)>& spoil, int waves = 2) {
    std::vector<Acquisition> scan{wave(shots[0], 0, true), wave(shots[1], 1, true)};
    spoil(scan.back());
    return client_error([&] { run(chain(), header(image_header(waves)), scan); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(refused([](Acquisition&) {}), "(no ClientError)");
  EXPECT_TRUE(has(refused([](Acquisition& a) { a.head.user_float[2] = 0; }), "pitch"));
  EXPECT_TRUE(has(refused([](Acquisition& a) { a.head.user_float[3] = std::nanf(""); }), "speed of sound"));
  EXPECT_TRUE(has(refused([](Acquisition& a) { a.head.user_float[0] = 89; }), "steering angle"));
  EXPECT_TRUE(has(refused([](Acquisition& a) { a.head.user_float[4] = 3; }), "differently from others"));
  EXPECT_TRUE(has(refused([](Acquisition& a) { a.head.sample_time_us = 0; }), "sample_time_us"));
  const auto all = [&](const std::function<void(Acquisition&)>& spoil) {
    std::vector<Acquisition> scan{wave(shots[0], 0, true), wave(shots[1], 1, true)};
    for (auto& each : scan) spoil(each);
    return client_error([&] { run(chain(), header(image_header(2)), scan); });
  };
  EXPECT_TRUE(has(all([](Acquisition& a) { a.head.read_dir[0] = 0; }), "read_dir"));
  EXPECT_TRUE(has(all([](Acquisition& a) { a.head.user_float[4] = a.head.user_float[5] = 100; }), "(no ClientError)"));
  EXPECT_TRUE(has(all([](Acquisition& a) { a.head.user_float[4] = 900; }), "no frequency within the band"));
  HeaderSpec cartesian = image_header(2);
  cartesian.trajectory = "cartesian";
  EXPECT_TRUE(has(client_error([&] { run(chain(), header(cartesian), {}); }), "trajectory 'other'"));
  EXPECT_TRUE(has(client_error([&] { run(chain(), header(image_header(1025)), {}); }), "1025 waves"));
  HeaderSpec volume = image_header(2);
  volume.recon[2] = volume.encoded[2] = 2;
  EXPECT_TRUE(has(client_error([&] { run(chain(), header(volume), {}); }), "slices"));
}

}  // namespace
}  // namespace echotrain::testing
