#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/partial/partial_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// The place of element i of a batch of centred items.
struct Point {
  std::int64_t item, z, y, x;
  __device__ Point(std::int64_t i, const Extents& n)
      : item(i / (n[0] * n[1] * n[2])), z(i / (n[1] * n[2]) % n[0]), y(i / n[2] % n[1]), x(i % n[2]) {}
  __device__ std::int64_t in_spectrum(const Extents& n) const {
    return ((item * n[0] + in_fft_order(z, n[0])) * n[1] + in_fft_order(y, n[1])) * n[2] + in_fft_order(x, n[2]);
  }
};

__global__ void multiply_axes_kernel(AxisFactors factors, std::int64_t count, float2* data) {
  ECHOTRAIN_GRID_STRIDE(i, count) {
    const Point p(i, factors.n);
    data[i] = factors.at(p.z, p.y, p.x) * data[i];
  }
}

__global__ void place_weighted_kernel(const float2* from, AxisFactors factors, std::int64_t count, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, count) {
    const Point p(i, factors.n);
    to[p.in_spectrum(factors.n)] = factors.at(p.z, p.y, p.x) * from[i];
  }
}

__global__ void project_kernel(const float2* reference, std::int64_t count, bool real, float2* image) {
  ECHOTRAIN_GRID_STRIDE(i, count) {
    const float2 r = reference[i], v = image[i];
    const float size = hypotf(r.x, r.y);
    if (!(size > 0)) continue;
    const float2 unit = make_float2(r.x / size, r.y / size);
    const float along = real ? v.x * unit.x + v.y * unit.y : hypotf(v.x, v.y);
    image[i] = along * unit;
  }
}

__global__ void keep_acquired_kernel(float2* data, AxisFactors m, AxisFactors filled, std::int64_t count, float scale,
                                     bool finish, float2* spectrum) {
  ECHOTRAIN_GRID_STRIDE(i, count) {
    const Point p(i, m.n);
    float2& from = spectrum[p.in_spectrum(m.n)];
    const float share = m.at(p.z, p.y, p.x);
    float2 value = make_float2(0.0f, 0.0f);
    if (share >= 1)
      value = data[i];
    else if (share > 0 || filled.at(p.z, p.y, p.x) > 0)
      value = share * data[i] + (1 - share) * scale * from;
    (finish ? data[i] : from) = value;
  }
}

}  // namespace

void multiply_axes(Context& context, const AxisFactors& factors, std::int64_t batch, cfloat* data) {
  const std::int64_t count = batch * volume(factors.n);
  multiply_axes_kernel<<<blocks_for(count), kThreads, 0, stream_of(context)>>>(factors, count, device_view(data));
  check_launch("multiply_axes");
}

void place_weighted(Context& context, const cfloat* from, const AxisFactors& factors, std::int64_t batch, cfloat* to) {
  const std::int64_t count = batch * volume(factors.n);
  place_weighted_kernel<<<blocks_for(count), kThreads, 0, stream_of(context)>>>(device_view(from), factors, count,
                                                                                device_view(to));
  check_launch("place_weighted");
}

void project(Context& context, const cfloat* reference, std::int64_t n, bool real, cfloat* image) {
  project_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(device_view(reference), n, real,
                                                                     device_view(image));
  check_launch("project");
}

void keep_acquired(Context& context, cfloat* data, const AxisFactors& m, const AxisFactors& filled, std::int64_t batch,
                   float scale, bool finish, cfloat* spectrum) {
  const std::int64_t count = batch * volume(m.n);
  keep_acquired_kernel<<<blocks_for(count), kThreads, 0, stream_of(context)>>>(device_view(data), m, filled, count,
                                                                               scale, finish, device_view(spectrum));
  check_launch("keep_acquired");
}

}  // namespace echotrain::numerics::cuda
