// A torso with a closed form, and closed-form motion: the truth of registration. Nothing here interpolates.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

namespace echotrain::testing {

struct Displacement {
  double x = 0, y = 0;  ///< voxels
};
/// u(p): the tissue at p of the reference is at p + u(p) of the moving image.
using MotionField = std::function<Displacement(double x, double y)>;

/// A body of 0.6, with lungs, a heart, a liver with vessels, a stomach, and vessels of the lungs. Extents are in voxels
/// of an image of 192 x 160; edges are 1.2 voxels wide.
class MovingTorso {
 public:
  static constexpr std::int64_t kNy = 192, kNx = 160;

  static double inside(double x, double y, double cx, double cy, double rx, double ry) {
    const double r = std::hypot((x - cx) / rx, (y - cy) / ry);
    return 0.5 * (1 - std::tanh((r - 1) * std::min(rx, ry) / 0.6));
  }
  static double body(double x, double y) { return inside(x, y, 80, 96, 70, 88); }
  static double liver(double x, double y) { return inside(x, y, 58, 142, 34, 30); }
  static double blood(double x, double y) { return inside(x, y, 88, 88, 9, 13); }

  static double intensity(double x, double y) {
    double v = 0.6 * body(x, y) + 0.35 * (body(x, y) - inside(x, y, 80, 96, 64, 82));
    v -= 0.5 * (inside(x, y, 45, 80, 22, 42) + inside(x, y, 118, 80, 20, 44));
    v += 0.5 * inside(x, y, 88, 88, 18, 22) - 0.35 * inside(x, y, 88, 88, 11, 15) + 0.25 * blood(x, y);
    v += 0.2 * liver(x, y) + 0.3 * inside(x, y, 115, 140, 12, 14) - 0.2 * inside(x, y, 90, 165, 14, 10);
    v += 0.3 * (inside(x, y, 80, 60, 6, 5) + inside(x, y, 72, 45, 4, 4));
    for (const auto& [cx, cy, r] : kVessels) v += 0.3 * inside(x, y, cx, cy, r, r);
    for (const auto& [cx, cy, r] : kLungVessels) v += 0.25 * inside(x, y, cx, cy, r, r);
    return v;
  }

  /// Breathing of `peak` voxels downwards, most at the liver, and the heart's motion of 2.5 voxels.
  static MotionField breathing(double peak) {
    return [peak](double x, double y) {
      const auto bell = [](double a, double width) { return std::exp(-(a / width) * (a / width)); };
      const double heart = bell(y - 100, 40) * bell(x - 80, 40);
      return Displacement{2.5 / 8 * peak * heart * std::sin((x - 80) / 18),
                          peak * bell(y - 125, 45) * bell(x - 75, 55)};
    };
  }
  /// Everything within a wall slides along it by `by` voxels; what is outside stays.
  static MotionField sliding(double by) {
    return [by](double x, double y) { return Displacement{0, by * (distance_to_wall(x, y) > 0 ? 1 : 0)}; };
  }
  /// Voxels from the sliding wall, about; positive within.
  static double distance_to_wall(double x, double y) { return 62 * (1 - std::hypot((x - 80) / 62, (y - 96) / 80)); }

  /// A rotation [rad] from x towards y around the image's middle, then a shift.
  static MotionField rigid(double angle, double shift_x, double shift_y) {
    return [=](double x, double y) {
      const double dx = x - 0.5 * (kNx - 1), dy = y - 0.5 * (kNy - 1), c = std::cos(angle), s = std::sin(angle);
      return Displacement{c * dx - s * dy - dx + shift_x, s * dx + c * dy - dy + shift_y};
    };
  }

 private:
  struct Disc {
    double x, y, r;
  };
  static constexpr Disc kVessels[] = {{34, 140, 2.2}, {44, 128, 1.8}, {52, 150, 2.8}, {60, 136, 2.0}, {66, 120, 1.6},
                                      {70, 158, 2.4}, {78, 145, 1.7}, {46, 162, 2.1}, {58, 124, 2.6}, {38, 152, 1.6},
                                      {72, 132, 2.2}, {62, 164, 1.8}, {82, 134, 1.6}, {50, 138, 1.6}};
  static constexpr Disc kLungVessels[] = {{40, 70, 2.2},   {50, 85, 2.2},  {42, 95, 2.2},  {48, 60, 2.2},
                                          {52, 100, 2.2},  {118, 70, 2.2}, {116, 90, 2.2}, {122, 60, 2.2},
                                          {112, 102, 2.2}, {125, 80, 2.2}};
};

/// The magnitude image of the torso, its tissue displaced by u, with complex noise of 0.6 / snr. recolour: the
/// intensity at a place, of the torso's own there.
inline std::vector<float> torso_image(
    const MotionField& u, double snr, unsigned seed,
    const std::function<double(double intensity, double x, double y)>& recolour = {}) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal(0, snr > 0 ? 0.6 / snr : 1);
  std::vector<float> out;
  for (std::int64_t y = 0; y < MovingTorso::kNy; ++y)
    for (std::int64_t x = 0; x < MovingTorso::kNx; ++x) {
      const Displacement d = u ? u(static_cast<double>(x), static_cast<double>(y)) : Displacement{};
      const double at_x = static_cast<double>(x) + d.x, at_y = static_cast<double>(y) + d.y;
      double value = MovingTorso::intensity(at_x, at_y);
      if (recolour) value = recolour(value, at_x, at_y);
      if (snr > 0) {
        const double re = value + normal(engine);
        value = std::hypot(re, normal(engine));
      }
      out.push_back(static_cast<float>(value));
    }
  return out;
}

}  // namespace echotrain::testing
