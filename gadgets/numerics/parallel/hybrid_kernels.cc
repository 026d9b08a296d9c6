#include "gadgets/numerics/parallel/hybrid_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/clones.h"

namespace echotrain::numerics {
namespace {

/// A row of columns. As an array, GCC 12 vectorizes over `d` below instead, and then reads weights beyond the last.
using Lanes = float __attribute__((vector_size(sizeof(float) * kHybridLanes)));

/// to += weight * phase, of kHybridLanes columns.
ECHOTRAIN_CLONES void add_weights(const cfloat* weights, std::int64_t count, std::int64_t weight_step,
                                  const float* phases, float* to) {
  Lanes re{}, im{};
  for (std::int64_t d = 0; d < count; ++d) {
    const float wr = weights[d * weight_step].real(), wi = weights[d * weight_step].imag();
    Lanes pr, pi;  // phases have the alignment of floats
    std::memcpy(&pr, phases + d * 2 * kHybridLanes, sizeof(pr));
    std::memcpy(&pi, phases + (d * 2 + 1) * kHybridLanes, sizeof(pi));
    re += wr * pr - wi * pi;
    im += wr * pi + wi * pr;
  }
  std::memcpy(to, &re, sizeof(re));
  std::memcpy(to + kHybridLanes, &im, sizeof(im));
}

}  // namespace

HybridKernels hybrid_kernels(Context& context, const GrappaKernels& kernels, const LineGeometry& geometry) {
  if (geometry.direction != Direction::inverse)
    throw std::invalid_argument("kernels in image space are those of the inverse transform");
  context.check_stop();
  HybridKernels made;
  made.coils = kernels.coils;
  made.columns = geometry.image[2];
  made.first.push_back(0);
  for (const GrappaKernel& kernel : kernels.kernels)
    made.first.push_back(made.first.back() + static_cast<std::int64_t>(kernel.sources.size()));
  const std::int64_t sources = made.sources(), coils = made.coils, width = kernels.kernel_x;
  HostArray<float> host =
      context.allocate_host<float>({made.blocks(), sources, coils, coils, std::int64_t{2 * kHybridLanes}});
  context.threads().parallel_for(made.blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> phases(static_cast<std::size_t>(width * 2 * kHybridLanes));
    for (std::int64_t block = begin; block < end; ++block) {
      std::fill(phases.begin(), phases.end(), 0.0f);
      for (std::int64_t d = 0; d < width; ++d)
        for (std::int64_t i = 0; i < kHybridLanes; ++i) {
          const std::int64_t x = block * kHybridLanes + i;
          if (x >= made.columns) continue;
          const double turns =
              static_cast<double>((width / 2 - d) * (x - made.columns / 2)) / static_cast<double>(geometry.padded[2]);
          float* to = phases.data() + d * 2 * kHybridLanes + i;
          to[0] = static_cast<float>(std::cos(2 * std::numbers::pi * turns));
          to[kHybridLanes] = static_cast<float>(std::sin(2 * std::numbers::pi * turns));
        }
      float* to = host.data() + block * sources * coils * coils * 2 * kHybridLanes;
      for (const GrappaKernel& kernel : kernels.kernels) {
        const auto count = static_cast<std::int64_t>(kernel.sources.size());
        for (std::int64_t s = 0; s < count; ++s)
          for (std::int64_t c = 0; c < coils; ++c)
            for (std::int64_t from = 0; from < coils; ++from, to += 2 * kHybridLanes)
              add_weights(kernel.weights.data() + ((c * count + s) * width) * coils + from, width, coils, phases.data(),
                          to);
      }
    }
  });
  made.values = context.place<float>(host);
  return made;
}

}  // namespace echotrain::numerics
