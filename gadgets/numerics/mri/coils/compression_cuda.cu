#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/coils/compression_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

/// Row and column of pair number `p` of the lower triangle, row by row.
__device__ void pair_of(std::int64_t p, std::int64_t& a, std::int64_t& b) {
  a = static_cast<std::int64_t>((sqrt(8.0 * static_cast<double>(p) + 1.0) - 1.0) / 2.0);
  while (a * (a + 1) / 2 > p) --a;
  while ((a + 1) * (a + 2) / 2 <= p) ++a;
  b = p - a * (a + 1) / 2;
}

/// sum += a conj(b).
__device__ void add_product(float2 a, float2 b, double2& sum) {
  const double ar = a.x, ai = a.y, br = b.x, bi = b.y;
  sum.x += ar * br + ai * bi;
  sum.y += ai * br - ar * bi;
}

/// One warp per pair of coils. Sums of a readout are added lane by lane in a fixed order, then readout by readout.
__global__ void add_coil_gram_kernel(const float2* data, std::int64_t readouts, std::int64_t coils,
                                     std::int64_t samples, std::int64_t first, std::int64_t last, double2* gram) {
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (warp >= coils * (coils + 1) / 2) return;  // the same for the whole warp
  std::int64_t a = 0, b = 0;
  pair_of(warp, a, b);
  double2 sum = gram[a * coils + b];
  for (std::int64_t i = 0; i < readouts; ++i) {
    const float2* readout = data + i * coils * samples;
    double2 one = make_double2(0.0, 0.0);
    for (std::int64_t s = first + lane; s < last; s += kWarp)
      add_product(readout[a * samples + s], readout[b * samples + s], one);
    for (int step = kWarp / 2; step > 0; step /= 2) {
      one.x += __shfl_down_sync(kAllLanes, one.x, step);
      one.y += __shfl_down_sync(kAllLanes, one.y, step);
    }
    sum.x += one.x;
    sum.y += one.y;
  }
  if (lane != 0) return;
  gram[a * coils + b] = sum;
  if (b < a) gram[b * coils + a] = make_double2(sum.x, -sum.y);
}

double2* device_view(cdouble* data) { return reinterpret_cast<double2*>(data); }

}  // namespace

void add_coil_gram(Context& context, DeviceView<const cfloat> data, std::int64_t first, std::int64_t last,
                   DeviceView<cdouble> gram) {
  const std::int64_t coils = data.shape()[1], pairs = coils * (coils + 1) / 2;
  constexpr std::int64_t kWarps = kThreads / kWarp;
  const std::int64_t blocks = (pairs + kWarps - 1) / kWarps;
  if (blocks > INT32_MAX) throw std::invalid_argument("add_coil_gram: too many coils for CUDA");
  add_coil_gram_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream_of(context)>>>(
      cuda::device_view(data.data()), data.shape()[0], coils, data.shape()[2], first, last, device_view(gram.data()));
  check_launch("add_coil_gram");
}

}  // namespace echotrain::numerics::cuda
