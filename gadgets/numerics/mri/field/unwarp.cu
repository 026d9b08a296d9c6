#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/field/unwarp.h"

namespace echotrain::numerics {

constexpr int kUnwarpTaps = 8;     // voxels that a value between voxels comes from
constexpr int kUnwarpSteps = 512;  // places between two voxels for which weights are kept

/// A corrected voxel of all images: its weights are the same in each.
struct UnwarpedVoxel {
  std::int64_t batch, planes, rows, columns;
  bool modulate;
  /// [kUnwarpSteps + 1, kUnwarpTaps]: the weights of voxels floor(at) - 3 .. floor(at) + 4, for at - floor(at) = step /
  /// kUnwarpSteps; interpolated linearly between two steps.
  const float* table;
  const cfloat* distorted;
  const float* shift;
  cfloat* corrected;

  /// weights[tap] of row first + tap.
  struct Parts {
    std::int64_t first;
    float weights[kUnwarpTaps];
  };
  ECHOTRAIN_EACH void operator()(std::int64_t z, std::int64_t y, std::int64_t x) const {
    const std::int64_t plane = rows * columns;
    const Parts parts = parts_of(shift + z * plane + x, y);
    for (std::int64_t b = 0; b < batch; ++b) {
      const cfloat* from = distorted + (b * planes + z) * plane + x;
      Complex sum{0, 0};
      for (int i = 0; i < kUnwarpTaps; ++i) {
        const std::int64_t at = parts.first + i;
        if (at >= 0 && at < rows) sum = sum + parts.weights[i] * load(from + at * columns);
      }
      store(sum, corrected + ((b * planes + z) * rows + y) * columns + x);
    }
  }
  /// For row y of a column of shifts.
  ECHOTRAIN_EACH Parts parts_of(const float* shifts, std::int64_t y) const {
    const std::int64_t below = y > 0 ? y - 1 : y, above = y + 1 < rows ? y + 1 : y;
    const float slope =
        above > below ? (shifts[above * columns] - shifts[below * columns]) / static_cast<float>(above - below) : 0;
    float factor = modulate ? 1 + slope : 1;
    if (1 + slope <= 0) factor = 0;
    const float own = shifts[y * columns];
    const auto cut = static_cast<std::int64_t>(own);
    const float whole = static_cast<float>(cut - (own < static_cast<float>(cut) ? 1 : 0));
    const float place = (own - whole) * kUnwarpSteps;
    std::int64_t at = static_cast<std::int64_t>(place);
    if (at >= kUnwarpSteps) at = kUnwarpSteps - 1;
    const float part = place - static_cast<float>(at);
    const float* w = table + at * kUnwarpTaps;
    Parts out{};
    out.first = y + static_cast<std::int64_t>(whole) - (kUnwarpTaps / 2 - 1);
    for (int i = 0; i < kUnwarpTaps; ++i) out.weights[i] = factor * ((1 - part) * w[i] + part * w[kUnwarpTaps + i]);
    return out;
  }
};
ECHOTRAIN_MAP(UnwarpedVoxel, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace echotrain::numerics {
namespace {

/// Modified Bessel function of order 0, by its series.
double bessel(double x) {
  double sum = 1, term = 1;
  for (int k = 1; k < 60; ++k) {
    term *= (x / (2 * k)) * (x / (2 * k));
    sum += term;
  }
  return sum;
}

/// The weights of eight voxels, which sum to 1 for each place.
std::vector<float> interpolation_weights() {
  constexpr double kHalf = kUnwarpTaps / 2.0, kBeta = 6;
  std::vector<float> out;
  for (int step = 0; step <= kUnwarpSteps; ++step) {
    double weights[kUnwarpTaps], sum = 0;
    for (int i = 0; i < kUnwarpTaps; ++i) {
      const double u = i - (kHalf - 1) - static_cast<double>(step) / kUnwarpSteps,
                   inside = 1 - (u / kHalf) * (u / kHalf);
      const double angle = std::numbers::pi * u, sinc = std::abs(u) < 1e-9 ? 1 : std::sin(angle) / angle;
      weights[i] = inside <= 0 ? 0 : sinc * bessel(kBeta * std::sqrt(inside)) / bessel(kBeta);
      sum += weights[i];
    }
    for (const double w : weights) out.push_back(static_cast<float>(w / sum));
  }
  return out;
}

/// The interpolation weights in the memory where a context computes.
struct Weights {
  Array<float> table;
};

}  // namespace

void unwarp(Context& context, DeviceView<const cfloat> distorted, DeviceView<const float> shift, bool modulate,
            DeviceView<cfloat> corrected) {
  const Shape &n = distorted.shape(), &s = shift.shape();
  if (n.rank() != 4 || !(n == corrected.shape()) || !(s == Shape{n[1], n[2], n[3]}))
    throw std::invalid_argument(
        fmt::format("unwarp: images {} and {} and shifts {} do not fit", n.text(), corrected.shape().text(), s.text()));
  if (n.size() == 0) return;
  auto& weights = context.cache<Weights>();
  if (!weights.table) {
    const std::vector<float> host = interpolation_weights();
    weights.table = context.upload<float>({host.data(), {static_cast<std::int64_t>(host.size())}});
  }
  map(context, {n[1], n[2], n[3]},
      UnwarpedVoxel{n[0], n[1], n[2], n[3], modulate, weights.table.data(), distorted.data(), shift.data(),
                    corrected.data()},
      n[3] + 4096 / n[0]);
}

}  // namespace echotrain::numerics
#endif
