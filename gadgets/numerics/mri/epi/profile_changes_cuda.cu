#include <algorithm>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/epi/profile_changes_ops.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kCoils = 8;                // coils whose sums a thread keeps
constexpr int kSamples = 128;            // samples of them in shared memory
constexpr int kMostThreads = 128;        // threads of a block, each for one sample of its result
constexpr std::int64_t kRows = 1 << 15;  // blocks of a launch along its second axis

/// h[row, d] = 1/n sum_x phases[row, x] exp(-2 pi i (x - floor(n/2)) d / n), a thread for each element.
__global__ void transform_phases_kernel(const float2* phases, std::int64_t n, std::int64_t size, float2* h) {
  ECHOTRAIN_GRID_STRIDE(i, size) {
    const std::int64_t d = i % n;
    const float2* row = phases + (i - d);
    std::int64_t turns = n / 2 * d % n;  // n-ths of a turn, at x = 0
    double re = 0, im = 0;
    for (std::int64_t x = 0; x < n; ++x) {
      float s, c;
      sincospif(2.0f * static_cast<float>(turns) / static_cast<float>(n), &s, &c);
      const float2 value = row[x];
      re += value.x * c - value.y * s;
      im += value.x * s + value.y * c;
      turns -= d;
      if (turns < 0) turns += n;
    }
    const double scale = 1.0 / static_cast<double>(n);
    h[i] = make_float2(static_cast<float>(scale * re), static_cast<float>(scale * im));
  }
}

/// Makes samples [k] of kCoils coils of a line: the sum over j of h[k - j] from[j], for a turned line of h[k + j - 2
/// floor(n/2)] from[j], modulo n. With `kEach`, each coil has its own h.
template <bool kEach>
__global__ void convolve_lines_kernel(const LineChange* changes, const float2* h, const float2* from, int coils, int n,
                                      std::int64_t lines, float2* to) {
  __shared__ __align__(16) float2 samples[kSamples][kCoils];
  const int tiles = (n + static_cast<int>(blockDim.x) - 1) / static_cast<int>(blockDim.x);
  const int first = static_cast<int>(blockIdx.x) / tiles * kCoils, there = min(kCoils, coils - first);
  const int k = static_cast<int>(blockIdx.x) % tiles * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  for (std::int64_t line = blockIdx.y; line < lines; line += gridDim.y) {
    const float4 change = reinterpret_cast<const float4*>(changes)[line];
    const int set = __float_as_int(change.x);
    const bool turned = __float_as_int(change.y) != 0;
    const float2* source = from + (line * coils + first) * n;
    float2* target = to + (line * coils + first) * n;
    if (set == kLineStays) {
      for (int c = 0; c < there && k < n; ++c)
        target[static_cast<std::int64_t>(c) * n + k] = source[static_cast<std::int64_t>(c) * n + k];
      continue;
    }
    const float2* kernel =
        h + (kEach ? (static_cast<std::int64_t>(set) * coils + first) * n : static_cast<std::int64_t>(set) * n);
    float2 sums[kCoils] = {};
    int d = (turned ? k + 2 * (n - n / 2) : k) % n;
    for (int begin = 0; begin < n; begin += kSamples) {
      const int count = min(kSamples, n - begin);
      __syncthreads();
      for (int e = static_cast<int>(threadIdx.x); e < count * kCoils; e += static_cast<int>(blockDim.x)) {
        const int c = e % kCoils, j = e / kCoils;
        samples[j][c] = c < there ? source[static_cast<std::int64_t>(c) * n + begin + j] : make_float2(0.0f, 0.0f);
      }
      __syncthreads();
      for (int j = 0; j < count; ++j) {
        float2 w = kernel[d];
#pragma unroll
        for (int c = 0; c < kCoils; c += 2) {
          const float4 two = *reinterpret_cast<const float4*>(&samples[j][c]);
          if (kEach && c > 0 && c < there) w = kernel[static_cast<std::int64_t>(c) * n + d];
          sums[c].x += w.x * two.x - w.y * two.y;
          sums[c].y += w.x * two.y + w.y * two.x;
          if (kEach && c + 1 < there) w = kernel[static_cast<std::int64_t>(c + 1) * n + d];
          sums[c + 1].x += w.x * two.z - w.y * two.w;
          sums[c + 1].y += w.x * two.w + w.y * two.z;
        }
        d += turned ? 1 : -1;
        if (d < 0) d += n;
        if (d == n) d = 0;
      }
    }
    for (int c = 0; c < there && k < n; ++c)
      target[static_cast<std::int64_t>(c) * n + k] =
          make_float2(change.z * sums[c].x - change.w * sums[c].y, change.z * sums[c].y + change.w * sums[c].x);
  }
}

}  // namespace

ProfilePhases profile_phases(Context& context, HostView<const cfloat> phases) {
  ProfilePhases out{context.allocate<cfloat>(phases.shape())};
  const Array<cfloat> copied = context.upload<cfloat>(phases);
  transform_phases_kernel<<<blocks_for(phases.size()), kThreads, 0, stream_of(context)>>>(
      device_view(copied.data()), phases.shape()[2], phases.size(), device_view(out.values.data()));
  check_launch("profile_phases");
  return out;
}

void change_profiles(Context& context, HostView<const LineChange> changes, const ProfilePhases& phases,
                     DeviceView<const cfloat> from, DeviceView<cfloat> to) {
  static_assert(sizeof(LineChange) == sizeof(float4), "the kernel reads a change as four words");
  const std::int64_t lines = from.shape()[0], coils = from.shape()[1], n = from.shape()[2];
  const Array<LineChange> copied = context.upload<LineChange>(changes);
  const std::int64_t threads = std::min<std::int64_t>(kMostThreads, (n + 31) / 32 * 32);
  const std::int64_t blocks = (n + threads - 1) / threads * ((coils + kCoils - 1) / kCoils);
  const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min(lines, kRows)));
  const auto kernel = phases.values.shape()[1] == 1 ? convolve_lines_kernel<false> : convolve_lines_kernel<true>;
  kernel<<<grid, static_cast<unsigned>(threads), 0, stream_of(context)>>>(
      copied.data(), device_view(phases.values.data()), device_view(from.data()), static_cast<int>(coils),
      static_cast<int>(n), lines, device_view(to.data()));
  check_launch("change_profiles");
}

}  // namespace echotrain::numerics::cuda
