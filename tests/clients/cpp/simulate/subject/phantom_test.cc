// Analytic k-space against the image-domain definition of the same object, integrated numerically in float64.
#include "clients/cpp/simulate/subject/phantom.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "clients/cpp/simulate/subject/coils.h"

namespace echotrain::client {
namespace {

// Midpoint sum of value(r) exp(-2 pi i k.r) over a square or cube of half width `half`, `n` cells per axis.
template <class Value>
cdouble integral(int dims, double half, int n, const Vec3& k, const Value& value) {
  const double step = 2 * half / n;
  cdouble sum = 0;
  for (int z = 0; z < (dims == 3 ? n : 1); ++z) {
    for (int y = 0; y < n; ++y) {
      for (int x = 0; x < n; ++x) {
        const Vec3 r = {-half + (x + 0.5) * step, -half + (y + 0.5) * step, dims == 3 ? -half + (z + 0.5) * step : 0.0};
        sum += value(r) * std::polar(1.0, -2 * std::numbers::pi * (k[0] * r[0] + k[1] * r[1] + k[2] * r[2]));
      }
    }
  }
  return sum * std::pow(step, dims);
}

TEST(Phantom, SheppLogan2dKspaceIsTheIntegralOfTheImage) {
  const double matrix = 32;
  const Phantom phantom = Phantom::shepp_logan(2, matrix);
  const double area = std::abs(phantom.kspace({}));
  for (const Vec3& k :
       {Vec3{0, 0, 0}, Vec3{0.03, -0.02, 0}, Vec3{-0.11, 0.07, 0}, Vec3{0.2, 0.23, 0}, Vec3{-0.45, 0.4, 0}}) {
    const cdouble sum = integral(2, matrix / 2, 1600, k, [&](const Vec3& r) { return phantom.value(r); });
    // Cells cut by an edge: error of the order of (rim length x step)^(1/2) x step, 1e-4 of the area here.
    EXPECT_NEAR(std::abs(sum - phantom.kspace(k)), 0, 3e-4 * area) << k[0] << ' ' << k[1];
  }
}

TEST(Phantom, SheppLogan3dKspaceIsTheIntegralOfTheImage) {
  const double matrix = 16;
  const Phantom phantom = Phantom::shepp_logan(3, matrix);
  const double volume = std::abs(phantom.kspace({}));
  for (const Vec3& k : {Vec3{0, 0, 0}, Vec3{0.05, 0.1, -0.07}, Vec3{-0.3, 0.1, 0.2}}) {
    const cdouble sum = integral(3, matrix / 2, 200, k, [&](const Vec3& r) { return phantom.value(r); });
    EXPECT_NEAR(std::abs(sum - phantom.kspace(k)), 0, 1e-3 * volume);
  }
}

TEST(Phantom, AFlatterImageHoldsTheSameHead) {
  // A third of the depth: z and the volume shrink, kz grows.
  const Phantom cube = Phantom::shepp_logan(3, 24), flat = Phantom::shepp_logan(3, 24, 8);
  for (const Vec3& k : {Vec3{0, 0, 0}, Vec3{0.05, 0.1, -0.07}, Vec3{-0.3, 0.1, 0.2}}) {
    const cdouble same = flat.kspace({k[0], k[1], 3 * k[2]}) * 3.0;
    EXPECT_NEAR(std::abs(same - cube.kspace(k)), 0, 1e-9 * std::abs(cube.kspace({})));
  }
  for (const Vec3& r : {Vec3{0, 0, 0}, Vec3{2, -3, 2.1}, Vec3{0.6, 1.2, 7.5}, Vec3{-7, 2, -9}}) {
    EXPECT_EQ(flat.value({r[0], r[1], r[2] / 3}), cube.value(r));
  }
}

TEST(CoilSet, AFlatterImageHasTheSameCoils) {
  const CoilSet cube(5, 3, 24), flat(5, 3, 24, 8);
  for (int c = 0; c < 5; ++c) {
    for (const Vec3& r : {Vec3{0, 0, 0}, Vec3{5, -3, 6}, Vec3{-9, 2, -11}}) {
      EXPECT_NEAR(std::abs(flat.profile(c, {r[0], r[1], r[2] / 3}) - cube.profile(c, r)), 0, 1e-12);
    }
  }
}

TEST(Phantom, EchoesDecayTissueByTissue) {
  // Points in the shell, in the brain and in a ventricle, with rates of 0.5, 0.4 and 0.02 per echo.
  const Phantom flat = Phantom::shepp_logan(2, 200), solid = Phantom::shepp_logan(3, 200);
  for (const int n : {0, 1, 2, 5}) {
    const Phantom flat_echo = flat.echo(n), solid_echo = solid.echo(n);
    const Vec3 shell = {0, 90.5, 0}, brain = {0, 60, 0}, ventricle = {-22, 5, 0}, deep = {-22, 0, -25};
    EXPECT_NEAR(flat_echo.value(shell), std::exp(-0.5 * n), 1e-12);
    EXPECT_NEAR(flat_echo.value({0, 40, 0}), 0.2 * std::exp(-0.4 * n), 1e-12);
    EXPECT_NEAR(flat_echo.value(ventricle), 0, 1e-12);
    EXPECT_NEAR(solid_echo.value(shell), std::exp(-0.5 * n), 1e-12);
    EXPECT_NEAR(solid_echo.value(brain), 0.6 * std::exp(-0.4 * n), 1e-12);
    EXPECT_NEAR(solid_echo.value(deep), 0.5 * std::exp(-0.02 * n), 1e-12);
    EXPECT_EQ(solid_echo.value({95, 0, 0}), 0);
    // Anatomy, and so its symmetry, does not change; nor does the object turn negative.
    for (double y = -99; y < 100; y += 7) {
      for (double x = -99; x < 100; x += 7) {
        EXPECT_GE(solid_echo.value({x, y, -25}), -1e-12);
        EXPECT_GE(flat_echo.value({x, y, 0}), -1e-12);
      }
    }
  }
  EXPECT_EQ(solid.echo(0).kspace({0.01, 0.02, 0.03}), solid.kspace({0.01, 0.02, 0.03}));
  EXPECT_NEAR(Phantom::blob(2, 3).echo(2).value({}), std::exp(-1.0), 1e-12);
}

TEST(Phantom, AnEchosKspaceIsTheIntegralOfItsImage) {
  const Phantom phantom = Phantom::shepp_logan(3, 16).echo(2);
  const double volume = std::abs(phantom.kspace({}));
  for (const Vec3& k : {Vec3{0, 0, 0}, Vec3{0.05, 0.1, -0.07}}) {
    const cdouble sum = integral(3, 8, 200, k, [&](const Vec3& r) { return phantom.value(r); });
    // As for the phantom itself; the integral of a less massive object has the same error at its edges.
    EXPECT_NEAR(std::abs(sum - phantom.kspace(k)), 0, 3e-3 * volume);
  }
}

TEST(Phantom, BlobKspaceIsTheIntegralOfTheImage) {
  for (const int dims : {2, 3}) {
    const Phantom phantom = Phantom::blob(dims, 2);
    for (const Vec3& k : {Vec3{0, 0, 0}, Vec3{0.05, 0.03, dims == 3 ? 0.04 : 0.0}}) {
      // The midpoint rule is exact to rounding for a Gaussian; eight sigmas are all of it.
      const cdouble sum = integral(dims, 16, 64, k, [&](const Vec3& r) { return phantom.value(r); });
      EXPECT_NEAR(std::abs(sum - phantom.kspace(k)), 0, 1e-9 * std::abs(phantom.kspace({})));
    }
  }
}

TEST(Phantom, DcIsTheAreaOfTheEllipses) {
  // Sum of amplitude x pi x a x b over Toft's table, in units of half the matrix.
  const double rows[10][3] = {{1, 0.69, 0.92},     {-0.8, 0.6624, 0.874}, {-0.2, 0.11, 0.31},  {-0.2, 0.16, 0.41},
                              {0.1, 0.21, 0.25},   {0.1, 0.046, 0.046},   {0.1, 0.046, 0.046}, {0.1, 0.046, 0.023},
                              {0.1, 0.023, 0.023}, {0.1, 0.023, 0.046}};
  double area = 0;
  for (const auto& row : rows) area += row[0] * std::numbers::pi * row[1] * row[2];
  const cdouble dc = Phantom::shepp_logan(2, 64).kspace({});
  EXPECT_NEAR(dc.real(), area * 32 * 32, 1e-9 * dc.real());
  EXPECT_EQ(dc.imag(), 0);
  EXPECT_NEAR(Phantom::blob(2, 3).kspace({}).real(), 2 * std::numbers::pi * 9, 1e-9);
}

TEST(Phantom, SmallAndLargeRadiusFormulasMeet) {
  // Either side of the radius at which the 3D ellipsoid changes to its series: half axis 7.36 pixels along y.
  const Phantom phantom = Phantom::shepp_logan(3, 16);
  const double dc = phantom.kspace({}).real();
  for (const double k : {1e-5, 5e-5, 1e-4, 1.3e-4, 1.4e-4, 2e-4, 1e-3}) {
    EXPECT_NEAR(phantom.kspace({0, k, 0}).real(), dc, dc * 400 * k * k + 1e-9 * dc) << k;
  }
}

TEST(Phantom, KspaceOfARealObjectIsHermitian) {
  const Phantom phantom = Phantom::shepp_logan(2, 64);
  const Vec3 k = {0.123, -0.21, 0};
  EXPECT_NEAR(std::abs(phantom.kspace(k) - std::conj(phantom.kspace({-k[0], -k[1], 0}))), 0, 1e-9);
  EXPECT_GT(std::abs(phantom.kspace(k).imag()), 1e-3);  // the head is not symmetric: the test would see a lost sign
}

TEST(Phantom, HeadStandsUpright) {
  const Phantom phantom = Phantom::shepp_logan(2, 64);
  // The three small ellipses are at the back of the head, which is at large y: rows run downwards.
  EXPECT_NEAR(phantom.value({-0.08 * 32, 0.605 * 32, 0}), 0.3, 1e-12);
  EXPECT_NEAR(phantom.value({-0.08 * 32, -0.605 * 32, 0}), 0.2, 1e-12);
}

TEST(Phantom, VentriclesLeanOutwardsToTheFront) {
  // The left one is turned by 18 degrees: 0.36 of half the matrix along its long axis is inside, mirrored it is not.
  const Phantom phantom = Phantom::shepp_logan(2, 200);
  EXPECT_NEAR(phantom.value({(-0.22 - 0.111) * 100, -0.342 * 100, 0}), 0, 1e-12);
  EXPECT_NEAR(phantom.value({(-0.22 + 0.111) * 100, -0.342 * 100, 0}), 0.3, 1e-12);
  // In 3D the long axis is x, turned by 108 degrees.
  const Phantom solid = Phantom::shepp_logan(3, 200);
  EXPECT_NEAR(solid.value({(-0.22 - 0.111) * 100, -0.342 * 100, -25}), 0.5, 1e-12);
  EXPECT_NEAR(solid.value({(-0.22 + 0.111) * 100, -0.342 * 100, -25}), 0.7, 1e-12);
}

TEST(CoilSet, KspaceIsTheIntegralOfProfileTimesObject) {
  const double matrix = 32;
  const Phantom phantom = Phantom::blob(2, 3);
  const CoilSet coils(5, 2, matrix);
  std::vector<cdouble> signal(5);
  for (const Vec3& k : {Vec3{0, 0, 0}, Vec3{0.04, -0.03, 0}}) {
    coils.kspace(phantom, k, signal);
    for (int c = 0; c < 5; ++c) {
      const cdouble sum = integral(2, 24, 96, k, [&](const Vec3& r) { return coils.profile(c, r) * phantom.value(r); });
      EXPECT_NEAR(std::abs(sum - signal[c]), 0, 1e-9 * std::abs(phantom.kspace({})));
    }
  }
}

TEST(CoilSet, ProfilesAreFewExponentialsAndDiffer) {
  for (const int dims : {2, 3}) {
    const CoilSet coils(8, dims, 64);
    double power = 0;
    for (int c = 0; c < 8; ++c) {
      int used = 0;
      for (std::size_t j = 0; j < coils.frequencies().size(); ++j) used += std::abs(coils.weight(c, j)) > 0 ? 1 : 0;
      EXPECT_LE(used, 4);
      power += std::norm(coils.profile(c, {}));
      for (int other = 0; other < c; ++other) {
        const Vec3 corner = {20, -10, dims == 3 ? 15.0 : 0.0};
        EXPECT_GT(std::abs(coils.profile(c, corner) - coils.profile(other, corner)), 1e-3);
      }
      for (const double x : {-32.0, 0.0, 32.0}) EXPECT_LE(std::abs(coils.profile(c, {x, 0.5 * x, 0})), 1.0);
    }
    EXPECT_NEAR(power, 1, 1e-12);
  }
  EXPECT_EQ(CoilSet(1, 2, 64).profile(0, {13, -7, 0}), cdouble(1));
}

TEST(NoiseSource, HasTheCovarianceOfItsMix) {
  const int coils = 3;
  const std::size_t samples = 200000;
  NoiseSource noise(7, 2.0, coils, true);
  std::vector<std::complex<float>> data(coils * samples);
  noise.add(data);
  for (int a = 0; a < coils; ++a) {
    for (int b = 0; b < coils; ++b) {
      cdouble measured = 0;
      for (std::size_t s = 0; s < samples; ++s)
        measured += cdouble(data[a * samples + s]) * std::conj(cdouble(data[b * samples + s]));
      double expected = 0;
      for (int j = 0; j < coils; ++j) expected += 2 * noise.mix()[a * coils + j] * noise.mix()[b * coils + j];
      // Five standard errors of a product of variances of about 8: 5 x 10 / sqrt(200000).
      EXPECT_NEAR(std::abs(measured / static_cast<double>(samples) - expected), 0, 0.12) << a << ' ' << b;
    }
  }
}

TEST(NoiseSource, GeneratorIsTheStandardsOwn) {
  // The C++ standard fixes the 10000th value of a default std::mt19937_64; our normals follow from its output alone.
  std::mt19937_64 generator;
  generator.discard(9999);
  EXPECT_EQ(generator(), 9981545732273789042ull);
  NoiseSource noise(42, 1, 1, false);
  std::mt19937_64 same(42);
  const double u = (static_cast<double>(same() >> 11) + 1) * 0x1p-53, v = static_cast<double>(same() >> 11) * 0x1p-53;
  EXPECT_DOUBLE_EQ(noise.normal(), std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  EXPECT_DOUBLE_EQ(noise.normal(), std::sqrt(-2 * std::log(u)) * std::sin(2 * std::numbers::pi * v));
}

}  // namespace
}  // namespace echotrain::client
