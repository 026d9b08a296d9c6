#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/numerics/mri/ultrasound/plane_wave_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece

cdouble turn(double cycles) {
  const double angle = 2 * std::numbers::pi * (cycles - std::floor(cycles));
  return {std::cos(angle), std::sin(angle)};
}

/// The product is written out, because that of std::complex checks for infinities.
cfloat product(cfloat a, cfloat b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

}  // namespace

void take_band(Context& context, DeviceView<const cfloat> spectra, DeviceView<const double> advances,
               const EchoBand& which, DeviceView<cfloat> band) {
  // Rows of a block are written element by element, so that the block stays in the cache and spectra are read in order.
  constexpr std::int64_t kBlock = 16;
  const std::int64_t elements = spectra.shape()[0], waves = spectra.shape()[1], bins = spectra.shape()[2];
  const std::int64_t count = band.shape()[1], columns = band.shape()[2], blocks = (count + kBlock - 1) / kBlock;
  context.threads().parallel_for(waves * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t w = piece / blocks, first = piece % blocks * kBlock, last = std::min(count, first + kBlock);
      cfloat* rows = band.data() + w * count * columns;
      for (std::int64_t e = 0; e < elements; ++e) {
        const cfloat* trace = spectra.data() + (e * waves + w) * bins;
        const double advance = advances.data()[w * elements + e];
        cdouble phase = turn((which.first_hz + static_cast<double>(first) * which.step_hz) * advance);
        const cdouble step = turn(which.step_hz * advance);
        for (std::int64_t k = first; k < last; ++k) {
          rows[k * columns + e] = product(trace[(which.first_bin + k) % bins], cfloat(phase));
          phase = {phase.real() * step.real() - phase.imag() * step.imag(),
                   phase.real() * step.imag() + phase.imag() * step.real()};
        }
      }
      for (std::int64_t k = first; k < last; ++k) std::fill_n(rows + k * columns + elements, columns - elements, 0);
    }
  });
}

void multiply(Context& context, DeviceView<const cfloat> factors, DeviceView<cfloat> data) {
  context.threads().parallel_for(data.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) data.data()[i] = product(data.data()[i], factors.data()[i]);
  });
}

void mean_of_channels(Context& context, DeviceView<const cfloat> from, bool magnitudes, DeviceView<cfloat> to) {
  const std::int64_t channels = from.shape()[0], n = to.size();
  const float share = 1.0f / static_cast<float>(channels);
  context.threads().parallel_for(n, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      cfloat sum = 0;
      for (std::int64_t c = 0; c < channels; ++c) {
        const cfloat value = from.data()[c * n + i];
        sum += magnitudes ? cfloat(std::hypot(value.real(), value.imag())) : value;
      }
      to.data()[i] = sum * share;
    }
  });
}

void log_compress(Context& context, DeviceView<const cfloat> from, float reference, float range,
                  DeviceView<cfloat> to) {
  context.threads().parallel_for(to.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float magnitude = std::hypot(from.data()[i].real(), from.data()[i].imag());
      to.data()[i] = std::max(0.0f, range + 20 * std::log10(magnitude / reference));
    }
  });
}

}  // namespace echotrain::numerics::cpu
