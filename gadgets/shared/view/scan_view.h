// What a scan's gadgets show of their work to those who look on.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "gadgets/numerics/core/array.h"

namespace echotrain {

/// The noise that readouts are whitened with.
struct NoiseSeen {
  int coils = 0;
  std::span<const numerics::cdouble> covariance;  ///< [coil, coil] in the units of the readouts
  std::span<const std::string> labels;            ///< of the coils, in the order of channels; empty: unknown
  std::int64_t samples = 0;
  bool of_another_scan = false;
};

/// Kept by the scan's context (Context::cache), where the program may set it before Pipeline::start(). Functions are
/// called on the pipeline's thread, copy what they want, and may be empty: nobody looks on.
struct ScanView {
  /// Whenever a whitening matrix is made.
  std::function<void(const NoiseSeen&)> noise;
  /// Whether the coils' images of the next frame are wanted; gadgets that have them without further work give them.
  std::function<bool()> wants_coil_images;
  /// [coil, z, y, x], where the context computes; not changed before this has returned.
  std::function<void(numerics::DeviceView<const numerics::cfloat>)> coil_images;
};

}  // namespace echotrain
