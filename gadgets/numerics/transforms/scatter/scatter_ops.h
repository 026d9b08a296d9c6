// The parts of ScatterNufft on each backend; arguments were checked.
#pragma once

#include <memory>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/transforms/nufft/nufft_plan.h"
#include "gadgets/numerics/transforms/scatter/scatter.h"

namespace echotrain::numerics {

struct ScatterNufft::Impl {
  Shape image, grid;
  Backend backend = Backend::cpu;
  std::int64_t channels = 1;
  Tiling tiling{};              ///< two axes; its tiles are not used
  Array<float> deapodization;   ///< factors of y, then of x
  Array<cfloat> on_grid;        ///< [channel, grid...]
  std::shared_ptr<void> state;  ///< the backend's own state
  Extents grid_extents() const { return {tiling.grid[0], tiling.grid[1], tiling.grid[2]}; }
};

/// Samples, or weights alone.
struct ScatterJob {
  const double* coordinates;  ///< [sample, 2]
  std::int64_t count;
  const cfloat* samples;  ///< [count, channels]; nullptr: each is 1
  const float* weights;   ///< [count] or nullptr
  std::int64_t channels;
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// Sets `state`.
void scatter_prepare(Context& context, ScatterNufft::Impl& impl);
/// on_grid = the samples' convolution.
void scatter(Context& context, ScatterNufft::Impl& impl, const ScatterJob& job);
/// Does the inverse transform of on_grid, cuts it to the image and divides by the kernel's transform. on_grid is
/// working space.
void scattered_images(Context& context, ScatterNufft::Impl& impl, std::int64_t channels, cfloat* image);
/// As above for one channel: its lags in FFT order of `padded`, 0 elsewhere.
void scattered_lags(Context& context, ScatterNufft::Impl& impl, const Extents& padded, cfloat* to);
)
// clang-format on

}  // namespace echotrain::numerics
