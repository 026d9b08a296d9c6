#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/field/sinc_taps.h"
#include "gadgets/numerics/mri/field/warp.h"

namespace echotrain::numerics {

/// A voxel for all images of the batch. Sums over z and y come first, so that those of eight neighbours along x are one
/// vector.
struct Warped {
  static constexpr bool kClones = true;
  static constexpr int kTaps = SincTaps::kTaps;
  const cfloat* images;
  const float* map;
  const float* table;
  std::int64_t batch, nz, ny, nx;
  bool linear;  // along z
  cfloat* warped;

  ECHOTRAIN_EACH SincTaps plane_taps(float distance) const {
    SincTaps out{};
    if (nz == 1) {
      out.weights[0] = 1;
      return out;
    }
    if (!linear) return sinc_taps(table, distance);
    const auto cut = static_cast<std::int64_t>(distance);
    out.first = cut - (distance < static_cast<float>(cut) ? 1 : 0);
    out.weights[1] = distance - static_cast<float>(out.first);
    out.weights[0] = 1 - out.weights[1];
    return out;
  }

  ECHOTRAIN_EACH void operator()(std::int64_t z, std::int64_t y, std::int64_t x) const {
    const std::int64_t plane = ny * nx, size = nz * plane, at = z * plane + y * nx + x;
    const float factor = map[3 * size + at];
    const SincTaps tz = plane_taps(map[2 * size + at]), ty = sinc_taps(table, map[size + at]);
    SincTaps tx = sinc_taps(table, map[at]);
    const std::int64_t first = x + tx.first;
    const bool inside = first >= 0 && first + kTaps <= nx;
    if (!inside)
      for (int i = 0; i < kTaps; ++i)
        if (first + i < 0 || first + i >= nx) tx.weights[i] = 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      float sums[2 * kTaps] = {};
      for (int k = 0; k < kTaps; ++k) {
        const std::int64_t from_z = z + tz.first + k;
        if (tz.weights[k] == 0 || from_z < 0 || from_z >= nz) continue;
        for (int j = 0; j < kTaps; ++j) {
          const std::int64_t from_y = y + ty.first + j;
          if (from_y < 0 || from_y >= ny) continue;
          const float weight = tz.weights[k] * ty.weights[j];
          const cfloat* line = images + ((b * nz + from_z) * ny + from_y) * nx;
          if (inside) {
            for (int i = 0; i < kTaps; ++i) add(weight, load(line + first + i), sums + 2 * i);
          } else {
            for (int i = 0; i < kTaps; ++i)
              if (tx.weights[i] != 0) add(weight, load(line + first + i), sums + 2 * i);
          }
        }
      }
      Complex out{0, 0};
      for (int i = 0; i < kTaps; ++i) out = out + tx.weights[i] * Complex{sums[2 * i], sums[2 * i + 1]};
      store(factor * out, warped + b * size + at);
    }
  }
  ECHOTRAIN_EACH static void add(float weight, Complex value, float* sum) {
    sum[0] += weight * value.re;
    sum[1] += weight * value.im;
  }
};
ECHOTRAIN_MAP(Warped, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__
#include <fmt/format.h>

#include <stdexcept>

namespace echotrain::numerics {

void warp(Context& context, DeviceView<const cfloat> images, DeviceView<const float> map, PlaneTaps planes,
          DeviceView<cfloat> warped) {
  const Shape &n = images.shape(), &m = map.shape();
  if (n.rank() != 4 || !(n == warped.shape()) || !(m == Shape{4, n[1], n[2], n[3]}))
    throw std::invalid_argument(
        fmt::format("warp: images {} and {} and a map {} do not fit", n.text(), warped.shape().text(), m.text()));
  constexpr std::int64_t kGrain = 512;  // an element is a sum over 64 to 512 voxels
  const Warped f{.images = images.data(),
                 .map = map.data(),
                 .table = sinc_table(context),
                 .batch = n[0],
                 .nz = n[1],
                 .ny = n[2],
                 .nx = n[3],
                 .linear = planes == PlaneTaps::linear,
                 .warped = warped.data()};
  numerics::map(context, {n[1], n[2], n[3]}, f, kGrain);
}

}  // namespace echotrain::numerics
#endif
