#include <algorithm>
#include <cmath>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/transforms/fft/fft.h"
#include "tests/bench/das/das.h"

namespace echotrain::bench {
namespace {

using numerics::cfloat;
using numerics::cuda::check;
using numerics::cuda::check_launch;
using numerics::cuda::stream_of;

constexpr int kBlockX = 32, kBlockZ = 8;
constexpr int kThreads = 256;

/// Bins `zone` to `zone` + bins / 2, modulo bins, move down by `shift`, and are scaled; the others become 0.
__global__ void demodulate_kernel(const float2* spectra, float2* baseband, int bins, int zone, int shift, float scale) {
  const int to = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (to >= bins) return;
  const int offset = ((to + shift - zone) % bins + bins) % bins;
  const float2 value = spectra[blockIdx.y * bins + (zone + offset) % bins];
  baseband[blockIdx.y * bins + to] =
      offset < bins / 2 ? make_float2(scale * value.x, scale * value.y) : make_float2(0, 0);
}

struct Geometry {
  int elements, samples, bins, nx, nz;
  float first, per_mm, cycles, pitch;
};

/// A thread per voxel.
__global__ void sum_kernel(const float2* baseband, const float* columns, const float* rows, Geometry g, float2* image) {
  const int column = static_cast<int>(blockIdx.x * kBlockX + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y * kBlockZ + threadIdx.y);
  if (column >= g.nx || row >= g.nz) return;
  const float x = columns[column], z = rows[row];
  float2 sum = make_float2(0, 0);
  for (int e = 0; e < g.elements; ++e) {
    const float aside = x - (static_cast<float>(e) - static_cast<float>(g.elements - 1) / 2) * g.pitch;
    const float at = (z + sqrtf(aside * aside + z * z)) * g.per_mm - g.first;
    if (at < 0 || at >= static_cast<float>(g.samples - 1)) continue;
    const int sample = static_cast<int>(at);
    const float behind = at - static_cast<float>(sample), cycles = at * g.cycles;
    float sine, cosine;
    sincospif(2 * (cycles - floorf(cycles)), &sine, &cosine);
    const float2 a = baseband[e * g.bins + sample], b = baseband[e * g.bins + sample + 1];
    const float re = a.x + behind * (b.x - a.x), im = a.y + behind * (b.y - a.y);
    sum.x += re * cosine - im * sine;
    sum.y += re * sine + im * cosine;
  }
  const float share = 1.0f / static_cast<float>(g.elements);
  image[row * g.nx + column] = make_float2(share * sum.x, share * sum.y);
}

numerics::Array<float> upload(numerics::Context& context, const std::vector<double>& values) {
  const std::vector<float> numbers(values.begin(), values.end());
  return context.upload<float>({numbers.data(), {static_cast<std::int64_t>(numbers.size())}});
}

float2* numbers(numerics::Array<cfloat>& array) { return reinterpret_cast<float2*>(array.data()); }

}  // namespace

GpuDelayAndSum::GpuDelayAndSum(numerics::Context& context, const DasSetting& setting)
    : context_(context),
      elements_(setting.elements),
      samples_(setting.samples),
      bins_(2 * setting.samples),
      zone_(static_cast<std::int64_t>(std::floor(setting.center / (setting.sampling / 2))) * (bins_ / 2)),
      shift_(std::llround(setting.center / setting.sampling * static_cast<double>(bins_))),
      first_(static_cast<float>(setting.first_sample * setting.sampling)),
      per_mm_(static_cast<float>(setting.sampling / setting.sound)),
      cycles_(static_cast<float>(setting.center / setting.sampling)),
      pitch_(static_cast<float>(setting.pitch)),
      x_(upload(context, setting.x)),
      z_(upload(context, setting.z)) {
  const auto nx = static_cast<std::int64_t>(setting.x.size()), nz = static_cast<std::int64_t>(setting.z.size());
  sent_ = context.allocate_host<cfloat>({elements_, samples_});
  received_ = context.allocate_host<cfloat>({nz, nx});
  traces_ = context.allocate<cfloat>({elements_, samples_});
  spectra_ = context.allocate<cfloat>({elements_, bins_});
  baseband_ = context.allocate<cfloat>({elements_, bins_});
  image_ = context.allocate<cfloat>({nz, nx});
  context.synchronize();
}

void GpuDelayAndSum::image(numerics::HostView<const cfloat> traces, numerics::HostView<cfloat> image) {
  const cudaStream_t stream = stream_of(context_);
  std::copy_n(traces.data(), elements_ * samples_, sent_.data());
  context_.copy<cfloat>(sent_.cview(), traces_.view());
  context_.clear<cfloat>(spectra_.view());
  const auto width = static_cast<std::size_t>(samples_) * sizeof(cfloat);
  check(cudaMemcpy2DAsync(spectra_.data(), 2 * width, traces_.data(), width, width, static_cast<std::size_t>(elements_),
                          cudaMemcpyDeviceToDevice, stream),
        "padding traces");
  numerics::fft(context_, spectra_.view(), 1, numerics::Direction::forward);
  const int bins = static_cast<int>(bins_), nz = static_cast<int>(image_.shape()[0]),
            nx = static_cast<int>(image_.shape()[1]);
  demodulate_kernel<<<dim3(static_cast<unsigned>((bins + kThreads - 1) / kThreads), static_cast<unsigned>(elements_)),
                      kThreads, 0, stream>>>(numbers(spectra_), numbers(baseband_), bins, static_cast<int>(zone_),
                                             static_cast<int>(shift_), 2.0f / static_cast<float>(bins_));
  check_launch("demodulating traces");
  numerics::fft(context_, baseband_.view(), 1, numerics::Direction::inverse);
  const Geometry geometry{
      static_cast<int>(elements_), static_cast<int>(samples_), bins, nx, nz, first_, per_mm_, cycles_, pitch_};
  const dim3 blocks(static_cast<unsigned>((nx + kBlockX - 1) / kBlockX),
                    static_cast<unsigned>((nz + kBlockZ - 1) / kBlockZ));
  sum_kernel<<<blocks, dim3(kBlockX, kBlockZ), 0, stream>>>(numbers(baseband_), x_.data(), z_.data(), geometry,
                                                            numbers(image_));
  check_launch("delay and sum");
  context_.copy<cfloat>(image_.cview(), received_.view());
  context_.synchronize();
  std::copy_n(received_.data(), image_.size(), image.data());
}

}  // namespace echotrain::bench
