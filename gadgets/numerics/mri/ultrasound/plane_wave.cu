#include <cmath>
#include <numbers>

#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/ultrasound/plane_wave.h"

namespace echotrain::numerics {

/// A number exp(2 pi i cycles), whose whole cycles are left out in float64, as phases are tens of cycles.
struct Turn {
  double re, im;
  ECHOTRAIN_HOST_DEVICE static Turn of(double cycles) {
    const double part = cycles - floor(cycles);
    Turn turn;
#ifdef __CUDA_ARCH__
    float re, im;  // as exact as the samples that they multiply
    sincospif(2 * static_cast<float>(part), &im, &re);
    turn.re = re, turn.im = im;
#else
    turn.re = std::cos(2 * std::numbers::pi * part);
    turn.im = std::sin(2 * std::numbers::pi * part);
#endif
    return turn;
  }
};

/// Rows of a block are written element by element, so that the block stays in the cache and spectra are read in order.
struct TakenBand {
  static constexpr int kLanes[] = {0, 16, 0};
  const cfloat* spectra;
  const double* advances;
  EchoBand which;
  std::int64_t elements, waves, bins, count, columns;
  cfloat* band;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t w, Lanes<kMost> k, std::int64_t e) const {
    cfloat* const to = band + (w * count + k.first) * columns + e;
    if (e >= elements) {
      for (int l = 0; l < k.count; ++l) store({0, 0}, to + l * columns);
      return;
    }
    const cfloat* trace = spectra + (e * waves + w) * bins;
    const double advance = advances[w * elements + e];
    Turn phase = Turn::of((which.first_hz + static_cast<double>(k.first) * which.step_hz) * advance);
    const Turn step = kMost > 1 ? Turn::of(which.step_hz * advance) : Turn{};
    for (int l = 0; l < k.count; ++l) {
      const Complex now{static_cast<float>(phase.re), static_cast<float>(phase.im)};
      store(load(trace + (which.first_bin + k.first + l) % bins) * now, to + l * columns);
      phase = {phase.re * step.re - phase.im * step.im, phase.re * step.im + phase.im * step.re};
    }
  }
};
ECHOTRAIN_MAP(TakenBand, 3)

struct Multiplied {
  const cfloat* factors;
  cfloat* data;
  ECHOTRAIN_EACH void operator()(std::int64_t i) const { store(load(data + i) * load(factors + i), data + i); }
};
ECHOTRAIN_MAP(Multiplied, 1)

struct MeanOfChannels {
  static constexpr bool kClones = true;
  const cfloat* from;
  std::int64_t channels, n;
  bool magnitudes;
  float share;
  cfloat* to;
  ECHOTRAIN_EACH void operator()(std::int64_t i) const {
    Complex sum{0, 0};
    for (std::int64_t c = 0; c < channels; ++c) {
      const Complex value = load(from + c * n + i);
      sum = sum + (magnitudes ? Complex{hypotf(value.re, value.im), 0} : value);
    }
    store(share * sum, to + i);
  }
};
ECHOTRAIN_MAP(MeanOfChannels, 1)

struct LogCompressed {
  const cfloat* from;
  float reference, range;
  cfloat* to;
  ECHOTRAIN_EACH void operator()(std::int64_t i) const {
    const Complex value = load(from + i);
    const float level = range + 20 * log10f(hypotf(value.re, value.im) / reference);
    store({level > 0 ? level : 0.0f, 0}, to + i);
  }
};
ECHOTRAIN_MAP(LogCompressed, 1)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

namespace echotrain::numerics {

void take_band(Context& context, DeviceView<const cfloat> spectra, DeviceView<const double> advances,
               const EchoBand& which, DeviceView<cfloat> band) {
  const Shape &s = spectra.shape(), &b = band.shape(), &a = advances.shape();
  const bool good = s.rank() == 3 && b.rank() == 3 && a.rank() == 2 && b[0] == s[1] && a[0] == s[1] && a[1] == s[0] &&
                    b[1] <= s[2] && b[2] >= s[0] && which.first_bin >= 0 && which.first_bin < s[2];
  if (!good)
    throw std::invalid_argument(fmt::format("take_band: {} cannot be taken from bin {} of {} with advances {}",
                                            b.text(), which.first_bin, s.text(), a.text()));
  map(context, {b[0], b[1], b[2]},
      TakenBand{spectra.data(), advances.data(), which, s[0], s[1], s[2], b[1], b[2], band.data()}, 16 * b[2]);
}

void multiply(Context& context, DeviceView<const cfloat> factors, DeviceView<cfloat> data) {
  if (factors.size() != data.size())
    throw std::invalid_argument("multiply " + data.shape().text() + " by " + factors.shape().text());
  map(context, {data.size()}, Multiplied{factors.data(), data.data()});
}

void mean_of_channels(Context& context, DeviceView<const cfloat> from, bool magnitudes, DeviceView<cfloat> to) {
  const Shape &f = from.shape(), &t = to.shape();
  if (f.rank() != 4 || t.rank() != 4 || f[0] < 1 || !(t == Shape{1, f[1], f[2], f[3]}))
    throw std::invalid_argument("mean_of_channels: " + f.text() + " to " + t.text());
  const float share = 1.0f / static_cast<float>(f[0]);
  map(context, {to.size()}, MeanOfChannels{from.data(), f[0], to.size(), magnitudes, share, to.data()});
}

void log_compress(Context& context, DeviceView<const cfloat> from, float reference, float range,
                  DeviceView<cfloat> to) {
  if (from.size() != to.size() || !(reference > 0) || !(range > 0))
    throw std::invalid_argument(fmt::format("log_compress: {} to {}, reference {}, range {}", from.shape().text(),
                                            to.shape().text(), reference, range));
  map(context, {to.size()}, LogCompressed{from.data(), reference, range, to.data()});
}

}  // namespace echotrain::numerics
#endif
