#include <algorithm>
#include <type_traits>
#include <vector>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/layout/line_stretches.h"
#include "gadgets/numerics/core/layout/sample_layout_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// One thread per element of `to`, so that stores are contiguous.
__global__ void to_sample_major_kernel(const float2* from, std::int64_t readouts, std::int64_t coils,
                                       std::int64_t samples, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, readouts * coils * samples) {
    const std::int64_t c = i % coils, row = i / coils, s = row % samples, r = row / samples;
    to[i] = from[(r * coils + c) * samples + s];
  }
}

/// Line numbers as a kernel argument: a copy to the device would cost the host more than all the rest.
struct LineNumbers {
  static constexpr std::int64_t kMost = 512;
  std::int32_t line[kMost];
};

/// One thread per readout, coil and sample, for readouts of different lines.
__global__ void add_different_lines_kernel(const float2* from, const LineNumbers lines, std::int64_t readouts,
                                           std::int64_t coils, std::int64_t samples, std::int64_t first_sample,
                                           std::int64_t n, std::int64_t first_x, std::int64_t height,
                                           std::int64_t width, float2* kspace) {
  ECHOTRAIN_GRID_STRIDE(i, readouts * coils * n) {
    const std::int64_t s = i % n, c = i / n % coils, r = i / (n * coils);
    const std::int32_t line = lines.line[r];
    if (line < 0) continue;
    const float2 value = from[(r * coils + c) * samples + first_sample + s];
    float2* to = kspace + (c * height + line) * width + first_x + s;
    to->x += value.x;
    to->y += value.y;
  }
}

/// One thread per coil and sample: it adds the readouts in order.
__global__ void add_lines_kernel(const float2* from, const std::int32_t* lines, std::int64_t readouts,
                                 std::int64_t coils, std::int64_t samples, std::int64_t first_sample, std::int64_t n,
                                 std::int64_t first_x, std::int64_t height, std::int64_t width, float2* kspace) {
  ECHOTRAIN_GRID_STRIDE(i, coils * n) {
    const std::int64_t c = i / n, s = i % n;
    for (std::int64_t r = 0; r < readouts; ++r) {
      const std::int32_t line = lines[r];
      if (line < 0) continue;
      const float2 value = from[(r * coils + c) * samples + first_sample + s];
      float2* to = kspace + (c * height + line) * width + first_x + s;
      to->x += value.x;
      to->y += value.y;
    }
  }
}

__global__ void scale_lines_kernel(const float* factors, std::int64_t height, std::int64_t width, std::int64_t n,
                                   float2* kspace) {
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float factor = factors[i / width % height];
    kspace[i].x *= factor;
    kspace[i].y *= factor;
  }
}

__device__ float convert(float2 z, Component what) {
  switch (what) {
    case Component::magnitude:
      return hypotf(z.x, z.y);
    case Component::phase:
      return atan2f(z.y, z.x);
    case Component::imaginary:
      return z.y;
    default:
      return z.x;
  }
}

/// The counts that one thread adds to a tally.
struct Counts {
  unsigned not_finite = 0, saturated = 0, any = 0;  // any: not 0 if something is not zero
};

__device__ void store(float value, float* to, Counts& /*counts*/) { *to = value; }
__device__ void store(float value, std::uint16_t* to, Counts& counts) {
  constexpr float kMost = 65535.0f;
  *to = static_cast<std::uint16_t>(rintf(fminf(fmaxf(value, 0.0f), kMost)));  // NaN becomes 0
  counts.saturated += (value >= kMost + 0.5f || value < -0.5f) && isfinite(value) ? 1u : 0u;
  counts.any |= *to;
}

/// Counts z and its converted value. Only a magnitude can be infinite when z is finite.
template <class T>
__device__ void count(float2 z, float value, const T& /*type*/, Counts& counts) {
  counts.not_finite += isfinite(z.x) && isfinite(z.y) && isfinite(value) ? 0u : 1u;
  if constexpr (!std::is_same_v<T, std::uint16_t>) counts.any |= z.x != 0 || z.y != 0 ? 1u : 0u;
}

/// Adds the counts of a block's threads; all of them call it. An image without faults costs no atomic operation.
__device__ void add(const Counts& counts, PixelTally* tally) {
  __shared__ unsigned not_finite, saturated;
  if (threadIdx.x == 0) not_finite = saturated = 0;
  const int any = __syncthreads_or(static_cast<int>(counts.any));
  if (counts.not_finite > 0) atomicAdd(&not_finite, counts.not_finite);
  if (counts.saturated > 0) atomicAdd(&saturated, counts.saturated);
  __syncthreads();
  if (threadIdx.x > 0) return;
  const auto add_to = [](std::uint64_t* sum, unsigned count) {
    if (count > 0) atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(count));
  };
  add_to(&tally->not_finite, not_finite);
  add_to(&tally->saturated, saturated);
  if (any != 0) tally->any = 1;  // all blocks write the same
}

