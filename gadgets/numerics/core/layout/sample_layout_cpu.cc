#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <type_traits>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/layout/sample_layout_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece: some 10 us of work

/// Transposes one coil-by-sample block, so small that both sides stay in the first-level cache.
ECHOTRAIN_CLONES void transpose(const cfloat* from, cfloat* to, std::int64_t coils, std::int64_t samples) {
  constexpr std::int64_t kBlock = 32;
  for (std::int64_t s0 = 0; s0 < samples; s0 += kBlock)
    for (std::int64_t c = 0; c < coils; ++c)
      for (std::int64_t s = s0; s < std::min(samples, s0 + kBlock); ++s) to[s * coils + c] = from[c * samples + s];
}

ECHOTRAIN_CLONES void add(const float* from, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += from[i];
}

ECHOTRAIN_CLONES void multiply(const float* from, float factor, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = factor * from[i];
}

/// |factor z|. The square of a float neither overflows nor vanishes in float64.
ECHOTRAIN_CLONES void magnitudes(const cfloat* from, float factor, float* to, std::int64_t n) {
  const auto* parts = reinterpret_cast<const float*>(from);
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = factor * parts[2 * i], y = factor * parts[2 * i + 1];
    to[i] = static_cast<float>(std::sqrt(x * x + y * y));
  }
}

/// A float's magnitude as an integer: larger floats have larger integers, and infinity and NaN have the largest.
ECHOTRAIN_INLINE std::uint32_t size_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }
constexpr std::uint32_t kNotFinite = 0x7f800000u;  // and above

/// The counts that one piece of an image adds to its tally.
struct Counts {
  std::uint32_t not_finite = 0, saturated = 0;
  std::uint32_t any = 0, any_rounded = 0;  // not 0 if any value (any rounded value) is nonzero
};

ECHOTRAIN_CLONES void count_values(const float* values, std::int64_t n, Counts& counts) {
  std::uint32_t not_finite = 0, any = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t size = size_of(values[i]);
    not_finite += size >= kNotFinite ? 1 : 0;
    any |= size;
  }
  counts.not_finite += not_finite;
  counts.any |= any;
}

/// Counts the values of factor * z.
ECHOTRAIN_CLONES void count_pairs(const cfloat* from, float factor, std::int64_t n, Counts& counts) {
  const auto* parts = reinterpret_cast<const float*>(from);
  std::uint32_t not_finite = 0, any = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t x = size_of(factor * parts[2 * i]), y = size_of(factor * parts[2 * i + 1]);
    not_finite += std::max(x, y) >= kNotFinite ? 1 : 0;
    any |= x | y;
  }
  counts.not_finite += not_finite;
  counts.any |= any;
}

void add(const Counts& counts, DeviceView<PixelTally> tally) {
  const auto add_to = [](std::uint64_t& sum, std::uint64_t count) {
    if (count > 0) std::atomic_ref(sum).fetch_add(count, std::memory_order_relaxed);
  };
  add_to(tally.data()->not_finite, counts.not_finite);
  add_to(tally.data()->saturated, counts.saturated);
  if (counts.any != 0) std::atomic_ref(tally.data()->any).store(1, std::memory_order_relaxed);
}

void store(const float* values, std::int64_t n, float* to, Counts& /*counts*/) { std::copy_n(values, n, to); }

void store(const float* values, std::int64_t n, std::uint16_t* to, Counts& counts) {
  constexpr float kMost = 65535.0f;
  std::uint32_t saturated = 0, any = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    // fmax() turns NaN into 0.
    to[i] = static_cast<std::uint16_t>(std::rint(std::fmin(std::fmax(values[i], 0.0f), kMost)));
    saturated += (values[i] >= kMost + 0.5f || values[i] < -0.5f) && size_of(values[i]) < kNotFinite ? 1 : 0;
    any |= to[i];
  }
  counts.saturated += saturated;
  counts.any_rounded |= any;
}

/// One component of factor * z, other than its magnitude.
void components(const cfloat* from, Component what, float factor, float* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const cfloat z = from[i] * factor;
    to[i] = what == Component::phase       ? std::atan2(z.imag(), z.real())
            : what == Component::imaginary ? z.imag()
                                           : z.real();
  }
}

