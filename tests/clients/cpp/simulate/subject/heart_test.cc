// The beating heart: when it beats, what it looks like, and the scans of it.
#include "clients/cpp/simulate/subject/heart.h"

#include <gtest/gtest.h>

#include <cmath>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/cine_scanner.h"
#include "clients/cpp/simulate/subject/phantom.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

TEST(Heart, BeatsAtItsRateWithItsJitter) {
  Heart heart(75, 0.05, 3);
  EXPECT_EQ(heart.mean_interval_ms(), 800);
  constexpr int kBeats = 2000;
  double sum = 0, squares = 0, longest = 0;
  for (int i = 0; i < kBeats; ++i) {
    const double interval = heart.beat_ms(i + 1) - heart.beat_ms(i);
    sum += interval;
    squares += interval * interval;
    longest = std::max(longest, interval);
  }
  const double mean = sum / kBeats;
  EXPECT_NEAR(mean, 800, 5 * 40 / std::sqrt(kBeats));
  EXPECT_NEAR(std::sqrt(squares / kBeats - mean * mean), 40, 5 * 40 / std::sqrt(2.0 * kBeats));
  EXPECT_LE(longest, 800 * 1.15 + 1e-9);
  // The beats do not depend on what was asked before.
  EXPECT_EQ(Heart(75, 0.05, 3).beat_ms(1000), heart.beat_ms(1000));
  EXPECT_NE(Heart(75, 0.05, 4).beat_ms(1000), heart.beat_ms(1000));
}

TEST(Heart, APhaseIsTheShareOfItsInterval) {
  Heart heart(60, 0.1, 1);
  EXPECT_EQ(heart.beats_until(399.9), 0u);
  EXPECT_NEAR(heart.phase(150), 0.75, 1e-12);  // before the first beat, at 400
  for (const std::size_t beat : {0u, 1u, 7u}) {
    const double begin = heart.beat_ms(beat), end = heart.beat_ms(beat + 1);
    EXPECT_NEAR(heart.phase(begin), 0, 1e-12);
    EXPECT_NEAR(heart.phase(begin + 0.3 * (end - begin)), 0.3, 1e-9);
    EXPECT_EQ(heart.beats_until(begin), beat + 1);
  }
}

TEST(Heart, BeatsOfAFileAreThoseAndEarlyOnesAreWeak) {
  Heart heart({100, 1100, 2100, 2600, 4100, 5100}, 1, Systole::linear);
  EXPECT_EQ(heart.mean_interval_ms(), 1000);
  EXPECT_EQ(heart.beat_ms(3), 2600);
  EXPECT_EQ(heart.beat_ms(7), 7100);  // then regularly
  EXPECT_EQ(heart.phase(2850), 250 / 1500.0);
  EXPECT_EQ(heart.strength(50), 1);
  EXPECT_EQ(heart.strength(2599), 1);
  EXPECT_EQ(heart.strength(2600), 500 / 800.0);  // 500 ms after the one before
  EXPECT_EQ(heart.strength(4100), 1);
  EXPECT_EQ(Heart(60, 0.3, 1).strength(50000), 1);
}

TEST(Heart, SystoleFollowsTheRateByWeissler) {
  // 1000 ms: 60 a minute, 420 ms, 0.42 of the first interval. 600 ms: 100 a minute, 336 ms.
  Heart heart({0, 1000, 1600, 2600}, 1, Systole::weissler);
  EXPECT_NEAR(heart.phase(420), 0.42, 1e-12);
  EXPECT_NEAR(heart.phase(250), 0.25, 1e-12);
  EXPECT_NEAR(heart.phase(1000 + 336), 0.42, 1e-12);
  EXPECT_NEAR(heart.phase(1000 + 168), 0.21, 1e-12);
  EXPECT_NEAR(heart.phase(1000 + 336 + 132), 0.71, 1e-12);
}

