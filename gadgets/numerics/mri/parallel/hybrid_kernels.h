// GRAPPA kernels in hybrid space (x is image space, y and z are k-space), where the convolution along x is a product.
#pragma once

#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/mri/parallel/grappa_fit.h"
#include "gadgets/numerics/transforms/fft/line_images.h"

namespace echotrain::numerics {

/// The number of columns of the image that lie together.
inline constexpr std::int64_t kHybridLanes = 16;

/// Matrices across coils for each column x of the image, one for each source of each kernel:
///   g[c, c'](source; x) = sum_dx weights[c, source, dx, c'] exp(2 pi i (kernel_x / 2 - dx) x / padded x).
struct HybridKernels {
  Array<float> values;              ///< [block of columns, source, coil, source coil, re and im, kHybridLanes]
  std::vector<std::int64_t> first;  ///< the first source of each kernel; then the number of all sources
  std::int64_t coils = 0, columns = 0;

  std::int64_t sources() const { return first.back(); }
  std::int64_t blocks() const { return (columns + kHybridLanes - 1) / kHybridLanes; }
};

/// Makes the kernels. Columns after the image's, up to full blocks, are 0. Asynchronous on CUDA.
HybridKernels hybrid_kernels(Context& context, const GrappaKernels& kernels, const LineGeometry& geometry);

}  // namespace echotrain::numerics
