// The centre of k-space in a chain: what readouts are told of breath and drift, what is kept, and what is refused.
#include "gadgets/readouts/k0_navigator.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "gadgets/numerics/core/heap_account.h"
#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

using std::numbers::pi;
constexpr double kBreathMs = 4000, kReadoutMs = 20, kTickMs = 2.5;
constexpr std::size_t kPoints = 8;

double depth_at(double ms) { return std::pow(std::sin(pi * ms / kBreathMs), 4); }

/// Returns the samples of two coils at `ms`: brighter or darker the deeper the breath is, all turned by `phase`.
std::vector<cfloat> breathing_samples(double ms, double phase) {
  const auto turned = [phase](cdouble value) { return cfloat(value * std::polar(1.0, phase)); };
  std::vector<cfloat> values(2 * kPoints, turned(5 + depth_at(ms)));
  std::fill(values.begin() + kPoints, values.end(), turned({0, 3 - 0.5 * depth_at(ms)}));
  return values;
}

Acquisition at(double ms, std::vector<cfloat> values) {
  Acquisition out = readout(2, values);
  out.head.center_sample = kPoints / 2;
  out.head.acquisition_time_stamp = static_cast<std::uint32_t>(ms / kTickMs);
  return out;
}

/// Golden spokes through the centre; `phase` of the time [ms].
std::vector<Acquisition> spokes(double until_ms, const std::function<double(double)>& phase = nullptr) {
  std::vector<Acquisition> out;
  for (int n = 0; n * kReadoutMs < until_ms; ++n) {
    const double ms = n * kReadoutMs, angle = pi * (std::sqrt(5.0) - 1) / 2 * n;
    out.push_back(at(ms, breathing_samples(ms, phase ? phase(ms) : 0)));
    std::vector<float> k;
    for (int s = 0; s < static_cast<int>(kPoints); ++s)
      for (const double along : {std::cos(angle), std::sin(angle)})
        k.push_back(static_cast<float>((s - 4) / 8.0 * along));
    out.back().head.trajectory_dimensions = 2;
    out.back().trajectory = protocol::Payload::take(std::move(k));
  }
  return out;
}

protocol::Header radial_header() {
  return header({.encoded = {8, 8, 1}, .trajectory = "radial", .limits = limit("repetition", 0, 0, 0)});
}

const std::string kRadial =
    "  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - image: {component: complex}\n";
const std::string kLines = "  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n";

std::string navigated(const std::string& parameters, const std::string& after = kRadial,
                      const std::string& keys = "frame: {until: last_in_repetition}\n") {
  return yaml("  - k0_navigator: {" + parameters + "}\n" + after, keys);
}

struct Told {
  std::vector<double> ms, position, signal, drift;
  std::vector<cfloat> first_samples;  // of coil 0
  Outcome outcome;
};

/// Returns the side items that left the gadget.
Told tell(const std::string& text, const protocol::Header& measurement, const std::vector<Acquisition>& scan,
          std::size_t batch = 100, std::size_t slot = 5, RunOptions options = {}) {
  Told told;
  options.tap = "k0_navigator";
  options.split = [batch](std::size_t) { return batch; };
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto* some = std::get_if<Readouts>(&item);
    if (some == nullptr || some->kind != protocol::ReadoutKind::imaging || some->heads.empty()) return;
    const auto data = compute.download<cfloat>(some->data.view());
    for (std::size_t i = 0; i < some->heads.size(); ++i) {
      const auto& head = some->heads[i];
      told.ms.push_back(head.acquisition_time_stamp * kTickMs);
      told.position.push_back(head.user_float[slot]);
      told.signal.push_back(head.user_float[slot + 1]);
      told.drift.push_back(head.user_float[slot + 2]);
      told.first_samples.push_back(data.data()[static_cast<std::int64_t>(i) * data.size() / data.shape()[0]]);
    }
  };
  told.outcome = run(text, measurement, scan, options);
  return told;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double sa = 0, sb = 0, aa = 0, bb = 0, ab = 0;
  const auto n = static_cast<double>(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    sa += a[i];
    sb += b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
    ab += a[i] * b[i];
  }
  return (ab - sa * sb / n) / std::sqrt((aa - sa * sa / n) * (bb - sb * sb / n));
}

std::vector<double> depths(const std::vector<double>& ms) {
  std::vector<double> out;
  for (const double t : ms) out.push_back(depth_at(t));
  return out;
}

using K0NavigatorTest = OnEachBackend;

