#include "gadgets/numerics/mri/parallel/hybrid_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <stdexcept>

#include "gadgets/numerics/core/clones.h"
#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics {
namespace {

/// to += weight * phase, of kHybridLanes columns.
template <int kVectorBytes>
ECHOTRAIN_INLINE void add_weights_by(const cfloat* weights, std::int64_t count, std::int64_t weight_step,
                                     const float* phases, float* to) {
  // As an array, GCC 12 vectorizes over `d` below instead, and then reads weights beyond the last.
  using Columns [[gnu::vector_size(kVectorBytes)]] = float;
  constexpr std::int64_t kAtOnce = kVectorBytes / sizeof(float);
  static_assert(kHybridLanes % kAtOnce == 0 && sizeof(Columns) == kVectorBytes);
  for (std::int64_t first = 0; first < kHybridLanes; first += kAtOnce) {
    Columns re{}, im{};
    for (std::int64_t d = 0; d < count; ++d) {
      const float wr = weights[d * weight_step].real(), wi = weights[d * weight_step].imag();
      Columns pr, pi;  // phases have the alignment of floats
      std::memcpy(&pr, phases + d * 2 * kHybridLanes + first, sizeof(pr));
      std::memcpy(&pi, phases + (d * 2 + 1) * kHybridLanes + first, sizeof(pi));
      re += wr * pr - wi * pi;
      im += wr * pi + wi * pr;
    }
    std::memcpy(to + first, &re, sizeof(re));
    std::memcpy(to + kHybridLanes + first, &im, sizeof(im));
  }
}

ECHOTRAIN_VECTOR_CLONES(void add_weights(const cfloat* weights, std::int64_t count, std::int64_t weight_step,
                                         const float* phases, float* to),
                        add_weights_by<kVectorBytes>(weights, count, weight_step, phases, to))

/// HybridWork::phases, 0 for columns after the image's.
HostArray<float> column_phases(Context& context, const HybridKernels& made, std::int64_t width, std::int64_t padded) {
  HostArray<float> phases = context.allocate_host<float>({made.blocks(), width, std::int64_t{2 * kHybridLanes}});
  std::fill_n(phases.data(), phases.size(), 0.0f);
  for (std::int64_t x = 0; x < made.columns; ++x)
    for (std::int64_t d = 0; d < width; ++d) {
      const double turns = static_cast<double>((width / 2 - d) * (x - made.columns / 2)) / static_cast<double>(padded);
      float* to = phases.data() + (x / kHybridLanes * width + d) * 2 * kHybridLanes + x % kHybridLanes;
      to[0] = static_cast<float>(std::cos(2 * std::numbers::pi * turns));
      to[kHybridLanes] = static_cast<float>(std::sin(2 * std::numbers::pi * turns));
    }
  return phases;
}

}  // namespace

void cpu::hybrid_values(Context& context, const HybridWork& work) {
  const std::int64_t matrix = work.coils * work.coils * 2 * kHybridLanes, phases = work.width * 2 * kHybridLanes;
  context.threads().parallel_for(work.blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      for (std::int64_t s = 0; s < work.sources; ++s) {
        float* to = work.to + (block * work.sources + s) * matrix;
        for (std::int64_t c = 0; c < work.coils; ++c)
          for (std::int64_t from = 0; from < work.coils; ++from, to += 2 * kHybridLanes)
            add_weights(work.weights + work.first[s] + c * work.step[s] + from, work.width, work.coils,
                        work.phases + block * phases, to);
      }
  });
}

HybridKernels hybrid_kernels(Context& context, const GrappaKernels& kernels, const LineGeometry& geometry) {
  if (geometry.direction != Direction::inverse)
    throw std::invalid_argument("kernels in image space are those of the inverse transform");
  HybridKernels made;
  made.coils = kernels.coils;
  made.columns = geometry.image[2];
  made.first.push_back(0);
  for (const GrappaKernel& kernel : kernels.kernels)
    made.first.push_back(made.first.back() + static_cast<std::int64_t>(kernel.sources.size()));
  const std::int64_t sources = made.sources(), coils = made.coils, width = kernels.kernel_x;
  HostArray<std::int64_t> places = context.allocate_host<std::int64_t>({2, sources});
  std::int64_t* next = places.data();
  for (const GrappaKernel& kernel : kernels.kernels)
    for (std::size_t s = 0; s < kernel.sources.size(); ++s, ++next) {
      next[0] = kernel.first + static_cast<std::int64_t>(s) * width * coils;
      next[sources] = static_cast<std::int64_t>(kernel.sources.size()) * width * coils;
    }
  const Array<std::int64_t> places_there = context.place<std::int64_t>(places);
  const Array<float> phases = context.place<float>(column_phases(context, made, width, geometry.padded[2]));
  made.values = context.allocate<float>({made.blocks(), sources, coils, coils, std::int64_t{2 * kHybridLanes}});
  if (made.values.shape().size() == 0) return made;
  const HybridWork work{.weights = kernels.weights.data(),
                        .first = places_there.data(),
                        .step = places_there.data() + sources,
                        .sources = sources,
                        .coils = coils,
                        .width = width,
                        .blocks = made.blocks(),
                        .phases = phases.data(),
                        .to = made.values.data()};
  ECHOTRAIN_DISPATCH(context, hybrid_values(context, work));
  return made;
}

}  // namespace echotrain::numerics
