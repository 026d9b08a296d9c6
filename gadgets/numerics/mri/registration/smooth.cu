#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/registration/smooth.h"

namespace echotrain::numerics {

constexpr int kSmoothRadius = 12, kSmoothLanes = 256;

/// Half of a symmetric kernel.
struct SmoothKernel {
  int radius;
  float weights[kSmoothRadius + 1];
};

struct SmoothColumns {
  static constexpr bool kClones = true;
  static constexpr int kLanes[] = {0, 0, kSmoothLanes};
  const float* from;
  std::int64_t ny, nx;
  SmoothKernel kernel;
  float* to;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t plane, std::int64_t y, Lanes<kMost> x) const {
    const float* const image = from + plane * ny * nx + x.first;
    const float* const here = image + y * nx;
    float sums[kMost];
    for (int l = 0; l < x.count; ++l) sums[l] = kernel.weights[0] * here[l];
    for (int t = 1; t <= kernel.radius; ++t) {
      const float* const above = image + (y > t ? y - t : 0) * nx;
      const float* const below = image + (y + t < ny - 1 ? y + t : ny - 1) * nx;
      const float weight = kernel.weights[t];
      for (int l = 0; l < x.count; ++l) sums[l] += weight * (above[l] + below[l]);
    }
    float* const out = to + (plane * ny + y) * nx + x.first;
    for (int l = 0; l < x.count; ++l) out[l] = sums[l];
  }
};
ECHOTRAIN_MAP(SmoothColumns, 3)

struct SmoothRows {
  static constexpr bool kClones = true;
  static constexpr int kLanes[] = {0, kSmoothLanes};
  const float* from;
  std::int64_t nx;
  SmoothKernel kernel;
  float* to;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t row, Lanes<kMost> x) const {
    const float* const line = from + row * nx;
    float around[kMost + 2 * kSmoothRadius], sums[kMost];
    const int radius = kernel.radius;
    for (int i = -radius; i < 0; ++i) around[i + radius] = line[x.first + i > 0 ? x.first + i : 0];
    for (int l = 0; l < x.count; ++l) around[l + radius] = line[x.first + l];
    for (int i = x.count; i < x.count + radius; ++i)
      around[i + radius] = line[x.first + i < nx - 1 ? x.first + i : nx - 1];
    const float* const here = around + radius;
    for (int l = 0; l < x.count; ++l) sums[l] = kernel.weights[0] * here[l];
    for (int t = 1; t <= radius; ++t) {
      const float weight = kernel.weights[t];
      for (int l = 0; l < x.count; ++l) sums[l] += weight * (here[l - t] + here[l + t]);
    }
    float* const out = to + row * nx + x.first;
    for (int l = 0; l < x.count; ++l) out[l] = sums[l];
  }
};
ECHOTRAIN_MAP(SmoothRows, 2)

struct Halved {
  const float* from;
  std::int64_t ny, nx, half_y, half_x;  ///< extents of both images
  float* to;
  ECHOTRAIN_EACH static std::int64_t inside(std::int64_t i, std::int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }
  ECHOTRAIN_EACH void operator()(std::int64_t plane, std::int64_t y, std::int64_t x) const {
    float sum = 0;
    for (int j = 0; j < 4; ++j) {
      const float* line = from + (plane * ny + inside(2 * y - 1 + j, ny)) * nx;
      const float outer = line[inside(2 * x - 1, nx)] + line[inside(2 * x + 2, nx)];
      const float inner = line[2 * x] + line[inside(2 * x + 1, nx)];
      sum += (j == 0 || j == 3 ? 1.0f : 3.0f) * (outer + 3 * inner);
    }
    to[(plane * half_y + y) * half_x + x] = sum / 64;
  }
};
ECHOTRAIN_MAP(Halved, 3)

/// d = I - G I, and d^2 in the place of G I.
struct ContrastParts {
  static constexpr int kLanes[] = {1024};
  static constexpr bool kClones = true;
  const float* image;
  float *mean_then_square, *difference;
  template <int kMost>
  ECHOTRAIN_EACH void operator()(Lanes<kMost> x) const {
    for (int l = 0; l < x.count; ++l) {
      const float d = image[x.first + l] - mean_then_square[x.first + l];
      difference[x.first + l] = d;
      mean_then_square[x.first + l] = d * d;
    }
  }
};
ECHOTRAIN_MAP(ContrastParts, 1)

/// The sums of d^2 and of I^2 over a row.
struct ContrastRows {
  const float *image, *square;
  std::int64_t nx;
  double* sums;
  ECHOTRAIN_EACH void operator()(std::int64_t row) const {
    double of_square = 0, of_image = 0;
    for (std::int64_t x = row * nx; x < (row + 1) * nx; ++x) {
      const double value = static_cast<double>(image[x]);
      of_square += static_cast<double>(square[x]);
      of_image += value * value;
    }
    sums[2 * row] = of_square;
    sums[2 * row + 1] = of_image;
  }
};
ECHOTRAIN_MAP(ContrastRows, 1)