TEST_P(K0NavigatorTest, EveryReadoutIsToldItsBreathHoweverTheScanIsCut) {
  const auto scan = spokes(45000);
  const Told told = tell(navigated("drift: none"), radial_header(), scan, 100, 5, here());
  ASSERT_EQ(told.ms.size(), scan.size());  // none is left out
  // sin^4 is cos at 0.25 Hz with amplitude 1/2 and at 0.5 Hz, where the band ends, with 1/8: if nothing of the latter
  // passed, the correlation would be 0.970. Bins of 100 ms take less than 1 %.
  EXPECT_GT(correlation(told.signal, depths(told.ms)), 0.96);
  for (const double position : told.position) {
    EXPECT_GT(position, 0);
    EXPECT_LE(position, 1);
  }
  for (const std::size_t batch : {1u, 7u, 5000u}) {
    const Told again = tell(navigated("drift: none"), radial_header(), scan, batch, 5, here());
    EXPECT_EQ(again.ms, told.ms);
    EXPECT_EQ(again.position, told.position);
    EXPECT_EQ(again.signal, told.signal);
  }
}

TEST_P(K0NavigatorTest, DriftIsToldAndTakenOut) {
  // 0.12 rad/s is 4 Hz a second at TE 5 ms: it turns round twice in 100 s.
  const auto phase = [](double ms) { return 0.12 * ms / 1000; };
  const auto scan = spokes(45000, phase);
  const Told told = tell(navigated("breathing: false, drift: remove"), radial_header(), scan, 100, 5, here());
  ASSERT_EQ(told.ms.size(), scan.size());
  // Bins of 476 ms hold 23 or 24 readouts: their mean time is off by up to half a readout, 10 ms, which is 0.0012 rad,
  // of the first bin too, which all phases count from. The fit averages what is left.
  const double first = phase((476.2 - 20) / 2);
  for (std::size_t i = 0; i < told.ms.size(); ++i) {
    EXPECT_NEAR(told.drift[i], phase(told.ms[i]) - first, 3e-3) << told.ms[i];
    EXPECT_NEAR(std::arg(told.first_samples[i]), first, 3e-3) << told.ms[i];
  }
  const Told measured = tell(navigated("breathing: false"), radial_header(), scan, 100, 5, here());
  EXPECT_EQ(measured.drift, told.drift);
  for (std::size_t i = 0; i < measured.ms.size(); ++i)
    EXPECT_NEAR(std::remainder(std::arg(measured.first_samples[i]) - phase(measured.ms[i]), 2 * pi), 0, 1e-5);
  for (const std::size_t batch : {1u, 7u, 5000u}) {
    const Told again = tell(navigated("breathing: false, drift: remove"), radial_header(), scan, batch, 5, here());
    EXPECT_EQ(again.drift, told.drift);
    EXPECT_EQ(again.first_samples, told.first_samples);
  }
  EXPECT_NE(told.outcome.images.at(0).attributes.find("k0_drift"), std::string::npos);
}

TEST_P(K0NavigatorTest, OnlyTheWantedBreathEntersTheImage) {
  const auto scan = spokes(45000);
  const Told told = tell(navigated("navigator_to: 0.4"), radial_header(), scan, 100, 5, here());
  const auto all = static_cast<double>(scan.size());
  EXPECT_NEAR(static_cast<double>(told.ms.size()) / all, 0.4, 0.06);
  double mean = 0;
  for (const double depth : depths(told.ms)) mean += depth / static_cast<double>(told.ms.size());
  EXPECT_LT(mean, 0.08);  // of all: 0.375
  ASSERT_EQ(told.outcome.images.size(), 1u);
  EXPECT_NE(told.outcome.images[0].attributes.find(std::to_string(scan.size() - told.ms.size())), std::string::npos);
  for (const std::size_t batch : {1u, 7u, 5000u})
    EXPECT_EQ(tell(navigated("navigator_to: 0.4"), radial_header(), scan, batch, 5, here()).ms, told.ms);
  // The image is that of the kept readouts alone.
  std::vector<Acquisition> kept;
  for (const auto& each : scan)
    if (std::find(told.ms.begin(), told.ms.end(), each.head.acquisition_time_stamp * kTickMs) != told.ms.end())
      kept.push_back(each);
  const Outcome alone = run(yaml(kRadial, "frame: {until: last_in_repetition}\n"), radial_header(), kept, here());
  ASSERT_EQ(alone.images.size(), 1u);
  const auto image = pixels<cfloat>(told.outcome.images[0]), truth = pixels<cfloat>(alone.images[0]);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    error += std::norm(cdouble(image[i]) - cdouble(truth[i]));
    power += std::norm(cdouble(truth[i]));
  }
  EXPECT_LE(error, 1e-10 * power);  // gridded as they come: 1e-5
}

