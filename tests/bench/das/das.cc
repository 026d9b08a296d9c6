#include "tests/bench/das/das.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain::bench {
namespace {

using numerics::cfloat;

}  // namespace

DelayAndSum::DelayAndSum(numerics::Context& context, DasSetting setting)
    : context_(context), setting_(std::move(setting)) {
  bins_ = 2 * setting_.samples;
  baseband_ = context_.zeros<cfloat>({setting_.elements, bins_});
  for (const double z : setting_.z)
    for (std::int64_t e = 0; e < setting_.elements; ++e) {
      const double place = (static_cast<double>(e) - static_cast<double>(setting_.elements - 1) / 2) * setting_.pitch;
      for (const double x : setting_.x) {
        const double time = (z + std::hypot(x - place, z)) / setting_.sound;
        const double at = (time - setting_.first_sample) * setting_.sampling;
        const double cycles = setting_.center * (time - setting_.first_sample);
        Read read{0, 0, 0, 0};
        if (at >= 0 && at < static_cast<double>(setting_.samples - 1)) {
          const double angle = 2 * std::numbers::pi * (cycles - std::floor(cycles));
          const auto share = static_cast<float>(1.0 / static_cast<double>(setting_.elements));
          read.sample = static_cast<std::int32_t>(at);
          read.behind = static_cast<float>(at - std::floor(at));
          read.re = share * static_cast<float>(std::cos(angle));
          read.im = share * static_cast<float>(std::sin(angle));
        }
        reads_.push_back(read);
      }
    }
}

/// exp(-2 pi i center t) times the analytic signal, whose frequencies are the Nyquist zone of the centre frequency.
void DelayAndSum::demodulate(numerics::HostView<const cfloat> traces) {
  const std::int64_t samples = setting_.samples, half = bins_ / 2;
  const auto zone = static_cast<std::int64_t>(std::floor(setting_.center / (setting_.sampling / 2)));
  const std::int64_t shift = std::llround(setting_.center / setting_.sampling * static_cast<double>(bins_));
  numerics::Array<cfloat> spectra = context_.zeros<cfloat>({setting_.elements, bins_});
  for (std::int64_t e = 0; e < setting_.elements; ++e)
    std::copy_n(traces.data() + e * samples, samples, spectra.data() + e * bins_);
  numerics::fft(context_, spectra.view(), 1, numerics::Direction::forward);
  context_.clear(baseband_.view());
  const float scale = 2.0f / static_cast<float>(bins_);
  context_.threads().parallel_for(setting_.elements, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t e = begin; e < end; ++e)
      for (std::int64_t j = zone * half; j < (zone + 1) * half; ++j)
        baseband_.data()[e * bins_ + ((j - shift) % bins_ + bins_) % bins_] =
            scale * spectra.data()[e * bins_ + j % bins_];
  });
  numerics::fft(context_, baseband_.view(), 1, numerics::Direction::inverse);
}

void DelayAndSum::image(numerics::HostView<const cfloat> traces, numerics::HostView<cfloat> image) {
  demodulate(traces);
  const auto nx = static_cast<std::int64_t>(setting_.x.size()), nz = static_cast<std::int64_t>(setting_.z.size());
  context_.threads().parallel_for(nz, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      cfloat* out = image.data() + row * nx;
      std::fill_n(out, nx, 0);
      for (std::int64_t e = 0; e < setting_.elements; ++e) {
        const Read* reads = reads_.data() + (row * setting_.elements + e) * nx;
        const cfloat* trace = baseband_.data() + e * bins_;
        for (std::int64_t x = 0; x < nx; ++x) {
          const Read& read = reads[x];
          const cfloat a = trace[read.sample], b = trace[read.sample + 1];
          const float re = a.real() + read.behind * (b.real() - a.real()),
                      im = a.imag() + read.behind * (b.imag() - a.imag());
          out[x] += cfloat(re * read.re - im * read.im, re * read.im + im * read.re);
        }
      }
    }
  });
}

}  // namespace echotrain::bench
