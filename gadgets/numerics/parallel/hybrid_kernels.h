// Kernels of GRAPPA where x is image space and y and z are k-space: along x a convolution is a product.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/fft/line_images.h"
#include "gadgets/numerics/parallel/grappa_fit.h"

namespace echotrain::numerics {

/// Columns of the image that lie together.
inline constexpr std::int64_t kHybridLanes = 16;

/// Matrices across coils for each column x of the image, one for each source of each kernel:
///   g[c, c'](source; x) = sum_dx weights[c, source, dx, c'] exp(2 pi i (kernel_x / 2 - dx) x / padded x).
struct HybridKernels {
  Array<float> values;              ///< [block of columns, source, coil, source coil, re and im, kHybridLanes]
  std::vector<std::int64_t> first;  ///< of each kernel: its first source; then the number of all
  std::int64_t coils = 0, columns = 0;

  std::int64_t sources() const { return first.back(); }
  std::int64_t blocks() const { return (columns + kHybridLanes - 1) / kHybridLanes; }
};

/// Columns from the image's on to full blocks are 0. Asynchronous on CUDA.
HybridKernels hybrid_kernels(Context& context, const GrappaKernels& kernels, const LineGeometry& geometry);

}  // namespace echotrain::numerics