TEST(Heart, TheEcgMarksEveryBeatOnceAndPeaksThere) {
  Heart heart(500, 0.03, 1);
  double time = 0;
  std::size_t marks = 0;
  std::vector<std::uint32_t> lead;
  for (const auto& message : heart.ecg(3000)) {
    EXPECT_EQ(message.head.time_stamp * kTickMs, time);
    ASSERT_EQ(+message.head.channels, 5);
    const int samples = message.head.number_of_samples;
    std::vector<std::uint32_t> values(5 * samples);
    message.data.copy_to(values.data());
    lead.insert(lead.end(), values.begin(), values.begin() + samples);
    for (int s = 0; s < samples; ++s) {
      if (values[4 * samples + s] == 0) continue;
      const double since = time + s - heart.beat_ms(marks++);
      EXPECT_GE(since, 0);
      EXPECT_LT(since, 1);
    }
    time += samples;
  }
  EXPECT_EQ(marks, heart.beats_until(time - 1));
  for (std::size_t i = 1; i + 1 < marks; ++i) {
    const auto near = lead.begin() + std::lround(heart.beat_ms(i));
    EXPECT_LE(std::abs(std::max_element(near - 50, near + 50) - near), 2);
  }
}

TEST(BeatingPhantom, TheMuscleKeepsItsAreaAndTheChamberShrinks) {
  // Counts pixels on the side of the heart's centre where only the left chamber, its muscle and the chest are.
  const auto areas = [](double phase) {
    const Phantom phantom = Phantom::beating(256, phase);
    std::pair<int, int> counts;  // chamber, chamber and muscle
    for (int y = -60; y <= 60; ++y)
      for (int x = 13; x <= 60; ++x) {
        const double value = phantom.value({x + 0.5, y + 0.5, 0});
        counts.first += value > 0.95;
        counts.second += value > 0.55;
      }
    return counts;
  };
  const auto [rest_chamber, rest_all] = areas(0.9);
  const auto [systole_chamber, systole_all] = areas(0.35);
  EXPECT_NEAR(systole_chamber / static_cast<double>(rest_chamber), 0.55 * 0.55, 0.03);
  EXPECT_NEAR(systole_all - systole_chamber, rest_all - rest_chamber, 0.02 * (rest_all - rest_chamber));
  EXPECT_EQ(Phantom::contraction(0), 0);
  EXPECT_EQ(Phantom::contraction(1.35), Phantom::contraction(0.35));
}

TEST(CineScan, PassesTheChecksOfAServer) {
  const TemporaryFolder folder;
  for (const std::string gating : {"prospective", "retrospective"}) {
    const auto file = (folder / gating).string();
    const auto made =
        command({"simulate", "-o",       file,       "--trajectory", "cartesian", "--motion",    "cardiac",
                 "--gating", gating,     "--matrix", "12",           "--coils",   "2",           "--slices",
                 "2",        "--phases", "5",        "--noise",      "1",         "--noise-scan"});
    ASSERT_EQ(made.code, 0) << made.err;
    const protocol::DatasetReader reader(file);
    const auto header = protocol::parse_header(reader.header_xml(), {});
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->encodings[0].phase->maximum, gating == "prospective" ? 4 : 0);
    protocol::AcquisitionCheck check(*header);
    std::uint32_t last = 0;
    for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
      const auto readout = reader.acquisition(i);
      EXPECT_FALSE(check.check(readout));
      if (i < 32) continue;  // noise
      EXPECT_GE(+readout.head.acquisition_time_stamp, last);
      last = readout.head.acquisition_time_stamp;
    }
    EXPECT_GE(reader.acquisitions(), 32u + 12 * 2 * 5);
    EXPECT_GT(reader.waveforms(), 0u);
  }
}

TEST(CineScan, OptionsThatDoNotGoTogether) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"simulate", "-o", (folder / "scan.h5").string(), "--motion", "cardiac"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = command(arguments);
    EXPECT_EQ(result.code, 2);
    return result.err;
  };
  EXPECT_NE(refused({"--trajectory", "stack_of_stars"}).find("golden_radial"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "radial", "--gating", "prospective"}).find("run on"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "radial", "--sweeps", "2"}).find("--frames"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "radial", "--truth-every", "9999"}).find("--truth-every"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "cartesian", "--truth-every", "2"}).find("--gating free"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "cartesian", "--acceleration", "2", "--calibration", "8", "--calibration-mode",
                     "separate"})
                .find("embedded or interleaved"),
            std::string::npos);
  EXPECT_NE(refused({"--trajectory", "cartesian", "--gating", "none"}).find("retrospective"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "cartesian", "--tr-ms", "100"}).find("do not fit into a beat"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "cartesian", "--sweeps", "2"}).find("--gating free"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "cartesian", "--systole", "short"}).find("weissler"), std::string::npos);
  EXPECT_NE(refused({"--trajectory", "cartesian", "--contrasts", "2"}).find("--contrasts"), std::string::npos);
}

}  // namespace
}  // namespace echotrain::client
