#include <algorithm>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kUnmixRows = 4;

/// Values of kHybridLanes columns.
struct LaneValues {
  float re[kHybridLanes], im[kHybridLanes];
};

/// A tile of kUnmixRows rows of kHybridLanes columns, of all coils.
struct UnmixTile {
  const LaneValues* kernels;  // [source, coil, source coil]
  std::int64_t sources, coils;
  const float* phases;     // [source, re and im, kUnmixRows]
  const LaneValues* maps;  // [coil, kUnmixRows]
  LaneValues* to;          // [coil, kUnmixRows]
};

/// to[c'] = conj(sum_c conj(S_c) (1 if c = c' + sum_source g[c, c'](source) phase(source)))
template <int kVectorBytes>
ECHOTRAIN_INLINE void unmix_tile_by(const UnmixTile& w) {
  using Columns [[gnu::vector_size(kVectorBytes), gnu::may_alias, gnu::aligned(4)]] = float;
  constexpr std::int64_t kAtOnce = kVectorBytes / sizeof(float);
  static_assert(kHybridLanes % kAtOnce == 0);
  struct Values {
    Columns re, im;
  };
  const std::int64_t per_source = w.coils * w.coils;
  for (std::int64_t from = 0; from < w.coils; ++from)
    for (std::int64_t first = 0; first < kHybridLanes; first += kAtOnce) {
      const auto at = [first](const float* lanes) ECHOTRAIN_INLINE_LAMBDA -> const Columns& {
        return *reinterpret_cast<const Columns*>(lanes + first);
      };
      Values sum[kUnmixRows] = {};
      for (std::int64_t c = 0; c < w.coils; ++c) {
        Values g[kUnmixRows] = {};
        if (c == from)
          for (Values& row : g) row.re += 1.0f;
        const LaneValues* kernel = w.kernels + c * w.coils + from;
        for (std::int64_t s = 0; s < w.sources; ++s) {
          const Columns re = at(kernel[s * per_source].re), im = at(kernel[s * per_source].im);
          const float* phase = w.phases + s * 2 * kUnmixRows;
          for (std::int64_t r = 0; r < kUnmixRows; ++r) {
            g[r].re += phase[r] * re - phase[kUnmixRows + r] * im;
            g[r].im += phase[r] * im + phase[kUnmixRows + r] * re;
          }
        }
        for (std::int64_t r = 0; r < kUnmixRows; ++r) {
          const Columns re = at(w.maps[c * kUnmixRows + r].re), im = at(w.maps[c * kUnmixRows + r].im);
          sum[r].re += re * g[r].re + im * g[r].im;
          sum[r].im += im * g[r].re - re * g[r].im;
        }
      }
      for (std::int64_t r = 0; r < kUnmixRows; ++r) {
        LaneValues& to = w.to[from * kUnmixRows + r];
        *reinterpret_cast<Columns*>(to.re + first) = sum[r].re;
        *reinterpret_cast<Columns*>(to.im + first) = sum[r].im;
      }
    }
}

ECHOTRAIN_VECTOR_CLONES(void unmix_tile(const UnmixTile& w), unmix_tile_by<kVectorBytes>(w))

}  // namespace

void unmixing(Context& context, const UnmixingWork& work) {
  const std::int64_t coils = work.coils, nz = work.nz, ny = work.ny, nx = work.nx;
  const std::int64_t down = (ny + kUnmixRows - 1) / kUnmixRows, across = (nx + kHybridLanes - 1) / kHybridLanes;
  context.threads().parallel_for(across * nz * down, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> phases(static_cast<std::size_t>(work.sources * 2 * kUnmixRows));
    std::vector<LaneValues> map(static_cast<std::size_t>(coils * kUnmixRows)), result(map.size());
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t block = i / down / nz, z = i / down % nz, y = i % down * kUnmixRows;
      const std::int64_t rows = std::min(kUnmixRows, ny - y), width = std::min(kHybridLanes, nx - block * kHybridLanes);
      for (std::int64_t s = 0; s < work.sources; ++s)
        for (std::int64_t r = 0; r < rows; ++r) {
          const cfloat phase = work.along_y[s * ny + y + r] * work.along_z[s * nz + z];
          phases[static_cast<std::size_t>(s * 2 * kUnmixRows + r)] = phase.real();
          phases[static_cast<std::size_t>((s * 2 + 1) * kUnmixRows + r)] = phase.imag();
        }
      std::fill(map.begin(), map.end(), LaneValues{});
      const auto at = [&](std::int64_t c, std::int64_t r) {
        return ((c * nz + z) * ny + y + r) * nx + block * kHybridLanes;
      };
      for (std::int64_t c = 0; c < coils; ++c)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t x = 0; x < width; ++x) {
            const cfloat s = work.maps[at(c, r) + x];
            map[static_cast<std::size_t>(c * kUnmixRows + r)].re[x] = s.real();
            map[static_cast<std::size_t>(c * kUnmixRows + r)].im[x] = s.imag();
          }
      unmix_tile(
          {.kernels = reinterpret_cast<const LaneValues*>(work.kernels) + block * work.all_sources * coils * coils,
           .sources = work.sources,
           .coils = coils,
           .phases = phases.data(),
           .maps = map.data(),
           .to = result.data()});
      for (std::int64_t c = 0; c < coils; ++c)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t x = 0; x < width; ++x) {
            const LaneValues& u = result[static_cast<std::size_t>(c * kUnmixRows + r)];
            work.to[at(c, r) + x] = cfloat(u.re[x], u.im[x]);
          }
    }
  });
}

}  // namespace echotrain::numerics::cpu