template <class T>
__global__ void component_kernel(const float2* from, std::int64_t n, Component what, float factor, T* to,
                                 PixelTally* tally) {
  Counts counts;
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float2 z = make_float2(from[i].x * factor, from[i].y * factor);
    const float value = convert(z, what);
    store(value, to + i, counts);
    count(z, value, T{}, counts);
  }
  if (tally != nullptr) add(counts, tally);
}

/// `to` may be null; then only the tally is made.
__global__ void scale_kernel(const float2* from, std::int64_t n, float factor, float2* to, PixelTally* tally) {
  Counts counts;
  ECHOTRAIN_GRID_STRIDE(i, n) {
    const float2 z = make_float2(from[i].x * factor, from[i].y * factor);
    if (to != nullptr) to[i] = z;
    count(z, 0.0f, float{}, counts);
  }
  if (tally != nullptr) add(counts, tally);
}

/// Blocks for `n` values: so few that their sums do not queue for the tally's memory, and enough to keep any device
/// busy.
unsigned tallied_blocks(std::int64_t n) { return std::min(blocks_for(n), 4096u); }

template <class T>
void launch_component(Context& context, DeviceView<const cfloat> from, Component what, float factor, DeviceView<T> to,
                      DeviceView<PixelTally> tally) {
  component_kernel<<<tallied_blocks(from.size()), kThreads, 0, stream_of(context)>>>(
      device_view(from.data()), from.size(), what, factor, to.data(), tally.data());
  check_launch("component");
}

void launch_scale(Context& context, DeviceView<const cfloat> from, float factor, cfloat* to,
                  DeviceView<PixelTally> tally) {
  scale_kernel<<<tallied_blocks(from.size()), kThreads, 0, stream_of(context)>>>(device_view(from.data()), from.size(),
                                                                                 factor, device_view(to), tally.data());
  check_launch("scale");
}

}  // namespace

void to_sample_major(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to,
                     std::int64_t first_sample) {
  const Shape& shape = from.shape();
  to_sample_major_kernel<<<blocks_for(from.size()), kThreads, 0, stream_of(context)>>>(
      device_view(from.data()), shape[0], shape[1], shape[2], device_view(to.data() + first_sample * shape[1]));
  check_launch("to_sample_major");
}

void add_lines(Context& context, DeviceView<const cfloat> from, HostView<const std::int32_t> lines,
               const LinePlacement& placement, DeviceView<cfloat> kspace) {
  const Shape &f = from.shape(), &k = kspace.shape();
  constexpr std::size_t kMostStretches = 8;
  const std::int64_t n = placement.last_sample - placement.first_sample;
  const std::vector<std::int64_t> ends = line_stretches(lines, kMostStretches);
  std::int64_t begin = 0;
  LineNumbers numbers;
  for (const std::int64_t end : ends) {
    for (std::int64_t count = 0; begin < end; begin += count) {
      count = std::min(end - begin, LineNumbers::kMost);
      std::copy_n(lines.data() + begin, count, numbers.line);
      add_different_lines_kernel<<<blocks_for(count * f[1] * n), kThreads, 0, stream_of(context)>>>(
          device_view(from.data()) + begin * f[1] * f[2], numbers, count, f[1], f[2], placement.first_sample, n,
          placement.first_x, k[1], k[2], device_view(kspace.data()));
      check_launch("add_different_lines");
    }
  }
  if (!ends.empty()) return;
  const Array<std::int32_t> all_numbers = context.upload<std::int32_t>(lines);
  add_lines_kernel<<<blocks_for(f[1] * n), kThreads, 0, stream_of(context)>>>(
      device_view(from.data()), all_numbers.data(), f[0], f[1], f[2], placement.first_sample, n, placement.first_x,
      k[1], k[2], device_view(kspace.data()));
  check_launch("add_lines");
}

void scale_lines(Context& context, HostView<const float> factors, DeviceView<cfloat> kspace) {
  const Array<float> numbers = context.upload<float>(factors);
  scale_lines_kernel<<<blocks_for(kspace.size()), kThreads, 0, stream_of(context)>>>(
      numbers.data(), kspace.shape()[1], kspace.shape()[2], kspace.size(), device_view(kspace.data()));
  check_launch("scale_lines");
}

void component(Context& context, DeviceView<const cfloat> from, Component what, float factor, DeviceView<float> to,
               DeviceView<PixelTally> tally) {
  launch_component(context, from, what, factor, to, tally);
}

void component(Context& context, DeviceView<const cfloat> from, Component what, float factor,
               DeviceView<std::uint16_t> to, DeviceView<PixelTally> tally) {
  launch_component(context, from, what, factor, to, tally);
}

void scale(Context& context, DeviceView<const cfloat> from, float factor, DeviceView<cfloat> to,
           DeviceView<PixelTally> tally) {
  launch_scale(context, from, factor, to.data(), tally);
}

void tally(Context& context, DeviceView<const cfloat> from, DeviceView<PixelTally> tally) {
  launch_scale(context, from, 1, nullptr, tally);
}

}  // namespace echotrain::numerics::cuda
