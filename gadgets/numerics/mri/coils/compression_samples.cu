#include "gadgets/numerics/core/map.cuh"
#include "gadgets/numerics/mri/coils/compression.h"

namespace echotrain::numerics {

constexpr int kSampleLanes = 256;  // samples worked on at a time, so that sums stay in the cache

/// The lower triangle of the Gram matrices, and the upper one, its mirror image.
struct CoilGrams {
  static constexpr int kLanes[] = {0, 0, kSampleLanes};
  static constexpr bool kClones = true;
  const cfloat* data;
  std::int64_t readouts, coils, samples;
  cdouble* grams;

  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t a, std::int64_t b, Lanes<kMost> s) const {
    if (b > a) return;
    auto *const sum = parts(a, b, s.first), *const mirrored = parts(b, a, s.first);
    double re[kMost], im[kMost];
    for (int l = 0; l < s.count; ++l) re[l] = sum[2 * l], im[l] = sum[2 * l + 1];
    for (std::int64_t r = 0; r < readouts; ++r) {
      const cfloat *const of_a = data + (r * coils + a) * samples + s.first, *const of_b = data +
                                                                                           (r * coils + b) * samples +
                                                                                           s.first;
      for (int l = 0; l < s.count; ++l) {
        const Complex u = load(of_a + l), v = load(of_b + l);
        const double ur = u.re, ui = u.im, vr = v.re, vi = v.im;
        re[l] += ur * vr + ui * vi;
        im[l] += ui * vr - ur * vi;
      }
    }
    for (int l = 0; l < s.count; ++l) {
      if (b < a) mirrored[2 * l] = re[l], mirrored[2 * l + 1] = -im[l];
      sum[2 * l] = re[l], sum[2 * l + 1] = im[l];
    }
  }
  ECHOTRAIN_HOST_DEVICE double* parts(std::int64_t a, std::int64_t b, std::int64_t first) const {
    return reinterpret_cast<double*>(grams + (a * coils + b) * samples + first);
  }
};
ECHOTRAIN_MAP(CoilGrams, 3)

/// Samples of virtual coils.
struct VirtualCoils {
  const cfloat *matrix, *data;
  std::int64_t coils, samples, kept;
  cfloat* to;

  template <int kMost, class Factor>
  ECHOTRAIN_EACH void add_up(std::int64_t readout, std::int64_t k, Lanes<kMost> s, const Factor& factor) const {
    ComplexLanes<kMost> sums;
    sums.clear(s.count);
    for (std::int64_t c = 0; c < coils; ++c) {
      const cfloat* const from = data + (readout * coils + c) * samples + s.first;
      for (int l = 0; l < s.count; ++l) sums.put(l, sums.at(l) + factor(c, l) * load(from + l));
    }
    for (int l = 0; l < s.count; ++l) store(sums.at(l), to + (readout * kept + k) * samples + s.first + l);
  }
};

/// One matrix for all samples.
struct Compressed : VirtualCoils {
  static constexpr int kLanes[] = {0, 0, kSampleLanes};
  static constexpr bool kClones = true;
  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t readout, std::int64_t k, Lanes<kMost> s) const {
    const cfloat* const row = matrix + k * coils;
    add_up(readout, k, s, [row](std::int64_t c, int) { return load(row + c); });
  }
};
ECHOTRAIN_MAP(Compressed, 3)

/// A matrix for each sample.
struct CompressedByEach : VirtualCoils {
  static constexpr int kLanes[] = {0, 0, kSampleLanes};
  static constexpr bool kClones = true;
  template <int kMost>
  ECHOTRAIN_EACH void operator()(std::int64_t readout, std::int64_t k, Lanes<kMost> s) const {
    const cfloat* const row = matrix + k * coils * samples + s.first;
    add_up(readout, k, s, [row, each = samples](std::int64_t c, int l) { return load(row + c * each + l); });
  }
};
ECHOTRAIN_MAP(CompressedByEach, 3)

}  // namespace echotrain::numerics

#ifndef __CUDACC__

#include <fmt/format.h>

#include <stdexcept>

namespace echotrain::numerics {

void add_coil_grams(Context& context, DeviceView<const cfloat> data, DeviceView<cdouble> grams) {
  const Shape &d = data.shape(), &g = grams.shape();
  if (d.rank() != 3 || g.rank() != 3 || g[0] != d[1] || g[1] != d[1] || g[2] != d[2])
    throw std::invalid_argument(
        fmt::format("add_coil_grams: expected [readout, coil, sample] and [coil, coil, sample], got {} and {}",
                    d.text(), g.text()));
  map(context, {d[1], d[1], d[2]}, CoilGrams{data.data(), d[0], d[1], d[2], grams.data()}, d[1] * d[2]);
}

void compress(Context& context, DeviceView<const cfloat> matrix, DeviceView<const cfloat> data, DeviceView<cfloat> to) {
  const Shape &m = matrix.shape(), &d = data.shape(), &t = to.shape();
  bool good = d.rank() == 3 && t.rank() == 3 && (m.rank() == 2 || m.rank() == 3);
  good = good && m[1] == d[1] && t[0] == d[0] && t[1] == m[0] && t[2] == d[2] && (m.rank() == 2 || m[2] == d[2]);
  if (!good)
    throw std::invalid_argument(
        fmt::format("compress: expected a matrix [kept, coil] or [kept, coil, sample], [readout, coil, sample] and "
                    "[readout, kept, sample], got {}, {} and {}",
                    m.text(), d.text(), t.text()));
  constexpr std::int64_t kLeast = 32 * 1024;  // products that make a piece worth a thread
  const std::int64_t grain = d[1] == 0 ? kMapGrain : kLeast / d[1];
  const VirtualCoils work{matrix.data(), data.data(), d[1], d[2], t[1], to.data()};
  if (m.rank() == 3)
    map(context, {t[0], t[1], t[2]}, CompressedByEach{work}, grain);
  else
    map(context, {t[0], t[1], t[2]}, Compressed{work}, grain);
}

}  // namespace echotrain::numerics
#endif
