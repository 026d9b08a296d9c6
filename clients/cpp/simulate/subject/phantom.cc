#include "clients/cpp/simulate/subject/phantom.h"

#include <math.h>  // j1() is POSIX, not in <cmath>'s std

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace echotrain::client {
namespace {

struct Row {
  double amplitude;
  Vec3 center;
  Vec3 half_axes;
  double degrees;
};

// x to the right, y to the front, both in units of half the field of view.
constexpr Row kHead2d[] = {
    {1.0, {0, 0, 0}, {0.69, 0.92, 0}, 0},        {-0.8, {0, -0.0184, 0}, {0.6624, 0.874, 0}, 0},
    {-0.2, {0.22, 0, 0}, {0.11, 0.31, 0}, -18},  {-0.2, {-0.22, 0, 0}, {0.16, 0.41, 0}, 18},
    {0.1, {0, 0.35, 0}, {0.21, 0.25, 0}, 0},     {0.1, {0, 0.1, 0}, {0.046, 0.046, 0}, 0},
    {0.1, {0, -0.1, 0}, {0.046, 0.046, 0}, 0},   {0.1, {-0.08, -0.605, 0}, {0.046, 0.023, 0}, 0},
    {0.1, {0, -0.606, 0}, {0.023, 0.023, 0}, 0}, {0.1, {0.06, -0.605, 0}, {0.023, 0.046, 0}, 0},
};

constexpr Row kHead3d[] = {
    {1.0, {0, 0, 0}, {0.69, 0.92, 0.9}, 0},
    {-0.4, {0, 0, 0}, {0.6624, 0.874, 0.88}, 0},
    {-0.1, {-0.22, 0, -0.25}, {0.41, 0.16, 0.21}, 108},
    {-0.1, {0.22, 0, -0.25}, {0.31, 0.11, 0.22}, 72},
    {0.1, {0, 0.35, -0.25}, {0.21, 0.25, 0.5}, 0},
    {0.1, {0, 0.1, -0.25}, {0.046, 0.046, 0.046}, 0},
    {0.05, {-0.08, -0.65, -0.25}, {0.046, 0.023, 0.02}, 0},
    {0.05, {0.06, -0.65, -0.25}, {0.046, 0.023, 0.02}, 90},
    {0.1, {0.06, -0.105, 0.625}, {0.056, 0.04, 0.1}, 90},
    {-0.1, {0, 0.1, 0.625}, {0.056, 0.056, 0.1}, 0},
};

// Decay of the parts' signals from one echo to the next: shell, brain, two ventricles, parts in the brain. No two parts
// that touch have the same brightness in any of the first echoes.
constexpr double kRates[] = {0.5, 0.4, 0.02, 0.02, 0.2, 0.3, 0.1, 0.1, 0.3, 0.05};

}  // namespace

void Phantom::add_ellipsoid(double amplitude, const Vec3& center, const Vec3& half_axes, double degrees,
                            const Vec3& pixels_per_unit) {
  Part part;
  part.amplitude = amplitude;
  // Rows of an image run downwards: y and the sense of rotation change sign.
  part.center = {center[0] * pixels_per_unit[0], -center[1] * pixels_per_unit[1], center[2] * pixels_per_unit[2]};
  for (std::size_t a = 0; a < 3; ++a) part.size[a] = half_axes[a] * pixels_per_unit[a];
  part.cosine = std::cos(-degrees * std::numbers::pi / 180);
  part.sine = std::sin(-degrees * std::numbers::pi / 180);
  parts_.push_back(part);
}

Phantom Phantom::shepp_logan(int dims, double matrix, double depth) {
  Phantom phantom(dims);
  const auto add = [&](const Row& row) {
    phantom.add_ellipsoid(row.amplitude, row.center, row.half_axes, row.degrees, {matrix / 2, matrix / 2, depth / 2});
  };
  if (dims == 2) {
    for (const Row& row : kHead2d) add(row);
  } else {
    for (const Row& row : kHead3d) add(row);
  }
  return phantom;
}

Phantom Phantom::echo(int n) const {
  // The brain lies in the shell, everything else in the brain.
  double shell = 0, brain = 0, shell_now = 0, brain_now = 0;
  Phantom result = *this;
  if (n == 0) return result;  // exactly the same bits
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const double around = i == 0 ? 0 : i == 1 ? shell : brain, around_now = i == 0 ? 0 : i == 1 ? shell_now : brain_now;
    const double signal = around + parts_[i].amplitude.real(), now = signal * std::exp(-n * kRates[i]);
    result.parts_[i].amplitude = now - around_now;
    if (i == 0) {
      shell = signal;
      shell_now = now;
    } else if (i == 1) {
      brain = signal;
      brain_now = now;
    }
  }
  return result;
}

Phantom Phantom::slice(double z) const {
  if (dims_ != 3) throw std::logic_error("only a 3D phantom has slices");
  Phantom result(2);
  for (Part part : parts_) {
    const double away = (z - part.center[2]) / part.size[2];
    part.center[2] = part.size[2] = 0;
    if (part.shape == Shape::gaussian) {
      part.amplitude *= std::exp(-away * away / 2);
    } else if (std::abs(away) < 1) {
      const double scale = std::sqrt(1 - away * away);
      part.size[0] *= scale;
      part.size[1] *= scale;
    } else {
      continue;
    }
    result.parts_.push_back(part);
  }
  return result;
}

