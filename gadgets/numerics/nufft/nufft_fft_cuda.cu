// From grids to images and back. In 3D only the planes that the image keeps are transformed within themselves.
//
// cuFFT's passes move 3 TB/s on an H200. Hand-written passes, which leave out lines and divide out the kernel's
// transform on the way, move 1.5 TB/s with lengths known only at run time: they lose more than they save.
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/nufft/nufft_plan.h"

namespace echotrain::numerics::cuda {
namespace {

/// Planes of one grid that hold the image's, in FFT order: from the start and from the end.
void fft_kept_planes(Context& context, const Tiling& t, cfloat* grid, Direction direction) {
  const std::int64_t plane = static_cast<std::int64_t>(t.grid[1]) * t.grid[2], after = t.image[0] / 2,
                     before = t.image[0] - after;
  const Extents extents{1, t.grid[1], t.grid[2]};
  fft(context, grid, before, extents, 2, direction);
  if (after > 0) fft(context, grid + (t.grid[0] - after) * plane, after, extents, 2, direction);
}

void transform(Context& context, const NufftPlan::Impl& plan, cfloat* grid, std::int64_t coils, Direction direction) {
  const Tiling& t = plan.tiling;
  if (t.dims < 3) {
    fft(context, grid, coils, plan.grid_extents(), t.dims, direction);
    return;
  }
  const std::int64_t plane = static_cast<std::int64_t>(t.grid[1]) * t.grid[2];
  for (std::int64_t c = 0; c < coils; ++c) {
    cfloat* const item = grid + c * t.grid[0] * plane;
    if (direction == Direction::forward) fft_kept_planes(context, t, item, direction);
    fft_columns(context, item, t.grid[0], plane, direction);
    if (direction == Direction::inverse) fft_kept_planes(context, t, item, direction);
  }
}

}  // namespace

void to_images(Context& context, const NufftPlan::Impl& plan, cfloat* grid, std::int64_t coils, cfloat* image) {
  transform(context, plan, grid, coils, Direction::inverse);
  deapodize(context, plan, grid, coils, image);
}

void to_grid(Context& context, const NufftPlan::Impl& plan, const cfloat* image, std::int64_t coils, cfloat* grid) {
  apodize(context, plan, image, coils, grid);
  transform(context, plan, grid, coils, Direction::forward);
}

}  // namespace echotrain::numerics::cuda
