// Readouts gated by breathing in a chain: which are kept, from lines and from spokes, and what is refused.
#include <cmath>
#include <numbers>
#include <optional>
#include <set>

#include "gadgets/readouts/gating/day_clock.h"
#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

constexpr double kBreathMs = 4000, kBeatMs = 800, kReadoutMs = 20;

double depth_at(double ms) { return std::pow(std::sin(std::numbers::pi * ms / kBreathMs), 4); }

/// A readout of two coils at `ms`, all of whose samples are brighter or darker the deeper the breath is.
Acquisition breathing_readout(double ms, std::size_t samples = 8) {
  std::vector<cfloat> values(2 * samples, static_cast<float>(5 + depth_at(ms)));
  std::fill(values.begin() + static_cast<std::ptrdiff_t>(samples), values.end(),
            cfloat(0, static_cast<float>(3 - 0.5 * depth_at(ms))));
  Acquisition out = readout(2, values);
  out.head.center_sample = static_cast<std::uint16_t>(samples / 2);
  out.head.acquisition_time_stamp = static_cast<std::uint32_t>(ms / 2.5);
  out.head.physiology_time_stamp[0] = static_cast<std::uint32_t>(std::fmod(ms, kBeatMs) / 2.5);
  return out;
}

/// Lines in turn.
std::vector<Acquisition> breathing_lines(int lines, double until_ms) {
  std::vector<Acquisition> out;
  for (int n = 0; n * kReadoutMs < until_ms; ++n) {
    out.push_back(breathing_readout(n * kReadoutMs));
    out.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(n % lines);
  }
  return out;
}

protocol::Header breathing_header(int lines) {
  return header({.encoded = {8, lines, 1}, .limits = step_limit(lines) + limit("phase", 0, 0, 0)});
}

std::string gating(const std::string& parameters, const std::string& more = "") {
  return yaml(
      "  - cardiac_binning: {phases: 1, fill: none, beats: stamps, respiratory: navigator" + parameters + "}\n" + more,
      "frame: {until: last_in_repetition}\n");
}
const std::string kLines = "  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n";

struct Gated {
  std::vector<double> kept_ms;
  std::vector<std::pair<protocol::Level, std::string>> texts;
};

/// `ecg`: comes after the readouts.
Gated gate(const std::string& text, const protocol::Header& measurement, std::vector<Acquisition> readouts,
           const RunOptions& options, std::size_t batch = 100, std::optional<protocol::Waveform> ecg = {}) {
  Gated out;
  numerics::Context compute(options.backend, test_resources());
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
                    {[](protocol::Image&& /*image*/, const ImageTimes& /*times*/) {},
                     [&](protocol::Level level, const std::string& said) { out.texts.emplace_back(level, said); }});
  pipeline.tap("cardiac_binning", [&](const Item& item) {
    if (const auto* some = std::get_if<Readouts>(&item))
      for (const auto& head : some->heads) out.kept_ms.push_back(head.acquisition_time_stamp * 2.5);
  });
  pipeline.start(measurement);
  for (std::size_t begin = 0; begin < readouts.size(); begin += batch) {
    const auto first = readouts.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = readouts.begin() + static_cast<std::ptrdiff_t>(std::min(begin + batch, readouts.size()));
    pipeline.push(std::vector<Acquisition>(first, last));
  }
  if (ecg) pipeline.push(std::move(*ecg));
  pipeline.finish(End::complete);
  pipeline.wait();
  return out;
}

double mean_depth(const std::vector<double>& times) {
  double sum = 0;
  for (const double ms : times) sum += depth_at(ms);
  return sum / static_cast<double>(times.size());
}

using BreathingGateTest = OnEachBackend;

TEST_P(BreathingGateTest, TheHalfNearestToExpirationIsKeptHoweverReadoutsArrive) {
  const auto readouts = breathing_lines(4, 45000);  // the centre comes every 80 ms
  const Gated first = gate(gating("", kLines), breathing_header(4), readouts, here(), 1);
  const auto all = static_cast<double>(readouts.size());
  EXPECT_NEAR(static_cast<double>(first.kept_ms.size()) / all, 0.5, 0.06);
  EXPECT_LT(mean_depth(first.kept_ms), 0.08);  // of all: 0.375
  for (const std::size_t batch : {7u, 10000u})
    EXPECT_EQ(gate(gating("", kLines), breathing_header(4), readouts, here(), batch).kept_ms, first.kept_ms);
  const Gated deep =
      gate(gating(", navigator_from: 0.8, navigator_to: 1", kLines), breathing_header(4), readouts, here());
  EXPECT_GT(mean_depth(deep.kept_ms), 0.75);
  EXPECT_NEAR(static_cast<double>(deep.kept_ms.size()) / all, 0.2, 0.06);
}

