#include <algorithm>
#include <cmath>
#include <vector>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/transforms/scatter/scatter_ops.h"

namespace echotrain::numerics::cpu {
namespace {

/// Pieces of work: the grid's rows are cut into bands, so that scans with few coils keep many threads busy.
constexpr std::int64_t kPieces = 16;

/// The footprints of a frame's samples, in memory that the next frame reuses.
struct Footprints {
  Array<std::int32_t> starts;  // [sample, 2]: y, x
  Array<float> weights;        // [sample, 2, width]
  Array<cfloat> lags;          // working space of scattered_lags()
};

/// to[x] += value weights[x], x < width, of complex numbers.
ECHOTRAIN_INLINE void add_row(float re, float im, const float* weights, std::int32_t width, float* to) {
  for (std::int32_t x = 0; x < width; ++x) {
    to[2 * x] += re * weights[x];
    to[2 * x + 1] += im * weights[x];
  }
}

struct Band {
  std::int32_t first, last;  // rows of the grid
};

/// Adds one channel's samples, in their order, to the rows of a band.
ECHOTRAIN_CLONES void scatter_band(const Tiling& t, const ScatterJob& job, const std::int32_t* starts,
                                   const float* kernel, std::int64_t channel, Band band, float* grid) {
  const std::int32_t ny = t.grid[1], nx = t.grid[2], width = t.width;
  for (std::int64_t s = 0; s < job.count; ++s) {
    const std::int32_t y0 = starts[2 * s], x0 = starts[2 * s + 1];
    const bool around = y0 + width > ny;
    if (!around && (y0 >= band.last || y0 + width <= band.first)) continue;
    const float *wy = kernel + 2 * s * width, *wx = wy + width;
    const float w = job.weights != nullptr ? job.weights[s] : 1.0f;
    if (w == 0 || wx[width / 2] == 0) continue;  // dropped, or outside the grid
    const cfloat value = job.samples != nullptr ? job.samples[s * job.channels + channel] : cfloat(1);
    const float re = w * value.real(), im = w * value.imag();
    const std::int32_t straight = std::min(width, nx - x0);
    for (std::int32_t j = 0; j < width; ++j) {
      std::int32_t y = y0 + j;
      if (y >= ny) y -= ny;
      if (y < band.first || y >= band.last) continue;
      float* row = grid + 2 * static_cast<std::int64_t>(y) * nx;
      const float r = re * wy[j], i = im * wy[j];
      add_row(r, i, wx, straight, row + 2 * x0);
      if (straight < width) add_row(r, i, wx + straight, width - straight, row);
    }
  }
}

}  // namespace

void scatter_prepare(Context& context, ScatterNufft::Impl& impl) {
  auto state = std::make_shared<Footprints>();
  state->lags = context.allocate<cfloat>(impl.image);
  impl.state = std::move(state);
}

void scatter(Context& context, ScatterNufft::Impl& impl, const ScatterJob& job) {
  const Tiling& t = impl.tiling;
  auto& footprints = *static_cast<Footprints*>(impl.state.get());
  const std::int64_t places = 2 * job.count;
  if (footprints.starts.size() < places) footprints.starts = context.allocate<std::int32_t>({places});
  if (footprints.weights.size() < places * t.width) footprints.weights = context.allocate<float>({places * t.width});
  NufftPlan::Impl plan;  // the parts of a plan that place_samples() needs
  plan.tiling = t;
  plan.samples = job.count;
  place_samples(context.threads(), plan, {job.coordinates, {job.count, 2}}, footprints.starts.data(),
                footprints.weights.data());
  const std::int64_t size = volume(impl.grid_extents()), bands = std::max<std::int64_t>(1, kPieces / job.channels);
  context.threads().parallel_for(job.channels * bands, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t channel = piece / bands, b = piece % bands;
      const Band band{static_cast<std::int32_t>(b * t.grid[1] / bands),
                      static_cast<std::int32_t>((b + 1) * t.grid[1] / bands)};
      cfloat* grid = impl.on_grid.data() + channel * size;
      std::fill(grid + static_cast<std::int64_t>(band.first) * t.grid[2],
                grid + static_cast<std::int64_t>(band.last) * t.grid[2], cfloat());
      scatter_band(t, job, footprints.starts.data(), footprints.weights.data(), channel, band,
                   reinterpret_cast<float*>(grid));
    }
  });
}

void scattered_images(Context& context, ScatterNufft::Impl& impl, std::int64_t channels, cfloat* image) {
  const Tiling& t = impl.tiling;
  const float* fy = impl.deapodization.data();
  const Factors factors = {nullptr, fy, fy + t.image[1]};
  inverse_fft_cropped(context, impl.on_grid.data(), image, channels,
                      Centred{.n = {1, t.image[1], t.image[2]}, .padded = impl.grid_extents()}, 2, factors);
}

void scattered_lags(Context& context, ScatterNufft::Impl& impl, const Extents& padded, cfloat* to) {
  cfloat* lags = static_cast<Footprints*>(impl.state.get())->lags.data();
  scattered_images(context, impl, 1, lags);
  const std::int64_t ny = impl.image[0] / 2, nx = impl.image[1] / 2;
  context.threads().parallel_for(padded[1], 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t y = begin; y < end; ++y) {
      cfloat* row = to + y * padded[2];
      std::fill_n(row, padded[2], cfloat());
      const std::int64_t lag = y < ny ? y : y - padded[1];
      if (lag <= -ny) continue;
      const cfloat* from = lags + (lag + ny) * 2 * nx + nx;  // lag 0 of x
      std::copy_n(from, nx, row);
      std::copy_n(from - nx + 1, nx - 1, row + padded[2] - nx + 1);
    }
  });
}

}  // namespace echotrain::numerics::cpu
