#include <atomic>

#include "gadgets/numerics/mri/images/pixels_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kPixelGrain = 16 * 1024;

void add_counts(const PixelCounts& counts, PixelTally* tally) {
  if (tally == nullptr) return;
  const auto add_to = [](std::uint64_t& sum, unsigned count) {
    if (count > 0) std::atomic_ref(sum).fetch_add(count, std::memory_order_relaxed);
  };
  add_to(tally->not_finite, counts.not_finite);
  add_to(tally->saturated, counts.saturated);
  if (counts.any != 0) std::atomic_ref(tally->any).store(1, std::memory_order_relaxed);
}

template <class T>
void widen(Context& context, const T* pixels, std::int64_t n, cfloat* to) {
  context.threads().parallel_for(n, kPixelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = cfloat(pixels[i]);
  });
}

}  // namespace

void from_pixels(Context& context, const std::byte* from, PixelType type, std::int64_t n, cfloat* to) {
  with_pixels<cfloat, cdouble>(from, type, [&](const auto* pixels) { widen(context, pixels, n, to); });
}

template <class T>
void to_pixels(Context& context, const float* from, std::int64_t n, T* to, PixelTally* tally) {
  context.threads().parallel_for(n, kPixelGrain, [&](std::int64_t begin, std::int64_t end) {
    PixelCounts counts;
    for (std::int64_t i = begin; i < end; ++i) to[i] = counts.pixel<T>(from[i]);
    add_counts(counts, tally);
  });
}
template void to_pixels(Context&, const float*, std::int64_t, std::int16_t*, PixelTally*);
template void to_pixels(Context&, const float*, std::int64_t, std::uint32_t*, PixelTally*);
template void to_pixels(Context&, const float*, std::int64_t, std::int32_t*, PixelTally*);
template void to_pixels(Context&, const float*, std::int64_t, double*, PixelTally*);

void to_pixels(Context& context, const cfloat* from, std::int64_t n, cdouble* to, PixelTally* tally) {
  context.threads().parallel_for(n, kPixelGrain, [&](std::int64_t begin, std::int64_t end) {
    PixelCounts counts;
    for (std::int64_t i = begin; i < end; ++i) to[i] = counts.complex_pixel<cdouble>(from[i].real(), from[i].imag());
    add_counts(counts, tally);
  });
}

void invert(Context& context, const cfloat* from, std::int64_t n, const Inversion& how, cfloat* to) {
  context.threads().parallel_for(n, kPixelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = inverted(from[i].real(), from[i].imag(), how);
  });
}

void to_complex(Context& context, const float* from, std::int64_t n, cfloat* to) { widen(context, from, n, to); }

void with_phases(Context& context, const float* magnitudes, const cfloat* phases, std::int64_t n, cfloat* to) {
  context.threads().parallel_for(n, kPixelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      to[i] = with_phase<cfloat>(magnitudes[i], phases[i].real(), phases[i].imag());
  });
}

}  // namespace echotrain::numerics::cpu
