// Masked Fourier transforms for each backend; arguments were checked.
#pragma once

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/inverse/encoding/masked_fourier.h"

namespace echotrain::numerics {

/// The place of centred arrays in a transform's grid, whose element 0 is the origin.
struct MaskedGrid {
  Extents encoded{1, 1, 1}, padded{1, 1, 1}, image{1, 1, 1};
  bool lines = false;    ///< the mask holds whole lines [z, y]
  bool columns = false;  ///< the grid of images is [x, z, y], and x is not transformed; else [z, y, x]

  std::int64_t voxels() const { return volume(image); }
  std::int64_t points() const { return volume(padded); }
  /// The place in a transform of p points of element i of a centred axis of n points.
  ECHOTRAIN_HOST_DEVICE static std::int64_t wrapped(std::int64_t i, std::int64_t n, std::int64_t p) {
    const std::int64_t k = i - n / 2;
    return k < 0 ? k + p : k;
  }
  /// True if the transform has a place for it: it is not beyond the transform's ends.
  ECHOTRAIN_HOST_DEVICE static bool fits(std::int64_t i, std::int64_t n, std::int64_t p) {
    return MaskedFourier::fits(i, n, p);
  }
  /// The element of the grid that holds a voxel.
  ECHOTRAIN_HOST_DEVICE std::int64_t voxel(std::int64_t z, std::int64_t y, std::int64_t x) const {
    const std::int64_t gz = wrapped(z, image[0], padded[0]), gy = wrapped(y, image[1], padded[1]);
    return columns ? (x * padded[0] + gz) * padded[1] + gy
                   : (gz * padded[1] + gy) * padded[2] + wrapped(x, image[2], padded[2]);
  }
};

/// Images in a grid: `batch` of them; where `maps` are given, these are the coils of one image.
struct GridImages {
  std::int64_t batch = 1;
  const cfloat* maps = nullptr;  ///< [batch, image...]
};

struct MaskedFourier::Impl {
  Shape encoded, padded, image;
  Backend backend;
  MaskedGrid grid;
  Array<float> mask;  ///< [encoded...], or one value per line
  std::shared_ptr<const NormalOperator> normal;
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// True if the transform along x, which a mask of whole lines makes superfluous, is better left out.
bool transforms_columns();
/// grid = the images times their maps, 0 elsewhere: [batch, grid]. Without maps x is [batch, image...], else
/// [image...].
void images_to_grid(Context& context, const MaskedGrid& g, const GridImages& images, const cfloat* x, cfloat* grid);
/// x = scale times the images in the grid. With maps, x is the sum of conj(map) times them, added to x where `add`.
void images_from_grid(Context& context, const MaskedGrid& g, const GridImages& images, const cfloat* grid, float scale, bool add, cfloat* x);
/// grid[i, p] *= factors[p] for `batch` items of n points.
void scale_grid(Context& context, const float* factors, std::int64_t batch, std::int64_t n, cfloat* grid);
/// grid = the samples times their weights, 0 elsewhere. The grid is [z, y, x].
void samples_to_grid(Context& context, const MaskedGrid& g, const float* mask, std::int64_t batch, const cfloat* d, cfloat* grid);
/// d = scale times the grid where the mask is above 0, else 0.
void samples_from_grid(Context& context, const MaskedGrid& g, const float* mask, std::int64_t batch, const cfloat* grid, float scale, cfloat* d);
)
// clang-format on

}  // namespace echotrain::numerics