TEST_P(BreathingGateTest, SpokesPassTheCentreWhereTheirTrajectoryDoes) {
  std::vector<Acquisition> readouts;
  for (int n = 0; n * kReadoutMs < 30000; ++n) {
    readouts.push_back(breathing_readout(n * kReadoutMs));
    Acquisition& spoke = readouts.back();
    std::vector<float> trajectory;
    for (int s = 0; s < 8; ++s)
      for (const double along : {std::cos(1.9 * n), std::sin(1.9 * n)})
        trajectory.push_back(static_cast<float>((s - 3) / 8.0 * along));
    spoke.head.trajectory_dimensions = 2;
    spoke.trajectory = protocol::Payload::take(std::move(trajectory));
    // Only the sample in the centre tells: the others would tell the opposite.
    std::vector<cfloat> values(16);
    for (std::size_t i = 0; i < 16; ++i)
      values[i] = static_cast<float>(i % 8 == 3 ? 5 + depth_at(n * kReadoutMs) : 9 - 4 * depth_at(n * kReadoutMs));
    spoke.data = protocol::Payload::take(std::move(values));
  }
  const auto measurement =
      header({.encoded = {8, 8, 1}, .trajectory = "radial", .limits = step_limit(8) + limit("phase", 0, 0, 0)});
  const Gated gated = gate(
      gating("",
             "  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - image: {component: complex}\n"),
      measurement, readouts, here());
  EXPECT_LT(mean_depth(gated.kept_ms), 0.08);
  EXPECT_NEAR(static_cast<double>(gated.kept_ms.size()) / 1500, 0.5, 0.08);
}

TEST_P(BreathingGateTest, AnEcgThatComesLastFindsTheBreathsStillKnown) {
  constexpr std::uint32_t kSampleMs = 10;
  const auto readouts = breathing_lines(4, 100000);  // 20 stretches
  protocol::Waveform ecg;
  ecg.head.version = 1;
  ecg.head.channels = 1;
  ecg.head.number_of_samples = 10100;
  ecg.head.sample_time_us = 1000 * kSampleMs;
  std::vector<std::uint32_t> marks(10100);
  for (std::size_t at = 40; at < marks.size(); at += 80) marks[at] = 1;
  ecg.data = protocol::Payload::take(std::move(marks));
  const std::string text =
      yaml("  - cardiac_binning: {phases: 1, fill: none, trigger_channel: 0, respiratory: navigator}\n" + kLines,
           "frame: {until: last_in_repetition}\n");
  const Gated gated = gate(text, breathing_header(4), readouts, here(), 100, ecg);
  EXPECT_NEAR(static_cast<double>(gated.kept_ms.size()) / static_cast<double>(readouts.size()), 0.5, 0.06);
  EXPECT_LT(mean_depth(gated.kept_ms), 0.08);
}

TEST_P(BreathingGateTest, MidnightChangesNothing) {
  const auto gated_from = [&](double begin_ms) {
    auto readouts = breathing_lines(4, 45000);
    for (auto& each : readouts) {
      const double ms = std::fmod(begin_ms + each.head.acquisition_time_stamp * 2.5, 86400e3);
      each.head.acquisition_time_stamp = static_cast<std::uint32_t>(ms / 2.5);
    }
    auto kept = gate(gating("", kLines), breathing_header(4), readouts, here()).kept_ms;
    for (double& ms : kept) ms = std::fmod(ms - begin_ms + 86400e3, 86400e3);
    return kept;
  };
  // Stretches of the day are 5 s, so that both scans are cut into the same ones.
  const auto by_day = gated_from(43200e3);
  EXPECT_GT(by_day.size(), 1000u);
  EXPECT_EQ(gated_from(86380e3), by_day);
}

