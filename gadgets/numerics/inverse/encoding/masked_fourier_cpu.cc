#include <algorithm>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/inverse/encoding/masked_fourier_ops.h"

namespace echotrain::numerics::cpu {
namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // elements per piece
constexpr std::int64_t kTile = 16;          // columns that are turned together: two cache lines of a row

cfloat product(cfloat a, cfloat b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
cfloat conjugate_product(cfloat a, cfloat b) {
  return {a.real() * b.real() + a.imag() * b.imag(), a.real() * b.imag() - a.imag() * b.real()};
}

void clear(Context& context, cfloat* to, std::int64_t n) {
  context.threads().parallel_for(
      n, kGrain, [&](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, cfloat{}); });
}

/// Calls use(voxel of the image, element of the grid, step of the grid, count) for stretches of a row of the image, as
/// far as they are in columns begin .. end - 1.
template <class Use>
void for_stretches(const MaskedGrid& g, std::int64_t z, std::int64_t y, std::int64_t begin, std::int64_t end,
                   const Use& use) {
  const std::int64_t row = (z * g.image[1] + y) * g.image[2];
  if (g.columns) return use(row + begin, g.voxel(z, y, begin), g.padded[0] * g.padded[1], end - begin);
  const std::int64_t middle = std::clamp(g.image[2] / 2, begin, end);  // the grid wraps to its beginning here
  if (begin < middle) use(row + begin, g.voxel(z, y, begin), std::int64_t{1}, middle - begin);
  if (middle < end) use(row + middle, g.voxel(z, y, middle), std::int64_t{1}, end - middle);
}

/// Calls work(item, z, y, first column, last) for parts of the rows of `items` images. Where the grid is turned, a
/// piece holds some columns of all rows, so that both sides are in the cache.
template <class Work>
void for_image_rows(Context& context, const MaskedGrid& g, std::int64_t items, const Work& work) {
  const std::int64_t tile = g.columns ? std::min(kTile, g.image[2]) : g.image[2];
  const std::int64_t tiles = (g.image[2] + tile - 1) / tile, rows = g.image[0] * g.image[1];
  const std::int64_t deep = g.columns ? g.image[0] : rows;  // pieces of an item and tile
  const std::int64_t wide = rows / deep;
  context.threads().parallel_for(items * deep * tiles, std::max<std::int64_t>(1, kGrain / (wide * tile)),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t u = begin; u < end; ++u) {
                                     const std::int64_t item = u / (deep * tiles), first = u % tiles * tile;
                                     const std::int64_t part = u / tiles % deep;
                                     for (std::int64_t row = part * wide; row < (part + 1) * wide; ++row)
                                       work(item, row / g.image[1], row % g.image[1], first,
                                            std::min(first + tile, g.image[2]));
                                   }
                                 });
}

/// Calls use(sample, element of the grid) for the samples of a row that the grid has room for. Returns the number of
/// the row's line.
template <class Use>
void for_samples(const MaskedGrid& g, std::int64_t z, std::int64_t y, const Use& use) {
  if (!MaskedGrid::fits(z, g.encoded[0], g.padded[0]) || !MaskedGrid::fits(y, g.encoded[1], g.padded[1])) return;
  const std::int64_t row = (z * g.encoded[1] + y) * g.encoded[2];
  const std::int64_t at = (MaskedGrid::wrapped(z, g.encoded[0], g.padded[0]) * g.padded[1] +
                           MaskedGrid::wrapped(y, g.encoded[1], g.padded[1])) *
                          g.padded[2];
  for (std::int64_t x = 0; x < g.encoded[2]; ++x)
    if (MaskedGrid::fits(x, g.encoded[2], g.padded[2]))
      use(row + x, at + MaskedGrid::wrapped(x, g.encoded[2], g.padded[2]));
}

ECHOTRAIN_CLONES void multiply(const float* factors, float* values, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    values[2 * i] *= factors[i];
    values[2 * i + 1] *= factors[i];
  }
}

}  // namespace

bool transforms_columns() { return true; }