struct ContrastFloors {
  const double* sums;
  std::int64_t ny, nx;
  float* floors;
  ECHOTRAIN_EACH void operator()(std::int64_t plane) const {
    double of_square = 0, of_image = 0;
    for (std::int64_t row = plane * ny; row < (plane + 1) * ny; ++row) {
      of_square += sums[2 * row];
      of_image += sums[2 * row + 1];
    }
    const double floor = of_square > 1e-11 * of_image ? 0.05 * of_square / static_cast<double>(ny * nx) : 0.0;
    floors[plane] = of_square - of_square == 0 ? static_cast<float>(floor) : 0.0f;  // 0 for NaN and infinity
  }
};
ECHOTRAIN_MAP(ContrastFloors, 1)

struct ContrastScaled {
  static constexpr int kLanes[] = {0, 1024};
  static constexpr bool kClones = true;
  const float *difference, *variance, *floors;
  std::int64_t size;
  float* to;
  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t plane, Lanes<kMost> x) const {
    const float floor = floors[plane];
    const std::int64_t first = plane * size + x.first;
    for (int l = 0; l < x.count; ++l)
      to[first + l] = floor > 0 ? difference[first + l] / sqrtf(variance[first + l] + floor) : 0;
  }
};
ECHOTRAIN_MAP(ContrastScaled, 2)

}  // namespace echotrain::numerics

#ifndef __CUDACC__
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kSmoothGrain = 4096;

SmoothKernel smooth_kernel(float sigma) {
  SmoothKernel out{std::min(kSmoothRadius, static_cast<int>(std::ceil(2.5f * sigma))), {}};
  double sum = 0, weights[kSmoothRadius + 1];
  for (int t = 0; t <= out.radius; ++t) {
    weights[t] = std::exp(-0.5 * std::pow(t / static_cast<double>(sigma), 2));
    sum += (t == 0 ? 1 : 2) * weights[t];
  }
  for (int t = 0; t <= out.radius; ++t) out.weights[t] = static_cast<float>(weights[t] / sum);
  return out;
}

void require_planes(bool good, const char* what, const Shape& a, const Shape& b) {
  if (!good || a.rank() != 3)
    throw std::invalid_argument(fmt::format("{}: images {} and {} do not fit", what, a.text(), b.text()));
}

/// The filter from one place to another.
void smooth(Context& context, float sigma, DeviceView<const float> from, DeviceView<float> scratch,
            DeviceView<float> to) {
  const Shape& n = from.shape();
  const SmoothKernel kernel = smooth_kernel(sigma);
  map(context, {n[0], n[1], n[2]}, SmoothColumns{from.data(), n[1], n[2], kernel, scratch.data()}, kSmoothGrain);
  map(context, {n[0] * n[1], n[2]}, SmoothRows{scratch.data(), n[2], kernel, to.data()}, kSmoothGrain);
}

}  // namespace

void gaussian_filter(Context& context, float sigma, DeviceView<float> planes, DeviceView<float> scratch) {
  require_planes(scratch.size() >= planes.size(), "gaussian_filter", planes.shape(), scratch.shape());
  if (!(sigma > 0 && sigma <= kMostSigma))
    throw std::invalid_argument(fmt::format("gaussian_filter: {} voxels are not in (0, {}]", sigma, kMostSigma));
  smooth(context, sigma, planes, scratch, planes);
}

void halve(Context& context, DeviceView<const float> from, DeviceView<float> to) {
  const Shape &n = from.shape(), &h = to.shape();
  require_planes(n.rank() == 3 && h == Shape{n[0], (n[1] + 1) / 2, (n[2] + 1) / 2}, "halve", n, h);
  map(context, {h[0], h[1], h[2]}, Halved{from.data(), n[1], n[2], h[1], h[2], to.data()}, kSmoothGrain);
}

void local_contrast(Context& context, float sigma, DeviceView<const float> from, DeviceView<float> scratch,
                    DeviceView<float> to, DeviceView<float> floors) {
  const Shape& n = from.shape();
  require_planes(n.rank() == 3 && n == to.shape() && scratch.size() >= 2 * n.size() && floors.size() == n[0],
                 "local_contrast", n, to.shape());
  const std::int64_t rows = n[0] * n[1], size = n[1] * n[2];
  const auto squares = scratch.part(0, n), between = scratch.part(n.size(), n);
  smooth(context, sigma, from, between, squares);
  map(context, {n.size()}, ContrastParts{from.data(), squares.data(), to.data()}, kSmoothGrain);
  Array<double> sums = context.allocate<double>({2 * rows});
  map(context, {rows}, ContrastRows{from.data(), squares.data(), n[2], sums.data()}, 32);
  map(context, {n[0]}, ContrastFloors{sums.data(), n[1], n[2], floors.data()});
  gaussian_filter(context, sigma, squares, between);
  map(context, {n[0], size}, ContrastScaled{to.data(), squares.data(), floors.data(), size, to.data()}, kSmoothGrain);
}

}  // namespace echotrain::numerics
#endif