TEST_P(K0NavigatorTest, NavigatorReadoutsTellOfLinesThatDoNotPassTheCentre) {
  const auto phase = [](double ms) { return 0.02 * ms / 1000; };
  std::vector<Acquisition> scan;
  for (int n = 0; n * kReadoutMs < 40000; ++n) {
    const double ms = n * kReadoutMs;
    if (n % 4 == 0) {
      Acquisition navigator = at(ms, breathing_samples(ms, phase(ms)));
      set_flag(navigator, kNavigator);
      scan.push_back(std::move(navigator));
    } else {
      scan.push_back(at(ms, std::vector<cfloat>(2 * kPoints, cfloat(std::polar(1.0, phase(ms))))));
      scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(n % 4);
    }
  }
  const auto measurement =
      header({.encoded = {8, 4, 1}, .limits = step_limit(4) + limit("phase", 0, 0, 0) + limit("repetition", 0, 0, 0)});
  const Told told =
      tell(navigated("centre: navigators, drift: remove, slot: 0", kLines), measurement, scan, 100, 0, here());
  EXPECT_GT(correlation(told.signal, depths(told.ms)), 0.96);
  // Six navigators in a bin: their mean time is off by up to 40 ms.
  for (std::size_t i = 0; i < told.ms.size(); ++i)
    EXPECT_NEAR(std::arg(told.first_samples[i]), phase(200), 3e-3) << told.ms[i];
}

ECHOTRAIN_ON_BACKENDS(K0NavigatorTest);

TEST(K0Navigator, BreathingIsNotTakenForDrift) {
  // Breathing turns the phase by 0.3 rad. A line fitted to 10 s leaves of a cosine of 0.25 Hz and 0.15 rad at most
  // 1 / (pi 0.25 10) = 0.127 in the middle of the scan, 0.019 rad, and four times as much, its slope included, at ends.
  const auto phase = [](double ms) { return 0.3 * depth_at(ms); };
  const Told told = tell(navigated("breathing: false"), radial_header(), spokes(60000, phase));
  double low = 10, high = -10;
  for (std::size_t i = 0; i < told.ms.size(); ++i) {
    if (told.ms[i] < 6000 || told.ms[i] > 54000) continue;
    low = std::min(low, told.drift[i]);
    high = std::max(high, told.drift[i]);
  }
  EXPECT_LT(high - low, 2 * 0.022);
}

TEST(K0Navigator, ReadoutsLeaveBeforeTheScanEnds) {
  // 10 to 15 s of breathing, half of 10 s and a bin of drift.
  for (const auto& [parameters, within_ms] : {std::pair{"drift: none", 15000.0}, {"breathing: false", 5500.0}}) {
    double now_ms = 0, longest = 0;
    numerics::Context compute(Backend::cpu, test_resources());
    Pipeline pipeline(PipelinePlan::check(config::read_pipeline(navigated(parameters), "test.yaml")), compute,
                      {[](protocol::Image&&, const ImageTimes&) {}, [](protocol::Level, const std::string&) {}});
    pipeline.tap("k0_navigator", [&](const Item& item) {
      const auto* some = std::get_if<Readouts>(&item);
      if (some == nullptr) return;
      for (const auto& head : some->heads) longest = std::max(longest, now_ms - head.acquisition_time_stamp * kTickMs);
    });
    pipeline.start(radial_header());
    for (const Acquisition& each : spokes(60000)) {
      now_ms = each.head.acquisition_time_stamp * kTickMs;
      pipeline.push({each});
    }
    EXPECT_GT(longest, within_ms / 2) << parameters;
    EXPECT_LE(longest, within_ms + kReadoutMs) << parameters;
    pipeline.finish(End::complete);
    pipeline.wait();
  }
}

TEST(K0Navigator, BatchesLongerThanWhatIsKeptOfDriftsAreTold) {
  // A batch of the whole scan, 45 s, is judged at once: 45 windows of 1 s. Bins of 48 ms hold two or three readouts,
  // whose mean time is off by half a readout, 0.0012 rad.
  const auto phase = [](double ms) { return 0.12 * ms / 1000; };
  const auto scan = spokes(45000, phase);
  const auto parameters = navigated("breathing: false, drift: remove, drift_s: 1");
  const Told told = tell(parameters, radial_header(), scan, 5000);
  ASSERT_EQ(told.ms.size(), scan.size());
  for (std::size_t i = 0; i < told.ms.size(); ++i)
    EXPECT_NEAR(told.drift[i] - told.drift[0], phase(told.ms[i]), 3e-3) << told.ms[i];
  EXPECT_EQ(tell(parameters, radial_header(), scan, 7).drift, told.drift);
}

