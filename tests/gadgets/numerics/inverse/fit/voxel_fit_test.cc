// The fit of curves to voxels: signals without noise, noise against least squares in float64, and the statistics of
// values and their errors.
#include "gadgets/numerics/inverse/fit/voxel_fit.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "tests/support/backends.h"

namespace echotrain::numerics {
namespace {

using namespace testing;
using Curve = VoxelCurve::Shape;
using Value = VoxelCurve::Value;
constexpr double kForever = std::numeric_limits<double>::infinity();
const std::vector<double> kInversions = {50, 120, 250, 400, 600, 900, 1300, 1800, 2500, 3500, 5000};
const std::vector<double> kEchoes = {10, 20, 30, 45, 60, 80, 110, 150};

/// What a voxel would show without noise, in float64.
using Truth = std::function<cdouble(double at, double t)>;

struct Case {
  const char* name;
  VoxelFit fit;
  Truth truth;       // of amplitude 1
  double low, high;  // T
};

VoxelFit fit_of(Curve shape, Value value, bool offset, double least, double most, std::vector<double> at) {
  VoxelFit fit;
  fit.curve.shape = shape;
  fit.curve.value = value;
  fit.curve.offset = offset;
  fit.curve.least = least;
  fit.curve.most = most;
  fit.at = std::move(at);
  return fit;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  const auto decays = [](double at, double t) { return cdouble(std::exp(-at / t)); };
  out.push_back({"inversion of 3", fit_of(Curve::decay, Value::time, true, 20, 6000, kInversions),
                 [](double at, double t) { return cdouble(1 - 1.9 * std::exp(-at / t)); }, 100, 3000});
  out.push_back({"inversion of 2", fit_of(Curve::recovery, Value::time, false, 20, 6000, kInversions),
                 [](double at, double t) { return cdouble(1 - 2 * std::exp(-at / t) + std::exp(-8000 / t)); }, 100,
                 3000});
  out.back().fit.curve.period = 8000;
  // T1* = T1 / 1.4, so that offset and amplitude are in the ratio of a train of small flip angles.
  out.push_back({"Look-Locker", fit_of(Curve::decay, Value::look_locker, true, 20, 6000, kInversions),
                 [](double at, double t) { return cdouble((1 - 2.4 * std::exp(-at * 1.4 / t)) / 1.4); }, 100, 3000});
  std::vector<double> saturations = {100, 200, 350, 500, 700, 950, 1300, kForever, kForever};
  out.push_back({"saturation of 3", fit_of(Curve::decay, Value::time, true, 20, 6000, saturations),
                 [](double at, double t) { return cdouble(1 - 0.95 * std::exp(-at / t)); }, 100, 2500});
  out.push_back({"saturation of 2", fit_of(Curve::recovery, Value::time, false, 20, 6000, saturations),
                 [](double at, double t) { return cdouble(1 - std::exp(-at / t)); }, 100, 2500});
  out.back().fit.curve.prepared = 0;
  out.push_back({"echoes", fit_of(Curve::decay, Value::time, false, 2, 2000, kEchoes), decays, 10, 300});
  out.push_back(
      {"diffusion", fit_of(Curve::decay, Value::rate, false, 1, 1e6, {0, 200, 500, 800, 1200}), decays, 300, 5000});
  out.push_back({"double angle",
                 fit_of(Curve::sine, Value::time, false, 0.2, 2.5, {std::numbers::pi / 3, 2 * std::numbers::pi / 3}),
                 [](double at, double t) { return cdouble(std::sin(at * t)); }, 0.7, 1.4});
  out.push_back({"turning echoes", fit_of(Curve::decay, Value::time, false, 1, 500, {2.3, 4.6, 6.9, 9.2, 11.5, 13.8}),
                 decays, 5, 25});
  out.back().fit.curve.turning = true;
  return out;
}

double value_of(const Case& c, double t) { return c.fit.curve.value == Value::rate ? 1 / t : t; }
/// The cycles per unit of time by which a voxel turns.
double turns_of(const Case& c, std::int64_t voxel) {
  return c.fit.curve.turning ? 0.2 * std::sin(static_cast<double>(voxel)) : 0;  // within 0.5 / 2.3
}

/// T of voxels, evenly in ln T.
double t_of(const Case& c, std::int64_t voxel, std::int64_t voxels) {
  return c.low * std::pow(c.high / c.low, (static_cast<double>(voxel) + 0.5) / static_cast<double>(voxels));
}

/// Images [image, voxel] of complex amplitudes of size 1, with noise of this deviation in either part.
std::vector<cfloat> images_of(const Case& c, const std::vector<double>& t, double noise, unsigned seed) {
  Random random(seed);
  std::vector<cfloat> out;
  for (const double at : c.fit.at)
    for (std::size_t v = 0; v < t.size(); ++v) {
      const double turns = turns_of(c, static_cast<std::int64_t>(v));
      const cdouble phase =
          std::polar(1.0, 0.7 * static_cast<double>(v) + 2 * std::numbers::pi * (turns != 0 ? turns * at : 0));
      const cfloat n = noise > 0 ? random.normal() : cfloat{};
      out.emplace_back(cfloat(c.truth(at, t[v]) * phase) + static_cast<float>(noise) * n);
    }
  return out;
}

template <class B>
class VoxelFitTest : public OnBackend<B> {
 protected:
  std::vector<float> maps(const VoxelFit& fit, const std::vector<cfloat>& images, std::int64_t voxels) {
    const auto stack = this->upload(images, {static_cast<std::int64_t>(images.size()) / voxels, voxels});
    auto to = this->context().template allocate<float>({fit.curve.turning ? 4 : 2, voxels});
    fit_voxels(this->context(), fit, stack.cview(), to.view());
    return this->download(to);
  }
};
TYPED_TEST_SUITE(VoxelFitTest, Backends, BackendNames);

// Images of T that the fit is told nothing of. In float32, a curve's images tell T to some 1e-6 times their condition:
// the deviation of T at noise 1 over T, at most 40 here.
TYPED_TEST(VoxelFitTest, FindsTheCurvesOfSignalsWithoutNoise) {
  constexpr std::int64_t kVoxels = 203;  // no multiple of a vector
  for (Case c : cases()) {
    c.fit.noise = 1e-3;
    std::vector<double> t;
    for (std::int64_t v = 0; v < kVoxels; ++v) t.push_back(t_of(c, v, kVoxels));
    const std::vector<cfloat> images = images_of(c, t, 0, 1);
    for (const bool magnitude : {false, true}) {
      if (magnitude && c.fit.curve.turning) continue;
      c.fit.magnitude = magnitude;
      c.fit.polarity = magnitude && c.truth(c.fit.at.front(), c.high).real() < 0;
      const std::vector<float> got = this->maps(c.fit, images, kVoxels);
      for (std::int64_t v = 0; v < kVoxels; ++v) {
        const double truth = value_of(c, t[static_cast<std::size_t>(v)]);
        ASSERT_NEAR(got[static_cast<std::size_t>(v)], truth, 2e-4 * truth)
            << c.name << (magnitude ? " magnitude " : " ") << v;
        if (c.fit.curve.turning) {
          ASSERT_NEAR(got[static_cast<std::size_t>(2 * kVoxels + v)], turns_of(c, v), 1e-5) << v;
        }
      }
    }
  }
}

/// The residuals' sum of squares with the amplitudes projected out, in float64.
double residual(const Case& c, const std::vector<cdouble>& y, double t) {
  const VoxelCurve& curve = c.fit.curve;
  const auto n = static_cast<double>(y.size());
  std::vector<double> phi;
  for (const double at : c.fit.at)
    phi.push_back(curve.shape == Curve::decay ? std::exp(-at / t)
                  : curve.shape == Curve::sine
                      ? std::sin(at * t)
                      : 1 - (1 - curve.prepared) * std::exp(-at / t) -
                            (curve.period > 0 ? curve.prepared * std::exp(-curve.period / t) : 0));
  double mean = 0;
  cdouble middle = 0;
  if (curve.offset)
    for (std::size_t i = 0; i < y.size(); ++i) mean += phi[i] / n, middle += y[i] / n;
  double square = 0, all = 0;
  cdouble product = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    square += (phi[i] - mean) * (phi[i] - mean);
    product += (phi[i] - mean) * (y[i] - middle);
    all += std::norm(y[i] - middle);
  }
  return all - std::norm(product) / square;
}

/// The T of least squares: the best of a fine grid, and golden sections about it.
double best_t(const Case& c, const std::vector<cdouble>& y, double* least) {
  const int points = 300;
  const double first = std::log(c.fit.curve.least), step = std::log(c.fit.curve.most / c.fit.curve.least) / points;
  double best = first, found = residual(c, y, std::exp(first));
  for (int g = 1; g <= points; ++g)
    if (const double r = residual(c, y, std::exp(first + g * step)); r < found) found = r, best = first + g * step;
  double low = best - step, high = best + step;
  const double part = (std::sqrt(5.0) - 1) / 2;
  while (high - low > 1e-9) {
    const double a = high - part * (high - low), b = low + part * (high - low);
    (residual(c, y, std::exp(a)) < residual(c, y, std::exp(b)) ? high : low) =
        residual(c, y, std::exp(a)) < residual(c, y, std::exp(b)) ? b : a;
  }
  *least = found;
  return std::exp((low + high) / 2);
}

TYPED_TEST(VoxelFitTest, IsTheLeastSquaresFitOfFloat64) {
  constexpr std::int64_t kVoxels = 101;
  for (Case c : cases()) {
    if (c.fit.curve.turning || c.fit.curve.value == Value::look_locker || c.fit.at.size() < 3) continue;
    const double noise = 0.05;
    c.fit.noise = noise;
    std::vector<double> t;
    for (std::int64_t v = 0; v < kVoxels; ++v) t.push_back(t_of(c, v, kVoxels));
    const std::vector<cfloat> images = images_of(c, t, noise, 2);
    for (const bool magnitude : {false, true}) {
      c.fit.magnitude = magnitude;
      c.fit.polarity = magnitude && c.truth(c.fit.at.front(), c.high).real() < 0;
      const std::vector<float> got = this->maps(c.fit, images, kVoxels);
      int fitted = 0;
      for (std::size_t v = 0; v < kVoxels; ++v) {
        double best = 0, least = std::numeric_limits<double>::infinity();
        for (std::size_t flip = 0; flip < (c.fit.polarity ? c.fit.at.size() : 1); ++flip) {
          std::vector<cdouble> y;
          for (std::size_t i = 0; i < c.fit.at.size(); ++i) {
            const cdouble value(images[i * kVoxels + v]);
            y.push_back(magnitude ? cdouble(i < flip ? -std::abs(value) : std::abs(value)) : value);
          }
          double rest = 0;
          const double now = best_t(c, y, &rest);
          if (rest < least) least = rest, best = now;
        }
        if (got[v] == 0) continue;  // at a bound
        ++fitted;
        // Six steps leave 1 % of the deviation, where the noise is a twentieth of the signal.
        ASSERT_NEAR(got[v], value_of(c, best), 0.01 * got[kVoxels + v] + 1e-4 * got[v])
            << c.name << (magnitude ? " magnitude " : " ") << v;
      }
      EXPECT_GE(fitted, kVoxels * 9 / 10) << c.name;
    }
  }
}

struct Statistics {
  double bias = 0, deviation = 0, claimed = 0;  // over T's true deviation; pooled
  double fitted = 0, covered = 0;               // parts of the draws
  double draws = 0;
};

/// The values of `draws` voxels of one T in noise.
template <class Maps>
Statistics statistics(const Case& c, double t, double noise, std::int64_t draws, unsigned seed, const Maps& maps) {
  const std::vector<float> got =
      maps(c.fit, images_of(c, std::vector<double>(static_cast<std::size_t>(draws), t), noise, seed), draws);
  Statistics s;
  double sum = 0, squares = 0, variances = 0;
  for (std::size_t v = 0; v < static_cast<std::size_t>(draws); ++v) {
    if (got[v] == 0) continue;
    const double off = got[v] - value_of(c, t), claimed = got[static_cast<std::size_t>(draws) + v];
    s.draws += 1;
    sum += off;
    squares += off * off;
    variances += claimed * claimed;
    if (std::abs(off) < 1.959964 * claimed) s.covered += 1;
  }
  s.fitted = s.draws / static_cast<double>(draws);
  s.covered /= s.draws;
  const double mean = sum / s.draws;
  s.deviation = std::sqrt(squares / s.draws - mean * mean);
  s.bias = mean / s.deviation;
  s.claimed = std::sqrt(variances / s.draws) / s.deviation;
  return s;
}

// 20,000 draws tell a deviation to 0.5 %, and a mean to 0.7 % of it. The linearised error is good to 5 % where the
// noise is small against what T does to the signal: SNR 20 and more, T within the range that the times cover. Without
// the correction of the bias, that of T2* = 13 ms at SNR 20 is 0.13 of its deviation.
TYPED_TEST(VoxelFitTest, ErrorsAreThoseOfTheValues) {
  const std::int64_t draws = fewer<std::int64_t>(20000, 500);
  if (draws < 1000) GTEST_SKIP() << "a sanitizer leaves time for too few draws to tell a deviation";
  const auto maps = [&](const VoxelFit& fit, const std::vector<cfloat>& images, std::int64_t n) {
    return this->maps(fit, images, n);
  };
  for (Case c : cases()) {
    c.fit.unbiased = true;
    for (const bool known : {true, false}) {
      if (!known && c.fit.at.size() < 3) continue;
      for (const double snr : {20.0, 50.0}) {
        c.fit.noise = known ? 1 / snr : 0;
        for (const double part : {0.3, 0.6}) {
          const double t = c.low * std::pow(c.high / c.low, part);
          const Statistics s = statistics(c, t, 1 / snr, draws, 3, maps);
          const std::string where = fmt::format("{} T {} SNR {} {}", c.name, t, snr, known ? "" : "residuals");
          EXPECT_GE(s.fitted, 0.999) << where;
          EXPECT_NEAR(s.claimed, 1, 0.05) << where;
          EXPECT_LE(std::abs(s.bias), 0.05 + 3 / std::sqrt(s.draws)) << where;
          // 95 % of a normal distribution; of residuals with 3 and more degrees of freedom, Student's t covers 0.86.
          EXPECT_NEAR(s.covered, known ? 0.95 : 0.91, known ? 0.02 : 0.05) << where;
        }
      }
    }
  }
}

/// Images of one voxel each, [image, voxel].
std::vector<cfloat> side_by_side(const std::vector<std::vector<double>>& voxels) {
  std::vector<cfloat> out;
  for (std::size_t i = 0; i < voxels[0].size(); ++i)
    for (const auto& voxel : voxels) out.emplace_back(static_cast<float>(voxel[i]), 0.0F);
  return out;
}
std::vector<double> decay(const std::vector<double>& at, double t, double size = 1) {
  std::vector<double> out;
  for (const double a : at) out.push_back(size * std::exp(-a / t));
  return out;
}

TYPED_TEST(VoxelFitTest, VoxelsWithoutAValueAreZero) {
  VoxelFit fit = fit_of(Curve::decay, Value::time, false, 5, 500, kEchoes);
  fit.noise = 0.01;
  fit.threshold = 3;
  fit.most_error = 0.2;
  std::vector<double> broken = decay(kEchoes, 50);
  broken[3] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<float> got =
      this->maps(fit,
                 side_by_side({decay(kEchoes, 50), std::vector<double>(kEchoes.size(), 0.0), broken, decay(kEchoes, 2),
                               decay(kEchoes, 900), decay(kEchoes, 50, 0.02), decay(kEchoes, 50, 0.1)}),
                 7);
  EXPECT_NEAR(got[0], 50, 0.01);
  EXPECT_GT(got[7], 0);
  // No signal, NaN, T below and above the range, below the threshold (rms 0.012), an error of 0.22 T.
  for (const std::size_t v : {1, 2, 3, 4, 5, 6}) EXPECT_EQ(std::pair(got[v], got[7 + v]), std::pair(0.0F, 0.0F)) << v;
}

// Files of some scanners and simulators hold tiny numbers.
TYPED_TEST(VoxelFitTest, TheImagesUnitDoesNotMatter) {
  VoxelFit fit = fit_of(Curve::decay, Value::time, false, 5, 500, kEchoes);
  std::vector<float> errors;
  for (const double size : {1.0, 1e-15, 1e15}) {
    fit.noise = 0.02 * size;
    const std::vector<float> got = this->maps(fit, side_by_side({decay(kEchoes, 50, size)}), 1);
    EXPECT_NEAR(got[0], 50, 0.01) << size;
    errors.push_back(got[1]);
  }
  EXPECT_NEAR(errors[1], errors[0], 1e-3 * errors[0]);
  EXPECT_NEAR(errors[2], errors[0], 1e-3 * errors[0]);
}

TYPED_TEST(VoxelFitTest, TheThresholdIsInDeviationsOfTheNoise) {
  VoxelFit fit = fit_of(Curve::decay, Value::time, false, 5, 500, kEchoes);
  fit.noise = 0.01;
  double square = 0;
  for (const double value : decay(kEchoes, 50)) square += value * value;
  const double strength = std::sqrt(square / static_cast<double>(kEchoes.size())) / fit.noise;
  for (const double part : {0.99, 1.01}) {
    fit.threshold = part * strength;
    EXPECT_EQ(this->maps(fit, side_by_side({decay(kEchoes, 50)}), 1)[0] > 0, part < 1);
  }
}

// Magnitudes of noise have a mean of 1.25 deviations, which least squares take for signal.
TYPED_TEST(VoxelFitTest, MagnitudesInNoiseAreRices) {
  const std::int64_t draws = fewer<std::int64_t>(20000, 500);
  if (draws < 1000) GTEST_SKIP() << "a sanitizer leaves time for too few draws to tell a deviation";
  const std::vector<double> echoes = {10, 20, 30, 40, 60, 80, 100, 120};
  const auto decays = [](double at, double t) { return cdouble(std::exp(-at / t)); };
  Case c{"", fit_of(Curve::decay, Value::time, false, 2, 500, echoes), decays, 0, 0};
  c.fit.magnitude = c.fit.unbiased = true;
  const auto maps = [&](const VoxelFit& fit, const std::vector<cfloat>& images, std::int64_t n) {
    return this->maps(fit, images, n);
  };
  c.fit.noise = 0.05;
  EXPECT_GT(statistics(c, 25, 0.05, draws, 4, maps).bias, 0.5);  // the last four images are mostly noise
  c.fit.rician = true;
  for (const Value value : {Value::time, Value::rate})
    for (const double snr : {20.0, 50.0})
      for (const double t : {20.0, 40.0, 100.0}) {
        c.fit.curve.value = value;
        c.fit.noise = 1 / snr;
        const Statistics s = statistics(c, t, 1 / snr, draws, 5, maps);
        const std::string where = fmt::format("T {} SNR {}", t, snr);
        EXPECT_GE(s.fitted, 0.999) << where;
        // As ErrorsAreThoseOfTheValues. The correction of the bias leaves out that weights follow the noise.
        EXPECT_NEAR(s.claimed, 1, 0.05) << where;
        EXPECT_LE(std::abs(s.bias), 0.08 + 3 / std::sqrt(s.draws)) << where;
        EXPECT_NEAR(s.covered, 0.95, 0.02) << where;
      }
  // With a constant, which the curve reaches at the last echoes.
  Case constant{"", fit_of(Curve::decay, Value::time, true, 2, 500, echoes),
                [](double at, double t) { return cdouble(std::exp(-at / t) + 0.1); }, 0, 0};
  constant.fit.magnitude = constant.fit.rician = constant.fit.unbiased = true;
  constant.fit.noise = 0.02;
  const Statistics s = statistics(constant, 30, 0.02, draws, 6, maps);
  EXPECT_NEAR(s.claimed, 1, 0.05);
  EXPECT_LE(std::abs(s.bias), 0.08 + 3 / std::sqrt(s.draws));
}

// Two images of one place count as one of twice the weight, whose value is their mean.
TYPED_TEST(VoxelFitTest, WeightsCountImages) {
  VoxelFit two = fit_of(Curve::decay, Value::rate, false, 50, 1e5, {0, 800, 800, 400}), one = two;
  two.noise = one.noise = 0.01;
  one.at = {0, 800, 400};
  one.weights = {1, 2, 1};
  const std::vector<float> a = this->maps(two, side_by_side({{1, 0.5, 0.4, 0.65}}), 1),
                           b = this->maps(one, side_by_side({{1, 0.45, 0.65}}), 1);
  EXPECT_NEAR(a[0], b[0], 1e-5 * b[0]);
  EXPECT_NEAR(a[1], b[1], 1e-4 * b[1]);
}

TYPED_TEST(VoxelFitTest, RefusesWhatMakesNoCurve) {
  auto& context = this->context();
  const auto images = context.template zeros<cfloat>({8, 5});
  auto maps = context.template zeros<float>({2, 5});
  const VoxelFit good = fit_of(Curve::decay, Value::time, false, 2, 500, kEchoes);
  fit_voxels(context, good, images.cview(), maps.view());
  const auto refuses = [&](const auto& change) {
    VoxelFit fit = good;
    change(fit);
    EXPECT_THROW(fit_voxels(context, fit, images.cview(), maps.view()), std::invalid_argument);
  };
  refuses([](VoxelFit& f) { f.at.push_back(200); });  // more than there are
  refuses([](VoxelFit& f) {
    f.at = {10};
    f.magnitude = true;
  });
  refuses([](VoxelFit& f) { f.at[2] = -1; });
  refuses([](VoxelFit& f) { f.curve.least = 0; });
  refuses([](VoxelFit& f) { f.curve.most = f.curve.least; });
  refuses([](VoxelFit& f) { f.curve.turning = true; });  // four maps
  refuses([](VoxelFit& f) { f.curve.value = Value::look_locker; });
  refuses([](VoxelFit& f) { f.polarity = true; });
  refuses([](VoxelFit& f) { f.rician = f.magnitude = true; });
  refuses([](VoxelFit& f) { f.weights = {1, 2}; });
}

}  // namespace
}  // namespace echotrain::numerics
