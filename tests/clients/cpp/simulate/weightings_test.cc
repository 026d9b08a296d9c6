// Signals of mapping scans against their formulas, and the Bloch equations against steady states and rotations of three
// axes that are known.
#include "clients/cpp/simulate/weightings.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/simulate/subject/bloch.h"

namespace echotrain::client {
namespace {

SimulateOptions options_of(const std::string& method, const std::string& times = "") {
  SimulateOptions o;
  o.mapping.method = method;
  o.mapping.times = times;
  o.mapping.vials = 5;
  return o;
}

// The steady state of balanced pulses midway between them (Freeman & Hill, J Magn Reson 4:366, 1971).
TEST(Bloch, BalancedPulsesReachTheirSteadyState) {
  for (const auto& [t1, t2, degrees] : {std::array{300.0, 40.0, 35.0}, std::array{100.0, 90.0, 60.0}}) {
    const double tr = 2.7, a = degrees * std::numbers::pi / 180, e1 = std::exp(-tr / t1), e2 = std::exp(-tr / t2);
    const double right = std::sin(a) * (1 - e1) / (1 - (e1 - e2) * std::cos(a) - e1 * e2) * std::sqrt(e2);
    Magnetization m(t1, t2);
    const BalancedReadout readout{.tr_ms = tr, .flip_radians = a, .pulses = 20000};
    EXPECT_NEAR(readout.play(m), right, 1e-12);
  }
}

// Three components, turned about an axis in the transverse plane by Rodrigues' formula; the pulses' axis alternates.
struct Vector {
  std::array<double, 3> m{0, 0, 1};
  void turn(double radians, double phase) {
    const std::array<double, 3> n{std::cos(phase), std::sin(phase), 0};
    const double c = std::cos(radians), s = std::sin(radians), dot = n[0] * m[0] + n[1] * m[1];
    const std::array<double, 3> cross{n[1] * m[2], -n[0] * m[2], n[0] * m[1] - n[1] * m[0]};
    for (std::size_t a = 0; a < 3; ++a) m[a] = m[a] * c + cross[a] * s + n[a] * dot * (1 - c);
  }
  void relax(double ms, double t1, double t2) {
    for (std::size_t a = 0; a < 2; ++a) m[a] *= std::exp(-ms / t2);
    m[2] = 1 - (1 - m[2]) * std::exp(-ms / t1);
  }
};

// The whole sequence event by event on a clock, in three components.
TEST(Bloch, MolliIsTheSequencePlayedByTheClock) {
  SimulateOptions o = options_of("molli");
  o.heart_rate = 75;
  o.mapping.scheme = "3(2)2";
  o.mapping.efficiency = 0.95;
  const Weightings molli = weightings_of(o);
  ASSERT_EQ(molli.signals.size(), 5u);
  EXPECT_EQ(molli.sequence,
            "<TI>100</TI><TI>900</TI><TI>1700</TI><TI>180</TI><TI>980</TI><flipAngle_deg>35</flipAngle_deg>");
  const double beat = 800, tr = 2.7, flip = 35 * std::numbers::pi / 180;
  const std::array<double, 5> at{1000, 1000 + beat, 1000 + 2 * beat, 1000 + 5 * beat, 1000 + 6 * beat};
  const std::array<double, 2> inversions{900, 1000 + 5 * beat - 180};
  for (std::size_t vial = 0; vial < 5; ++vial) {
    const Tissue tissue = tissues(5)[vial];
    Vector v;
    double clock = 0;
    const auto until = [&](double ms) {
      v.relax(ms - clock, tissue.t1_ms, tissue.t2_ms);
      clock = ms;
    };
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (i == 0 || i == 3) {
        until(inversions[i / 3]);
        v.m = {0, 0, -0.95 * v.m[2]};
      }
      until(at[i] - 31 * tr);  // half a flip, 30 whole ones, half an interval
      v.turn(-flip / 2, 0.3);
      for (int p = 0; p < 60; ++p) {
        until(at[i] - 30.5 * tr + p * tr);
        v.turn(flip, p % 2 == 0 ? 0.3 : 0.3 + std::numbers::pi);
        if (p != 30) continue;
        until(at[i]);
        const double size = std::hypot(v.m[0], v.m[1]);
        EXPECT_NEAR(std::abs(molli.signals[i][vial]), size, 1e-12);
        // Turned about an axis at 0.3 rad, what lay along z points at right angles to it.
        const double along = v.m[0] * std::sin(0.3) - v.m[1] * std::cos(0.3);
        EXPECT_NEAR(molli.signals[i][vial].real(), along, 1e-12) << i;
      }
      until(at[i] + 29.5 * tr);
      v.m[0] = v.m[1] = 0;
    }
  }
}

TEST(Weightings, SignalsAreTheFormulas) {
  const Tissue t = tissues(5)[3];
  const auto signal = [&](const std::string& method, const std::string& times, std::size_t image,
                          double efficiency = 1) {
    SimulateOptions o = options_of(method, times);
    o.mapping.efficiency = efficiency;
    return weightings_of(o).signals.at(image).at(3);
  };
  EXPECT_NEAR(signal("inversion_recovery", "100,700", 1, 0.9).real(), 1 - 1.9 * std::exp(-700 / t.t1_ms), 1e-15);
  EXPECT_EQ(signal("saturation", "0,200", 0, 0.9), cdouble(1));
  EXPECT_NEAR(signal("saturation", "0,200", 1, 0.9).real(), 1 - 0.9 * std::exp(-200 / t.t1_ms), 1e-15);
  EXPECT_NEAR(signal("t2prep", "0,25", 1).real(), std::exp(-25 / t.t2_ms), 1e-15);
  EXPECT_NEAR(signal("spin_echo", "10,25", 1).real(), std::exp(-25 / t.t2_ms), 1e-15);
  const cdouble echo = signal("multi_echo", "2,7", 1);
  EXPECT_NEAR(std::abs(echo), std::exp(-7 / t.t2star_ms), 1e-15);
  EXPECT_NEAR(std::arg(echo), 2 * std::numbers::pi * t.b0_hz * 7e-3, 1e-12);  // grows with time where B0 is above 0
  EXPECT_NEAR(signal("double_angle", "60,120", 1).real(), std::sin(t.b1 * 2 * std::numbers::pi / 3), 1e-15);
  EXPECT_NEAR(signal("diffusion", "0,800", 3).real(), std::exp(-800 * t.adc_mm2_per_s), 1e-15);
  EXPECT_NEAR(signal("psir", "300", 0).real(), 1 - 2 * std::exp(-300 / t.t1_ms), 1e-15);
  EXPECT_EQ(signal("psir", "300", 1), cdouble(0.25));
}

TEST(Weightings, HeadersSayTheTimes) {
  EXPECT_EQ(weightings_of(options_of("spin_echo", "10,20.5")).sequence, "<TE>10</TE><TE>20.5</TE>");
  EXPECT_TRUE(weightings_of(options_of("spin_echo")).echoes);
  EXPECT_FALSE(weightings_of(options_of("saturation")).echoes);
  EXPECT_EQ(weightings_of(options_of("t2prep", "25")).user,
            "  <userParameters><userParameterDouble><name>t2prep_ms</name><value>25</value></userParameterDouble>"
            "</userParameters>\n");
  const Weightings diffusion = weightings_of(options_of("diffusion", "0,500"));
  EXPECT_EQ(diffusion.signals.size(), 4u);
  EXPECT_NE(diffusion.sequence.find("<diffusionDimension>set</diffusionDimension><diffusion><gradientDirection><rl>0"),
            std::string::npos);
}

TEST(Weightings, WhatIsNoScanIsRefused) {
  for (const auto& [method, times] : {std::pair("t1", ""), std::pair("molli", "100"), std::pair("t2prep", "10,-3"),
                                      std::pair("t2prep", "10,a"), std::pair("t2prep", "10,,20")})
    EXPECT_THROW(weightings_of(options_of(method, times)), UsageError) << method << ' ' << times;
  for (const char* scheme : {"", "5(", "5(3", "5(3)", "0(3)3", "5()3", "5(3)x", "(3)5"}) {
    SimulateOptions o = options_of("molli");
    o.mapping.scheme = scheme;
    EXPECT_THROW(weightings_of(o), UsageError) << scheme;
  }
  SimulateOptions fast = options_of("molli");
  fast.heart_rate = 200;
  EXPECT_THROW(weightings_of(fast), UsageError);
}

}  // namespace
}  // namespace echotrain::client