TEST(K0Navigator, DriftCountsFromTheFirstCentreWithASignal) {
  // The first second is dark, as of readouts before the first pulse.
  const auto phase = [](double ms) { return 0.12 * ms / 1000; };
  auto scan = spokes(30000, phase);
  for (std::size_t i = 0; i < 50; ++i) scan[i].data = protocol::Payload::take(std::vector<cfloat>(2 * kPoints));
  const Told told = tell(navigated("breathing: false"), radial_header(), scan);
  ASSERT_EQ(told.ms.size(), scan.size());
  for (std::size_t i = 60; i < told.ms.size(); ++i)
    EXPECT_NEAR(told.drift[i] - told.drift[60], phase(told.ms[i]) - phase(told.ms[60]), 3e-3) << told.ms[i];
  for (auto& each : scan) each.data = protocol::Payload::take(std::vector<cfloat>(2 * kPoints));
  const Told dark = tell(navigated("breathing: false"), radial_header(), scan);
  EXPECT_EQ(dark.outcome.said(protocol::Level::warning, "drift is not told"), 1);
}

TEST(K0Navigator, StampsThatBeginAnewGoOn) {
  // Sorted by repetition, with stamps since each one's start; or by slice.
  const auto first = spokes(60000);
  auto scan = first;
  for (auto each : first) scan.push_back(std::move(each));
  const Told told = tell(navigated(""), radial_header(), scan);
  ASSERT_EQ(told.ms.size(), scan.size());
  EXPECT_EQ(told.outcome.said(protocol::Level::warning, "acquisition_time_stamp goes back"), 1);
  // Without a breath across the seam, both halves are told by themselves, as they are of a scan of their own.
  const Told alone = tell(navigated(""), radial_header(), first);
  const std::size_t half = first.size();
  const auto part = [&](const std::vector<double>& of, std::size_t from) {
    return std::vector<double>(of.begin() + static_cast<std::ptrdiff_t>(from),
                               of.begin() + static_cast<std::ptrdiff_t>(from + half));
  };
  EXPECT_EQ(part(told.position, 0), alone.position);
  EXPECT_GT(correlation(part(told.signal, half), depths(alone.ms)), 0.95);
  for (const double position : told.position) EXPECT_GT(position, 0);
}

TEST(K0Navigator, CalibrationIsLookedAtOnlyWhereItsDriftIsRemoved) {
  // Calibration of a slice of its own, whose centres nobody follows.
  auto scan = spokes(20000);
  for (std::size_t i = 500; i < 510; ++i) {
    set_flag(scan[i], kCalibration);
    scan[i].head.idx.slice = 3;
  }
  const auto warned = [&](const std::string& drift) {
    return tell(navigated("breathing: false, drift: " + drift), radial_header(), scan)
        .outcome.said(protocol::Level::warning, "drift is not told");
  };
  EXPECT_EQ(warned("measure"), 0);
  EXPECT_EQ(warned("remove"), 1);
}

TEST(K0Navigator, WhatIsKeptOfBreathsIsPaidFor) {
  // Without imaging readouts nothing is judged, and every step of 100 ms is kept: a double of each coil.
  constexpr int kCoils = 16, kSteps = 4000;
  numerics::Context compute(Backend::cpu, test_resources());
  Pipeline pipeline(
      PipelinePlan::check(config::read_pipeline(navigated("centre: navigators, tick_ms: 100"), "test.yaml")), compute,
      {[](protocol::Image&&, const ImageTimes&) {}, [](protocol::Level, const std::string&) {}});
  numerics::HeapAccount allocated(compute.account());
  if (!numerics::HeapAccount::counts()) GTEST_SKIP() << "a sanitizer's own operator new counts nothing";
  const numerics::HeapScope scope(&allocated);
  pipeline.start(radial_header());
  const std::uint64_t before = compute.account()->used();
  for (int n = 0; n < kSteps; ++n) {
    Acquisition navigator = readout(kCoils, std::vector<cfloat>(2 * kCoils, cfloat(1)));
    navigator.head.acquisition_time_stamp = static_cast<std::uint32_t>(n);
    set_flag(navigator, kNavigator);
    pipeline.push({navigator});
  }
  EXPECT_GE(compute.account()->used() - before, kSteps * kCoils * sizeof(double));
  pipeline.finish(End::complete);
  pipeline.wait();
}