double Phantom::contraction(double phase) {
  phase -= std::floor(phase);
  constexpr double kSystole = 0.35, kRest = 0.8;
  if (phase < kSystole) return 0.5 * (1 - std::cos(std::numbers::pi * phase / kSystole));
  return phase < kRest ? 0.5 * (1 + std::cos(std::numbers::pi * (phase - kSystole) / (kRest - kSystole))) : 0;
}

Phantom Phantom::beating(double matrix, double phase, double shift, double strength) {
  Phantom phantom(2);
  const auto add = [&](double amplitude, const Vec3& center, const Vec3& half_axes, double degrees) {
    phantom.add_ellipsoid(amplitude, center, half_axes, degrees, {matrix / 2, matrix / 2, 1});
  };
  const double inner = 0.2 * (1 - 0.45 * strength * contraction(phase));  // of the left chamber
  const double outer = std::sqrt(0.3 * 0.3 - 0.2 * 0.2 + inner * inner);
  const double right = 0.15 * (1 - 0.3 * strength * contraction(phase));
  add(0.5, {0, 0, 0}, {0.88, 0.7, 0}, 0);          // chest
  add(-0.4, {-0.58, 0.05, 0}, {0.2, 0.42, 0}, 8);  // lungs
  add(-0.4, {0.64, 0.05, 0}, {0.17, 0.38, 0}, -8);
  add(0.2, {0, -0.55, 0}, {0.1, 0.1, 0}, 0);  // spine
  add(0.1, {0.1, 0, 0}, {1.1 * outer, outer, 0}, 30);
  add(0.4, {0.1, 0, 0}, {1.1 * inner, inner, 0}, 30);
  add(0.4, {-0.15, 0.22, 0}, {right, 0.5 * right, 0}, 30);
  for (const std::size_t moved : {1, 2, 4, 5, 6}) phantom.parts_[moved].center[1] += shift;
  return phantom;
}

Phantom Phantom::blob(int dims, double sigma) {
  Phantom phantom(dims);
  Part part;
  part.shape = Shape::gaussian;
  part.size = {sigma, sigma, sigma};
  phantom.parts_.push_back(part);
  return phantom;
}

void Phantom::add_disc(cdouble signal, const Vec3& center, double radius, double blur) {
  Part part;
  part.amplitude = signal;
  part.center = center;
  part.size = {radius, radius, radius};
  part.blur = blur;
  parts_.push_back(part);
}

// The transform of a part at the origin: real, because every part is symmetric about its centre.
double Phantom::transform(const Part& part, const Vec3& k) const {
  const double u = part.size[0] * (part.cosine * k[0] + part.sine * k[1]);
  const double v = part.size[1] * (-part.sine * k[0] + part.cosine * k[1]);
  const double w = dims_ == 3 ? part.size[2] * k[2] : 0.0;
  const double square = u * u + v * v + w * w;
  const double volume = part.size[0] * part.size[1] * (dims_ == 3 ? part.size[2] : 1.0);
  if (part.shape == Shape::gaussian) {
    return volume * std::pow(2 * std::numbers::pi, dims_ / 2.0) *
           std::exp(-2 * std::numbers::pi * std::numbers::pi * square);
  }
  const double radius = std::sqrt(square);
  if (dims_ == 2) return volume * (radius < 1e-9 ? std::numbers::pi : ::j1(2 * std::numbers::pi * radius) / radius);
  // Below this radius the difference of sine and cosine loses digits; two terms of its series are exact to 1e-13 there.
  if (radius < 1e-3)
    return volume * 4 * std::numbers::pi / 3 * (1 - 0.4 * std::numbers::pi * std::numbers::pi * square);
  const double x = 2 * std::numbers::pi * radius;
  return volume * (std::sin(x) - x * std::cos(x)) / (2 * std::numbers::pi * std::numbers::pi * square * radius);
}

cdouble Phantom::kspace(const Vec3& k) const {
  cdouble sum = 0;
  for (const Part& part : parts_) {
    const double phase =
        -2 * std::numbers::pi * (k[0] * part.center[0] + k[1] * part.center[1] + k[2] * part.center[2]);
    const double edge = 2 * std::pow(std::numbers::pi * part.blur, 2) * (k[0] * k[0] + k[1] * k[1] + k[2] * k[2]);
    sum += part.amplitude * (transform(part, k) * std::exp(-edge)) * cdouble(std::cos(phase), std::sin(phase));
  }
  return sum;
}

double Phantom::value(const Vec3& r) const {
  double sum = 0;
  for (const Part& part : parts_) {
    const double x = r[0] - part.center[0], y = r[1] - part.center[1];
    const double u = (part.cosine * x + part.sine * y) / part.size[0];
    const double v = (-part.sine * x + part.cosine * y) / part.size[1];
    const double w = dims_ == 3 ? (r[2] - part.center[2]) / part.size[2] : 0.0;
    const double square = u * u + v * v + w * w;
    if (part.shape == Shape::gaussian) {
      sum += part.amplitude.real() * std::exp(-square / 2);
    } else if (square <= 1) {
      sum += part.amplitude.real();
    }
  }
  return sum;
}

}  // namespace echotrain::client
