#include "gadgets/numerics/parallel/unmixing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics {
namespace {

constexpr std::int64_t kUnmixRows = 4;

using ColumnLanes [[gnu::vector_size(kHybridLanes * sizeof(float)), gnu::may_alias, gnu::aligned(4)]] = float;
struct LaneValues {
  ColumnLanes re, im;
};

/// kUnmixRows rows of kHybridLanes columns, of all coils.
struct UnmixTile {
  const LaneValues* kernels;  // [source, coil, source coil]
  std::int64_t sources, coils;
  const float* phases;     // [source, re and im, kUnmixRows]
  const LaneValues* maps;  // [coil, kUnmixRows]
  LaneValues* to;          // [coil, kUnmixRows]
};

/// to[c'] = conj(sum_c conj(S_c) (1 if c = c' + sum_source g[c, c'](source) phase(source)))
ECHOTRAIN_CLONES void unmix_tile(const UnmixTile& w) {
  const std::int64_t per_source = w.coils * w.coils;
  for (std::int64_t from = 0; from < w.coils; ++from) {
    LaneValues sum[kUnmixRows] = {};
    for (std::int64_t c = 0; c < w.coils; ++c) {
      LaneValues g[kUnmixRows] = {};
      if (c == from)
        for (LaneValues& row : g) row.re += 1.0f;
      const LaneValues* kernel = w.kernels + c * w.coils + from;
      for (std::int64_t s = 0; s < w.sources; ++s) {
        const ColumnLanes re = kernel[s * per_source].re, im = kernel[s * per_source].im;
        const float* phase = w.phases + s * 2 * kUnmixRows;
        for (std::int64_t r = 0; r < kUnmixRows; ++r) {
          g[r].re += phase[r] * re - phase[kUnmixRows + r] * im;
          g[r].im += phase[r] * im + phase[kUnmixRows + r] * re;
        }
      }
      for (std::int64_t r = 0; r < kUnmixRows; ++r) {
        const ColumnLanes re = w.maps[c * kUnmixRows + r].re, im = w.maps[c * kUnmixRows + r].im;
        sum[r].re += re * g[r].re + im * g[r].im;
        sum[r].im += im * g[r].re - re * g[r].im;
      }
    }
    for (std::int64_t r = 0; r < kUnmixRows; ++r) w.to[from * kUnmixRows + r] = sum[r];
  }
}

}  // namespace

Array<cfloat> unmixing(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                       DeviceView<const cfloat> maps, const LineGeometry& geometry) {
  const std::int64_t coils = kernels.coils, nz = geometry.image[0], ny = geometry.image[1], nx = geometry.image[2];
  if (!(maps.shape() == Shape{coils, nz, ny, nx}))
    throw std::invalid_argument(fmt::format("unmixing: expected maps of {} coils for an image of {}, got {}", coils,
                                            geometry.image.text(), maps.shape().text()));
  context.check_stop();
  const HostArray<cfloat> host_maps = context.download<cfloat>(maps);
  const HostArray<float> host_kernels = context.download<float>(hybrid.values.cview());
  HostArray<cfloat> to = context.allocate_host<cfloat>({coils, nz, ny, nx});

  // Only kernels with all their sources: one for each class.
  std::vector<RowStep> steps;
  for (std::int64_t of = 1; of < kernels.lattice.size(); ++of)
    for (const RowStep& s : kernels.kernels[static_cast<std::size_t>(of - 1)].sources) steps.push_back(s);
  const auto sources = static_cast<std::int64_t>(steps.size());
  const std::int64_t down = (ny + kUnmixRows - 1) / kUnmixRows, across = hybrid.blocks();
  context.threads().parallel_for(across * nz * down, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> phases(static_cast<std::size_t>(sources * 2 * kUnmixRows));
    std::vector<LaneValues> map(static_cast<std::size_t>(coils * kUnmixRows)), result(map.size());
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t block = i / down / nz, z = i / down % nz, y = i % down * kUnmixRows;
      const std::int64_t rows = std::min(kUnmixRows, ny - y), width = std::min(kHybridLanes, nx - block * kHybridLanes);
      for (std::int64_t s = 0; s < sources; ++s)
        for (std::int64_t r = 0; r < kUnmixRows; ++r) {
          const RowStep& step = steps[static_cast<std::size_t>(s)];
          const double turns =
              static_cast<double>(step[0] * (y + r - ny / 2)) / static_cast<double>(geometry.padded[1]) +
              static_cast<double>(step[1] * (z - nz / 2)) / static_cast<double>(geometry.padded[0]);
          phases[static_cast<std::size_t>(s * 2 * kUnmixRows + r)] =
              static_cast<float>(std::cos(2 * std::numbers::pi * turns));
          phases[static_cast<std::size_t>((s * 2 + 1) * kUnmixRows + r)] =
              static_cast<float>(std::sin(2 * std::numbers::pi * turns));
        }
      std::fill(map.begin(), map.end(), LaneValues{});
      const auto at = [&](std::int64_t c, std::int64_t r) {
        return ((c * nz + z) * ny + y + r) * nx + block * kHybridLanes;
      };
      for (std::int64_t c = 0; c < coils; ++c)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t x = 0; x < width; ++x) {
            const cfloat s = host_maps.data()[at(c, r) + x];
            map[static_cast<std::size_t>(c * kUnmixRows + r)].re[x] = s.real();
            map[static_cast<std::size_t>(c * kUnmixRows + r)].im[x] = s.imag();
          }
      unmix_tile({.kernels = reinterpret_cast<const LaneValues*>(host_kernels.data()) +
                             block * hybrid.sources() * coils * coils,
                  .sources = sources,
                  .coils = coils,
                  .phases = phases.data(),
                  .maps = map.data(),
                  .to = result.data()});
      for (std::int64_t c = 0; c < coils; ++c)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t x = 0; x < width; ++x) {
            const LaneValues& u = result[static_cast<std::size_t>(c * kUnmixRows + r)];
            to.data()[at(c, r) + x] = cfloat(u.re[x], u.im[x]);
          }
    }
  });
  return context.place<cfloat>(to);
}

}  // namespace echotrain::numerics