TEST(K0Navigator, FramesWithoutTheWantedBreathGiveNoImage) {
  const Told told =
      tell(navigated("navigator_to: 0.2", kRadial, "frame: {readouts: 20}\n"), radial_header(), spokes(40000));
  EXPECT_GT(told.outcome.images.size(), 10u);
  EXPECT_LT(told.outcome.images.size(), 60u);  // of 100
  EXPECT_EQ(told.outcome.said(protocol::Level::warning, "no readout was acquired in the wanted breath"), 1);
}

TEST(K0Navigator, HeartPhasesTakeTheAttachedRange) {
  auto scan = spokes(45000);
  for (auto& each : scan)
    each.head.physiology_time_stamp[0] =
        static_cast<std::uint32_t>(std::fmod(each.head.acquisition_time_stamp * kTickMs, 800) / kTickMs);
  const auto binned = [&](const std::string& before, const std::string& respiratory) {
    std::vector<double> kept;
    RunOptions options;
    options.tap = "cardiac_binning";
    options.on_item = [&](const Item& item, numerics::Context&) {
      if (const auto* some = std::get_if<Readouts>(&item))
        for (const auto& head : some->heads) kept.push_back(head.acquisition_time_stamp * kTickMs);
    };
    run(yaml(before + "  - cardiac_binning: {phases: 1, fill: none, beats: stamps, navigator_to: 0.4, respiratory: " +
                 respiratory + "}\n" + kRadial,
             "frame: {until: last_in_repetition}\n"),
        radial_header(), scan, options);
    return kept;
  };
  const auto attached = binned("  - k0_navigator: {slot: 2}\n", "attached, respiratory_slot: 2");
  EXPECT_GT(attached.size(), 500u);
  EXPECT_EQ(attached, binned("", "navigator"));
  EXPECT_NE(client_error([&] { binned("", "attached"); }).find("user_float[5] of a readout is 0"), std::string::npos);
}

TEST(K0Navigator, WhatCannotBeFollowedIsRefusedOrSaid) {
  const auto error = [](const std::string& text, const std::vector<Acquisition>& scan) {
    return client_error([&] { tell(text, radial_header(), scan); });
  };
  const auto has = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const auto mistake = [](const std::string& parameters) -> std::string {
    try {
      PipelinePlan::check(config::read_pipeline(navigated(parameters), "test.yaml"));
      return "(no ConfigError)";
    } catch (const config::ConfigError& wrong) {
      return wrong.what();
    }
  };
  has(mistake("navigator_from: 0.5, navigator_to: 0.5"), "no breath lies between navigator_from 0.5");
  has(mistake("navigator_low_hz: 0.6"), "has to lie below navigator_high_hz");
  has(mistake("breathing: false, navigator_to: 0.5"), "but breathing is false");
  has(mistake("breathing: false, drift: none"), "breathing is false and drift is none");
  has(error(navigated("", kRadial, "frame: {readouts: 20, stride: 10}\n"), spokes(1000)), "sliding windows");
  auto still = spokes(100000);
  for (auto& each : still) each.head.acquisition_time_stamp = 7;
  has(error(navigated(""), still), "acquisition_time_stamp is 7 in 4096 readouts");
  has(error(navigated("navigator_to: 0.5"), spokes(5000)), "spans less than the longest breath, 10 s");
  // Without a range to keep, the scan goes on.
  const Told short_scan = tell(navigated(""), radial_header(), spokes(5000));
  EXPECT_EQ(short_scan.outcome.images.size(), 1u);
  EXPECT_EQ(short_scan.position, std::vector<double>(250, -1));
  EXPECT_EQ(short_scan.outcome.said(protocol::Level::warning, "whose readouts get position -1"), 1);
  auto away = spokes(20000);
  for (auto& each : away) {
    std::vector<float> k(2 * kPoints, 0.25F);
    for (std::size_t s = 0; s < kPoints; ++s) k[2 * s] = 0.1F + 0.01F * static_cast<float>(s);
    each.trajectory = protocol::Payload::take(std::move(k));
  }
  const Told centreless = tell(navigated("drift: remove"), radial_header(), away);
  EXPECT_EQ(centreless.outcome.said(protocol::Level::warning, "drift is not told"), 1);
  EXPECT_EQ(centreless.outcome.said(protocol::Level::warning, "no readout passes the centre of k-space"), 2);
  auto theirs = spokes(12000);
  theirs[3].head.user_float[6] = 1;
  EXPECT_EQ(tell(navigated(""), radial_header(), theirs).outcome.said(protocol::Level::warning, "of their own"), 1);
}

}  // namespace
}  // namespace echotrain::testing
