#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/ultrasound/plane_wave_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per element of the band, so that stores are contiguous. The phase is computed in float64, as it is tens
/// of cycles.
__global__ void take_band_kernel(const float2* spectra, const double* advances, EchoBand which, std::int64_t elements,
                                 std::int64_t waves, std::int64_t bins, std::int64_t count, std::int64_t columns,
                                 std::int64_t n, float2* band) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const std::int64_t e = i % columns, k = i / columns % count, w = i / columns / count;
    if (e >= elements) {
      band[i] = {0, 0};
      continue;
    }
    const double frequency = which.first_hz + static_cast<double>(k) * which.step_hz;
    const double cycles = frequency * advances[w * elements + e];
    float sine, cosine;
    sincospif(2 * static_cast<float>(cycles - floor(cycles)), &sine, &cosine);
    band[i] = spectra[(e * waves + w) * bins + (which.first_bin + k) % bins] * make_float2(cosine, sine);
  }
}

__global__ void multiply_kernel(const float2* factors, std::int64_t n, float2* data) {
  ECHOTRAIN_GRID_STRIDE(i, n) data[i] = data[i] * factors[i];
}

__global__ void mean_kernel(const float2* from, std::int64_t channels, bool magnitudes, std::int64_t n, float2* to) {
  const float share = 1.0f / static_cast<float>(channels);
  ECHOTRAIN_GRID_STRIDE(i, n) {
    float2 sum{0, 0};
    for (std::int64_t c = 0; c < channels; ++c) {
      const float2 value = from[c * n + i];
      sum.x += magnitudes ? hypotf(value.x, value.y) : value.x;
      sum.y += magnitudes ? 0 : value.y;
    }
    to[i] = {sum.x * share, sum.y * share};
  }
}

__global__ void log_compress_kernel(const float2* from, float reference, float range, std::int64_t n, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    to[i] = {fmaxf(0.0f, range + 20 * log10f(hypotf(from[i].x, from[i].y) / reference)), 0};
  }
}

}  // namespace

void take_band(Context& context, DeviceView<const cfloat> spectra, DeviceView<const double> advances,
               const EchoBand& which, DeviceView<cfloat> band) {
  const Shape &s = spectra.shape(), &b = band.shape();
  take_band_kernel<<<blocks_for(band.size()), kThreads, 0, stream_of(context)>>>(
      device_view(spectra.data()), advances.data(), which, s[0], s[1], s[2], b[1], b[2], band.size(),
      device_view(band.data()));
  check_launch("take_band");
}

void multiply(Context& context, DeviceView<const cfloat> factors, DeviceView<cfloat> data) {
  multiply_kernel<<<blocks_for(data.size()), kThreads, 0, stream_of(context)>>>(device_view(factors.data()),
                                                                                data.size(), device_view(data.data()));
  check_launch("multiply");
}

void mean_of_channels(Context& context, DeviceView<const cfloat> from, bool magnitudes, DeviceView<cfloat> to) {
  mean_kernel<<<blocks_for(to.size()), kThreads, 0, stream_of(context)>>>(
      device_view(from.data()), from.shape()[0], magnitudes, to.size(), device_view(to.data()));
  check_launch("mean_of_channels");
}

void log_compress(Context& context, DeviceView<const cfloat> from, float reference, float range,
                  DeviceView<cfloat> to) {
  log_compress_kernel<<<blocks_for(to.size()), kThreads, 0, stream_of(context)>>>(
      device_view(from.data()), reference, range, to.size(), device_view(to.data()));
  check_launch("log_compress");
}

}  // namespace echotrain::numerics::cuda
