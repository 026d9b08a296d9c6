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

/// Views pixels of T, aligned as memory of a context is.
template <class T>
void widen(Context& context, const std::byte* from, std::int64_t n, cfloat* to) {
  const auto* pixels = reinterpret_cast<const T*>(from);
  context.threads().parallel_for(n, kPixelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = cfloat(pixels[i]);
  });
}

}  // namespace

void from_pixels(Context& context, const std::byte* from, PixelType type, std::int64_t n, cfloat* to) {
  switch (type) {
    case PixelType::u16:
      return widen<std::uint16_t>(context, from, n, to);
    case PixelType::i16:
      return widen<std::int16_t>(context, from, n, to);
    case PixelType::u32:
      return widen<std::uint32_t>(context, from, n, to);
    case PixelType::i32:
      return widen<std::int32_t>(context, from, n, to);
    case PixelType::f32:
      return widen<float>(context, from, n, to);
    case PixelType::f64:
      return widen<double>(context, from, n, to);
    case PixelType::c64:
      return widen<cfloat>(context, from, n, to);
    case PixelType::c128:
      return widen<cdouble>(context, from, n, to);
  }
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
    for (std::int64_t i = begin; i < end; ++i) {
      const unsigned before = counts.not_finite;
      to[i] = cdouble(counts.pixel<double>(from[i].real()), counts.pixel<double>(from[i].imag()));
      if (counts.not_finite > before + 1) counts.not_finite = before + 1;  // one pixel counts once
    }
    add_counts(counts, tally);
  });
}

void invert(Context& context, const cfloat* from, std::int64_t n, const Inversion& how, cfloat* to) {
  context.threads().parallel_for(n, kPixelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] = inverted(from[i].real(), from[i].imag(), how);
  });
}

void to_complex(Context& context, const float* from, std::int64_t n, cfloat* to) {
  widen<float>(context, reinterpret_cast<const std::byte*>(from), n, to);
}

void with_phases(Context& context, const float* magnitudes, const cfloat* phases, std::int64_t n, cfloat* to) {
  context.threads().parallel_for(n, kPixelGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      to[i] = with_phase<cfloat>(magnitudes[i], phases[i].real(), phases[i].imag());
  });
}

}  // namespace echotrain::numerics::cpu
