// The fit of a bias field of each backend; arguments were checked.
#pragma once

#include <cstddef>
#include <vector>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/mri/intensity/bias_field.h"

namespace echotrain::numerics {

constexpr int kBiasBins = 200;
constexpr double kBiasWidth = 0.15, kBiasNoise = 0.01;  // of the sharpening

/// Each step-th voxel of an axis, from `first` on.
struct Thinning {
  Extents step{1, 1, 1}, first{}, n{};
};

/// The voxels of a thinned image that have signal.
struct BiasSignal {
  std::vector<std::size_t> at;    // in the thinned grid
  std::vector<double> logarithm;  // of each
};

// clang-format off
ECHOTRAIN_BACKENDS(
BiasFieldFacts fit_bias_field(Context& context, const Thinning& thin, const BiasSignal& signal,
                              const BiasFieldOptions& options, DeviceView<float> field);
)
// clang-format on

}  // namespace echotrain::numerics
