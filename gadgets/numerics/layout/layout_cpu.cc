#include <algorithm>
#include <cmath>
#include <iterator>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/layout/layout_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece: some 10 us of work

/// One coil-by-sample block, transposed so that both sides stay in the first-level cache.
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

template <class Store>
void convert_magnitudes(DeviceView<const cfloat> from, float factor, std::int64_t begin, std::int64_t end,
                        const Store& store) {
  float block[512];
  constexpr std::int64_t kBlock = std::size(block);
  for (; begin < end; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, end - begin);
    magnitudes(from.data() + begin, factor, block, n);
    for (std::int64_t i = 0; i < n; ++i) store(begin + i, block[i]);
  }
}

template <class Store>
void convert(Context& context, DeviceView<const cfloat> from, Component what, float factor, const Store& store) {
  context.threads().parallel_for(from.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (what == Component::magnitude) return convert_magnitudes(from, factor, begin, end, store);
    for (std::int64_t i = begin; i < end; ++i) {
      const cfloat z = from.data()[i] * factor;
      float value = 0;
      switch (what) {
        case Component::phase:
          value = std::atan2(z.imag(), z.real());
          break;
        case Component::imaginary:
          value = z.imag();
          break;
        case Component::real:
        case Component::complex:
        case Component::magnitude:
          value = z.real();
          break;
      }
      store(i, value);
    }
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

void component(Context& context, DeviceView<const cfloat> from, Component what, float factor, DeviceView<float> to) {
  convert(context, from, what, factor, [to](std::int64_t i, float value) { to.data()[i] = value; });
}

void component(Context& context, DeviceView<const cfloat> from, Component what, float factor,
               DeviceView<std::uint16_t> to) {
  convert(context, from, what, factor, [to](std::int64_t i, float value) {
    // Written so that NaN becomes 0.
    to.data()[i] = static_cast<std::uint16_t>(std::rint(std::fmin(std::fmax(value, 0.0f), 65535.0f)));
  });
}

void scale(Context& context, DeviceView<const cfloat> from, float factor, DeviceView<cfloat> to) {
  context.threads().parallel_for(from.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    multiply(reinterpret_cast<const float*>(from.data() + begin), factor, reinterpret_cast<float*>(to.data() + begin),
             2 * (end - begin));
  });
}

}  // namespace echotrain::numerics::cpu
