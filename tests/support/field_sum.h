// The field sum gives samples taken while the field is off, by the definition, in float64: the truth for time
// segmentation.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "tests/support/direct_sum.h"

namespace echotrain::testing {

/// A plane [y, x] with a field map, and samples whose times repeat those of the first readout.
struct FieldProblem {
  std::int64_t ny, nx;
  std::vector<float> field_hz;      // [y, x]
  std::vector<double> times_s;      // of a readout
  std::vector<double> coordinates;  // [sample, 2], x first
  std::int64_t count() const { return static_cast<std::int64_t>(coordinates.size()) / 2; }
};

/// Spirals of `duration_s`, and a field from -range_hz to range_hz: a tilted plane, a quadratic term and a bump, as
/// from shims and air.
inline FieldProblem field_problem(std::int64_t ny, std::int64_t nx, double range_hz, double duration_s,
                                  std::int64_t arms, std::int64_t per_arm, double first_s = 0.002) {
  FieldProblem p{ny, nx, {}, {}, {}};
  std::vector<double> shape;
  double most = 0, least = 0;
  for (std::int64_t y = 0; y < ny; ++y)
    for (std::int64_t x = 0; x < nx; ++x) {
      const double u = static_cast<double>(x - nx / 2) / static_cast<double>(nx / 2),
                   v = static_cast<double>(y - ny / 2) / static_cast<double>(ny / 2);
      shape.push_back(u + 0.4 * v - 0.5 * u * v + 0.8 * std::exp(-8 * ((u - 0.3) * (u - 0.3) + v * v)));
      most = std::max(most, shape.back());
      least = std::min(least, shape.back());
    }
  for (const double s : shape)
    p.field_hz.push_back(static_cast<float>(range_hz * (2 * (s - least) / (most - least) - 1)));
  for (std::int64_t i = 0; i < per_arm; ++i)
    p.times_s.push_back(first_s + duration_s * static_cast<double>(i) / static_cast<double>(per_arm - 1));
  for (std::int64_t a = 0; a < arms; ++a)
    for (std::int64_t i = 0; i < per_arm; ++i) {
      const double part = static_cast<double>(i) / static_cast<double>(per_arm), turns = 3,
                   angle = 2 * std::numbers::pi * (turns * part + static_cast<double>(a) / static_cast<double>(arms));
      p.coordinates.push_back(0.49 * part * std::cos(angle));
      p.coordinates.push_back(0.49 * part * std::sin(angle));
    }
  return p;
}

/// Calls work(sample, voxel, exp(-2 pi i k.r + 2 pi i f t)) for all pairs.
template <class Work>
void for_pairs(const FieldProblem& p, const Work& work) {
  for (std::int64_t s = 0; s < p.count(); ++s) {
    const auto ex = phases(-p.coordinates[static_cast<std::size_t>(2 * s)], p.nx),
               ey = phases(-p.coordinates[static_cast<std::size_t>(2 * s + 1)], p.ny);
    const double t = p.times_s[static_cast<std::size_t>(s) % p.times_s.size()];
    for (std::int64_t v = 0; v < p.ny * p.nx; ++v)
      work(
          static_cast<std::size_t>(s), static_cast<std::size_t>(v),
          ex[static_cast<std::size_t>(v % p.nx)] * ey[static_cast<std::size_t>(v / p.nx)] *
              std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(p.field_hz[static_cast<std::size_t>(v)]) * t));
  }
}

/// samples[s] = sum_r image[r] exp(-2 pi i k_s.r + 2 pi i f(r) t_s)
inline std::vector<numerics::cdouble> field_forward(const FieldProblem& p,
                                                    const std::vector<numerics::cdouble>& image) {
  std::vector<numerics::cdouble> out(static_cast<std::size_t>(p.count()));
  for_pairs(p, [&](std::size_t s, std::size_t v, numerics::cdouble e) { out[s] += image[v] * e; });
  return out;
}

/// image[r] = sum_s weights[s] samples[s] exp(2 pi i k_s.r - 2 pi i f(r) t_s); no weights: all 1
inline std::vector<numerics::cdouble> field_adjoint(const FieldProblem& p,
                                                    const std::vector<numerics::cdouble>& samples,
                                                    const std::vector<float>& weights = {}) {
  std::vector<numerics::cdouble> out(static_cast<std::size_t>(p.ny * p.nx));
  for_pairs(p, [&](std::size_t s, std::size_t v, numerics::cdouble e) {
    out[v] += (weights.empty() ? 1.0 : static_cast<double>(weights[s])) * samples[s] * std::conj(e);
  });
  return out;
}

}  // namespace echotrain::testing