template <class T>
void convert(Context& context, DeviceView<const cfloat> from, Component what, float factor, DeviceView<T> to,
             DeviceView<PixelTally> tally) {
  context.threads().parallel_for(from.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t kBlock = 512;
    float block[kBlock];
    Counts counts;
    for (; begin < end; begin += kBlock) {
      const std::int64_t n = std::min(kBlock, end - begin);
      const cfloat* values = from.data() + begin;
      if (what == Component::magnitude)
        magnitudes(values, factor, block, n);
      else
        components(values, what, factor, block, n);
      if (tally.size() > 0 && what == Component::magnitude) count_values(block, n, counts);
      if (tally.size() > 0 && what != Component::magnitude) count_pairs(values, factor, n, counts);
      store(block, n, to.data() + begin, counts);
    }
    if constexpr (std::is_same_v<T, std::uint16_t>) counts.any = counts.any_rounded;
    if (tally.size() > 0) add(counts, tally);
  });
}

}  // namespace

void to_sample_major(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to,
                     std::int64_t first_sample) {
  const std::int64_t coils = from.shape()[1], samples = from.shape()[2];
  const std::int64_t block = coils * samples;
  context.threads().parallel_for(
      from.shape()[0], std::max<std::int64_t>(1, kGrain / block), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          transpose(from.data() + i * block, to.data() + (first_sample + i * samples) * coils, coils, samples);
      });
}

void add_lines(Context& context, DeviceView<const cfloat> from, HostView<const std::int32_t> lines,
               const LinePlacement& placement, DeviceView<cfloat> kspace) {
  const std::int64_t readouts = from.shape()[0], coils = from.shape()[1], samples = from.shape()[2];
  const std::int64_t height = kspace.shape()[1], width = kspace.shape()[2];
  const std::int64_t n = placement.last_sample - placement.first_sample;
  // Each coil belongs to one thread, which adds the readouts in order.
  context.threads().parallel_for(
      coils, std::max<std::int64_t>(1, kGrain / (readouts * n)), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t c = begin; c < end; ++c)
          for (std::int64_t i = 0; i < readouts; ++i)
            if (lines[i] >= 0)
              add(reinterpret_cast<const float*>(from.data() + (i * coils + c) * samples + placement.first_sample),
                  reinterpret_cast<float*>(kspace.data() + (c * height + lines[i]) * width + placement.first_x), 2 * n);
      });
}

void scale_lines(Context& context, HostView<const float> factors, DeviceView<cfloat> kspace) {
  const std::int64_t height = kspace.shape()[1], width = kspace.shape()[2];
  context.threads().parallel_for(kspace.shape()[0] * height, std::max<std::int64_t>(1, kGrain / width),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t row = begin; row < end; ++row) {
                                     auto* line = reinterpret_cast<float*>(kspace.data() + row * width);
                                     multiply(line, factors[row % height], line, 2 * width);
                                   }
                                 });
}

void component(Context& context, DeviceView<const cfloat> from, Component what, float factor, DeviceView<float> to,
               DeviceView<PixelTally> tally) {
  convert(context, from, what, factor, to, tally);
}

void component(Context& context, DeviceView<const cfloat> from, Component what, float factor,
               DeviceView<std::uint16_t> to, DeviceView<PixelTally> tally) {
  convert(context, from, what, factor, to, tally);
}

void scale(Context& context, DeviceView<const cfloat> from, float factor, DeviceView<cfloat> to,
           DeviceView<PixelTally> tally) {
  context.threads().parallel_for(from.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    multiply(reinterpret_cast<const float*>(from.data() + begin), factor, reinterpret_cast<float*>(to.data() + begin),
             2 * (end - begin));
    if (tally.size() == 0) return;
    Counts counts;
    count_pairs(to.data() + begin, 1, end - begin, counts);
    add(counts, tally);
  });
}

void tally(Context& context, DeviceView<const cfloat> from, DeviceView<PixelTally> tally) {
  context.threads().parallel_for(from.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    Counts counts;
    count_pairs(from.data() + begin, 1, end - begin, counts);
    add(counts, tally);
  });
}

}  // namespace echotrain::numerics::cpu
