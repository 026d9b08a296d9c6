// Echoes against the geometry: when they come, and what RF and IQ have in common.
#include "clients/cpp/simulate/ultrasound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace echotrain::client {
namespace {

UltrasoundOptions small_array() {
  UltrasoundOptions u;
  u.elements = 16;
  u.depth_mm = 20;
  return u;
}

TEST(UltrasoundTest, AnEchoComesAfterItsWay) {
  for (const double angle_deg : {0.0, 9.0, -14.0}) {
    UltrasoundOptions u = small_array();
    u.iq = true;
    const Scatterer point{0.7, 11, 2};
    const auto data = echoes(u, {point}, angle_deg);
    const std::size_t samples = data.size() / 16;
    const double angle = angle_deg * std::numbers::pi / 180;
    for (const std::size_t e : {0u, 9u, 15u}) {
      std::size_t largest = 0;
      for (std::size_t n = 0; n < samples; ++n)
        if (std::abs(data[e * samples + n]) > std::abs(data[e * samples + largest])) largest = n;
      const double back = std::hypot(0.7 - (static_cast<double>(e) - 7.5) * 0.15, 11.0);
      const double way = 11 * std::cos(angle) + 0.7 * std::sin(angle) + back;
      EXPECT_NEAR(first_sample_us(u) + static_cast<double>(largest) / 20, way / 1.54, 0.026);
      EXPECT_NEAR(std::abs(data[e * samples + largest]), 2 / std::sqrt(back), 0.05);
    }
  }
}

TEST(UltrasoundTest, IqIsTheAnalyticSignalOfRf) {
  UltrasoundOptions u = small_array();
  const std::vector<Scatterer> phantom{{-0.5, 9, 1}, {0.3, 14, -0.6}};
  const auto rf = echoes(u, phantom, 5);
  u.iq = true;
  const auto iq = echoes(u, phantom, 5);
  ASSERT_EQ(rf.size(), iq.size());
  const std::size_t samples = rf.size() / 16;
  double power = 0;
  for (std::size_t i = 0; i < rf.size(); ++i) {
    const double time = first_sample_us(u) + static_cast<double>(i % samples) / 20;
    const auto signal = std::complex<double>(iq[i]) * std::polar(1.0, 2 * std::numbers::pi * 5 * time);
    EXPECT_NEAR(rf[i].real(), signal.real(), 1e-5);
    EXPECT_EQ(rf[i].imag(), 0);
    power += std::norm(rf[i]);
  }
  EXPECT_GT(power, 0.1);
}

TEST(UltrasoundTest, PhantomsAndAnglesAreInsideTheImage) {
  SimulateOptions o;
  o.ultrasound = small_array();
  for (const std::string phantom : {"points", "speckle"}) {
    o.phantom = phantom;
    const auto scattering = scatterers(o);
    EXPECT_GE(scattering.size(), 4u);
    for (const Scatterer& s : scattering) {
      EXPECT_LE(std::abs(s.x), 1.2);
      EXPECT_GE(s.z, 4);
      EXPECT_LE(s.z, 20);
      EXPECT_GT(std::hypot(s.x, s.z - 12), phantom == "speckle" ? 0.3 : 0);
    }
  }
  o.ultrasound.angles = 5;
  EXPECT_EQ(wave_angles(o.ultrasound), (std::vector<double>{-10, -5, 0, 5, 10}));
  o.ultrasound.angles = 1;
  EXPECT_EQ(wave_angles(o.ultrasound), std::vector<double>{0});
}

}  // namespace
}  // namespace echotrain::client