TEST(DayClockTest, GoesOnAtMidnightForAllWhoBringStamps) {
  constexpr double kDayMs = 86400e3;
  const auto stamp = [](double ms) { return static_cast<std::uint32_t>(ms / 2.5); };
  DayClock clock(2.5);
  EXPECT_EQ(clock.ms(stamp(kDayMs - 100)), kDayMs - 100);
  EXPECT_EQ(clock.ms(stamp(50)), kDayMs + 50);
  EXPECT_EQ(clock.ms(stamp(kDayMs - 20)), kDayMs - 20);  // a waveform that comes late
  EXPECT_EQ(clock.ms(stamp(60)), kDayMs + 60);
  EXPECT_EQ(clock.ms(stamp(kDayMs - 10)), kDayMs - 10);
  DayClock noon(2.5);
  EXPECT_EQ(noon.ms(stamp(43200e3)), 43200e3);
  EXPECT_EQ(noon.ms(stamp(43000e3)), 43000e3);  // a jump back by minutes is none over midnight
}

TEST_P(BreathingGateTest, EachSliceTellsItsOwnBreath) {
  auto readouts = breathing_lines(4, 40000);
  for (std::size_t i = 0; i < readouts.size(); ++i) {
    if (i / 4 % 2 == 0) continue;
    // The other slice is far brighter, and darkens where the first one brightens.
    const double ms = readouts[i].head.acquisition_time_stamp * 2.5;
    readouts[i].head.idx.slice = 1;
    readouts[i].data = protocol::Payload::take(std::vector<cfloat>(16, static_cast<float>(90 - depth_at(ms))));
  }
  const auto measurement =
      header({.encoded = {8, 4, 1}, .limits = step_limit(4) + limit("phase", 0, 0, 0) + limit("slice", 0, 1, 0)});
  const Gated gated = gate(gating("", kLines), measurement, readouts, here());
  EXPECT_NEAR(static_cast<double>(gated.kept_ms.size()) / static_cast<double>(readouts.size()), 0.5, 0.06);
  EXPECT_LT(mean_depth(gated.kept_ms), 0.08);
}

TEST_P(BreathingGateTest, WhatCannotBeGatedIsRefused) {
  const auto error = [&](const std::string& parameters, const std::vector<Acquisition>& readouts) {
    return client_error([&] { gate(gating(parameters, kLines), breathing_header(4), readouts, here()); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  auto readouts = breathing_lines(4, 20000);
  for (auto& each : readouts) each.head.idx.kspace_encode_step_1 = 1;
  has(error("", readouts), "no readout passes the centre of k-space");
  has(error("", breathing_lines(4, 5000)), "spans less than the longest breath, 10 s");
  has(error("", breathing_lines(60, 20000)), "comes less often than every 1 s");
  has(error(", navigator_from: 0.5, navigator_to: 0.5", {}), "no breath lies between navigator_from 0.5");
  has(error(", navigator_low_hz: 0.6", {}), "has to lie below navigator_high_hz");
  has(error(", navigator_low_hz: 0.02, navigator_high_hz: 0.5", {}), "above a 20th of it");
  auto constant = breathing_lines(4, 20000);
  for (auto& each : constant) each.data = protocol::Payload::take(std::vector<cfloat>(16, cfloat(1, 2)));
  has(error("", constant), "does not change between navigator_low_hz (0.1) and navigator_high_hz (0.5) in any of 2");
}

TEST_P(BreathingGateTest, PartsThatCannotBeToldAreLeftOutWithAWarning) {
  auto readouts = breathing_lines(4, 30000);
  for (auto& late : breathing_lines(4, 3000)) {
    late.head.acquisition_time_stamp += 40000;  // 100 s later, for 3 s
    readouts.push_back(late);
  }
  const Gated gated = gate(gating("", kLines), breathing_header(4), readouts, here());
  EXPECT_FALSE(gated.kept_ms.empty());
  for (const double ms : gated.kept_ms) EXPECT_LT(ms, 30000);
  const auto warned = std::count_if(gated.texts.begin(), gated.texts.end(), [](const auto& each) {
    return each.first == protocol::Level::warning && each.second.find("breathing cannot be told in parts") == 17;
  });
  EXPECT_EQ(warned, 1);
}

ECHOTRAIN_ON_BACKENDS(BreathingGateTest);

}  // namespace
}  // namespace echotrain::testing
