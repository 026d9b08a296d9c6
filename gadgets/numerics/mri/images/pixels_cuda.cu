#include <algorithm>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/mri/images/pixels_ops.h"

namespace echotrain::numerics::cuda {
namespace {

template <class T>
__device__ float2 complex_of(T value) {
  return make_float2(static_cast<float>(value), 0);
}
__device__ float2 complex_of(float2 value) { return value; }
__device__ float2 complex_of(double2 value) {
  return make_float2(static_cast<float>(value.x), static_cast<float>(value.y));
}

template <class T>
__global__ void widen_kernel(const T* from, std::int64_t n, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = complex_of(from[i]);
}

template <class T>
void widen(Context& context, const T* from, std::int64_t n, cfloat* to) {
  widen_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(from, n, device_view(to));
  check_launch("from_pixels");
}

/// Adds the counts of a thread to the tally.
__device__ void add_counts(const PixelCounts& counts, PixelTally* tally) {
  if (tally == nullptr) return;
  const auto add_to = [](std::uint64_t* sum, unsigned count) {
    if (count > 0) atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(count));
  };
  add_to(&tally->not_finite, counts.not_finite);
  add_to(&tally->saturated, counts.saturated);
  if (counts.any != 0) tally->any = 1;  // all threads write the same
}

template <class T>
__global__ void to_pixels_kernel(const float* from, std::int64_t n, T* to, PixelTally* tally) {
  PixelCounts counts;
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = counts.template pixel<T>(from[i]);
  add_counts(counts, tally);
}

__global__ void to_complex_pixels_kernel(const float2* from, std::int64_t n, double2* to, PixelTally* tally) {
  PixelCounts counts;
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = counts.template complex_pixel<double2>(from[i].x, from[i].y);
  add_counts(counts, tally);
}

__global__ void invert_kernel(const float2* from, std::int64_t n, Inversion how, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = make_float2(inverted(from[i].x, from[i].y, how), 0);
}

__global__ void with_phases_kernel(const float* magnitudes, const float2* phases, std::int64_t n, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, n) to[i] = with_phase<float2>(magnitudes[i], phases[i].x, phases[i].y);
}

/// Blocks for `n` pixels: so few that their sums do not queue for the tally's memory.
unsigned counting_blocks(std::int64_t n) { return std::min(blocks_for(n), 4096u); }

}  // namespace

void from_pixels(Context& context, const std::byte* from, PixelType type, std::int64_t n, cfloat* to) {
  with_pixels<float2, double2>(from, type, [&](const auto* pixels) { widen(context, pixels, n, to); });
}

template <class T>
void to_pixels(Context& context, const float* from, std::int64_t n, T* to, PixelTally* tally) {
  to_pixels_kernel<<<counting_blocks(n), kThreads, 0, stream_of(context)>>>(from, n, to, tally);
  check_launch("to_pixels");
}
template void to_pixels(Context&, const float*, std::int64_t, std::int16_t*, PixelTally*);
template void to_pixels(Context&, const float*, std::int64_t, std::uint32_t*, PixelTally*);
template void to_pixels(Context&, const float*, std::int64_t, std::int32_t*, PixelTally*);
template void to_pixels(Context&, const float*, std::int64_t, double*, PixelTally*);

void to_pixels(Context& context, const cfloat* from, std::int64_t n, cdouble* to, PixelTally* tally) {
  to_complex_pixels_kernel<<<counting_blocks(n), kThreads, 0, stream_of(context)>>>(
      device_view(from), n, reinterpret_cast<double2*>(to), tally);
  check_launch("to_pixels");
}

void invert(Context& context, const cfloat* from, std::int64_t n, const Inversion& how, cfloat* to) {
  invert_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(device_view(from), n, how, device_view(to));
  check_launch("invert");
}

void to_complex(Context& context, const float* from, std::int64_t n, cfloat* to) { widen(context, from, n, to); }

void with_phases(Context& context, const float* magnitudes, const cfloat* phases, std::int64_t n, cfloat* to) {
  with_phases_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(magnitudes, device_view(phases), n,
                                                                         device_view(to));
  check_launch("with_phases");
}

}  // namespace echotrain::numerics::cuda
