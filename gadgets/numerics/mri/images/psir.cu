#include <cmath>

#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/images/psir.h"

namespace echotrain::numerics {

/// sqrt(sum over coils |from|^2).
struct PsirIntensity {
  const cfloat* from;
  std::int64_t coils, voxels;
  float* to;
  ECHOTRAIN_EACH void operator()(std::int64_t voxel) const {
    float sum = 0;
    for (std::int64_t c = 0; c < coils; ++c) sum += power(load(from + c * voxels + voxel));
    to[voxel] = sqrtf(sum);
  }
};
ECHOTRAIN_MAP(PsirIntensity, 1)

/// The mean of each coil over the voxels nearby whose intensity is at least the floor.
struct PsirSmooth {
  const cfloat* from;
  const float *intensity, *percentile;
  std::int64_t planes, ny, nx;  ///< of one coil
  std::int64_t radius;
  float threshold;
  cfloat* to;
  float* floor;

  ECHOTRAIN_EACH void operator()(std::int64_t coil, std::int64_t row, std::int64_t x) const {
    const float least = threshold * percentile[0];
    if (coil == 0 && row == 0 && x == 0) floor[0] = least;
    const std::int64_t y = row % ny, plane = row - y;  // the first row of the plane
    const std::int64_t top = y > radius ? y - radius : 0, bottom = y + radius < ny - 1 ? y + radius : ny - 1;
    const std::int64_t left = x > radius ? x - radius : 0, right = x + radius < nx - 1 ? x + radius : nx - 1;
    const cfloat* const of_coil = from + coil * planes * ny * nx;
    Complex sum{0, 0};
    int count = 0;
    for (std::int64_t v = plane + top; v <= plane + bottom; ++v)
      for (std::int64_t u = left; u <= right; ++u)
        if (intensity[v * nx + u] >= least) {
          sum = sum + load(of_coil + v * nx + u);
          ++count;
        }
    const std::int64_t here = row * nx + x;
    store(count > 0 ? (1.0f / static_cast<float>(count)) * sum : load(of_coil + here),
          to + coil * planes * ny * nx + here);
  }
};
ECHOTRAIN_MAP(PsirSmooth, 3)

struct PsirVoxel {
  const cfloat *from, *reference;
  const float* floor;
  std::int64_t coils, voxels;
  bool normalize;
  cfloat* to;
  ECHOTRAIN_EACH void operator()(std::int64_t voxel) const {
    float in_phase = 0, square = 0;
    for (std::int64_t c = 0; c < coils; ++c) {
      const Complex r = load(reference + c * voxels + voxel);
      in_phase += conjugate_product(r, load(from + c * voxels + voxel)).re;
      square += power(r);
    }
    const float intensity = sqrtf(square), divisor = intensity > floor[0] ? intensity : floor[0];
    const float by = normalize ? divisor * divisor : divisor;
    store(Complex{by > 0 ? in_phase / by : 0.0f, 0}, to + voxel);
  }
};
ECHOTRAIN_MAP(PsirVoxel, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/reduce/reductions.h"

namespace echotrain::numerics {

PsirReference psir_reference(Context& context, DeviceView<const cfloat> reference, const PsirOptions& options) {
  const Shape& n = reference.shape();
  if (n.rank() != 4 || options.radius < 0)
    throw std::invalid_argument(fmt::format(
        "psir_reference: images {} are not [coil, z, y, x], or the radius {} is negative", n.text(), options.radius));
  const std::int64_t voxels = n[1] * n[2] * n[3];
  Array<float> intensity = context.allocate<float>({voxels}), percentile = context.allocate<float>({1});
  map(context, {voxels}, PsirIntensity{reference.data(), n[0], voxels, intensity.data()});
  quantile(context, intensity.cview(), 0.99, percentile.view());
  PsirReference out{context.allocate<cfloat>(n), context.allocate<float>({1})};
  map(context, {n[0], n[1] * n[2], n[3]},
      PsirSmooth{reference.data(), intensity.data(), percentile.data(), n[1], n[2], n[3], options.radius,
                 options.threshold, out.coils.data(), out.floor.data()});
  return out;
}

void psir(Context& context, DeviceView<const cfloat> from, const PsirReference& reference, bool normalize,
          DeviceView<cfloat> to) {
  const Shape& n = from.shape();
  if (n.rank() != 4 || !(n == reference.coils.shape()) || !(to.shape() == Shape{1, n[1], n[2], n[3]}))
    throw std::invalid_argument(fmt::format("psir: images {}, their reference {} and the result {} do not fit",
                                            n.text(), reference.coils.shape().text(), to.shape().text()));
  const std::int64_t voxels = n[1] * n[2] * n[3];
  map(context, {voxels},
      PsirVoxel{from.data(), reference.coils.data(), reference.floor.data(), n[0], voxels, normalize, to.data()});
}

}  // namespace echotrain::numerics
#endif