void images_to_grid(Context& context, const MaskedGrid& g, const GridImages& images, const cfloat* x, cfloat* grid) {
  if (g.image != g.padded) clear(context, grid, images.batch * g.points());
  for_image_rows(context, g, images.batch,
                 [&](std::int64_t item, std::int64_t z, std::int64_t y, std::int64_t first, std::int64_t last) {
                   for_stretches(g, z, y, first, last,
                                 [&](std::int64_t voxel, std::int64_t at, std::int64_t step, std::int64_t n) {
                                   cfloat* to = grid + item * g.points() + at;
                                   if (images.maps == nullptr) {
                                     const cfloat* from = x + item * g.voxels() + voxel;
                                     for (std::int64_t i = 0; i < n; ++i) to[i * step] = from[i];
                                   } else {
                                     const cfloat* map = images.maps + item * g.voxels() + voxel;
                                     for (std::int64_t i = 0; i < n; ++i) to[i * step] = product(map[i], x[voxel + i]);
                                   }
                                 });
                 });
}

void images_from_grid(Context& context, const MaskedGrid& g, const GridImages& images, const cfloat* grid, float scale,
                      bool add, cfloat* x) {
  // With maps, one piece adds all coils, in their order.
  const std::int64_t items = images.maps == nullptr ? images.batch : 1, summed = images.batch / items;
  for_image_rows(context, g, items,
                 [&](std::int64_t item, std::int64_t z, std::int64_t y, std::int64_t first, std::int64_t last) {
                   for_stretches(g, z, y, first, last,
                                 [&](std::int64_t voxel, std::int64_t at, std::int64_t step, std::int64_t n) {
                                   if (images.maps == nullptr) {
                                     const cfloat* from = grid + item * g.points() + at;
                                     cfloat* to = x + item * g.voxels() + voxel;
                                     for (std::int64_t i = 0; i < n; ++i) to[i] = scale * from[i * step];
                                     return;
                                   }
                                   for (std::int64_t c = 0; c < summed; ++c) {
                                     const cfloat* from = grid + c * g.points() + at;
                                     const cfloat* map = images.maps + c * g.voxels() + voxel;
                                     cfloat* to = x + voxel;
                                     for (std::int64_t i = 0; i < n; ++i) {
                                       const cfloat value = scale * conjugate_product(map[i], from[i * step]);
                                       to[i] = add || c > 0 ? to[i] + value : value;
                                     }
                                   }
                                 });
                 });
}

void scale_grid(Context& context, const float* factors, std::int64_t batch, std::int64_t n, cfloat* grid) {
  const std::int64_t piece = std::min(n, kGrain), pieces = (n + piece - 1) / piece;
  context.threads().parallel_for(batch * pieces, std::max<std::int64_t>(1, kGrain / piece),
                                 [&](std::int64_t begin, std::int64_t end) {
                                   for (std::int64_t u = begin; u < end; ++u) {
                                     const std::int64_t first = u % pieces * piece;
                                     multiply(factors + first, reinterpret_cast<float*>(grid + u / pieces * n + first),
                                              std::min(piece, n - first));
                                   }
                                 });
}

void samples_to_grid(Context& context, const MaskedGrid& g, const float* mask, std::int64_t batch, const cfloat* d,
                     cfloat* grid) {
  clear(context, grid, batch * g.points());
  const std::int64_t rows = g.encoded[0] * g.encoded[1];
  context.threads().parallel_for(
      batch * rows, std::max<std::int64_t>(1, kGrain / g.encoded[2]), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t u = begin; u < end; ++u) {
          const cfloat* from = d + u / rows * volume(g.encoded);
          cfloat* to = grid + u / rows * g.points();
          const std::int64_t line = u % rows;
          for_samples(g, line / g.encoded[1], line % g.encoded[1], [&](std::int64_t sample, std::int64_t at) {
            const float weight = mask[g.lines ? line : sample];
            if (weight > 0) to[at] = weight * from[sample];
          });
        }
      });
}

void samples_from_grid(Context& context, const MaskedGrid& g, const float* mask, std::int64_t batch, const cfloat* grid,
                       float scale, cfloat* d) {
  const std::int64_t rows = g.encoded[0] * g.encoded[1];
  context.threads().parallel_for(
      batch * rows, std::max<std::int64_t>(1, kGrain / g.encoded[2]), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t u = begin; u < end; ++u) {
          const cfloat* from = grid + u / rows * g.points();
          cfloat* to = d + u / rows * volume(g.encoded);
          const std::int64_t line = u % rows;
          std::fill_n(to + line * g.encoded[2], g.encoded[2], cfloat{});
          for_samples(g, line / g.encoded[1], line % g.encoded[1], [&](std::int64_t sample, std::int64_t at) {
            if (mask[g.lines ? line : sample] > 0) to[sample] = scale * from[at];
          });
        }
      });
}

}  // namespace echotrain::numerics::cpu
