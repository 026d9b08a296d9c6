// A ScanView shows observers the work of a scan's gadgets.
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
  std::span<const std::string> labels;            ///< labels of the coils, in the order of channels; empty: unknown
  std::int64_t samples = 0;
  bool of_another_scan = false;
};

/// Kept by the scan's context (Context::cache), where the program may set it before Pipeline::start(). Functions are
/// called on the pipeline's thread, copy the data that they need, and may be empty if there is no observer.
struct ScanView {
  /// Called when a whitening matrix is made.
  std::function<void(const NoiseSeen&)> noise;
  /// True if the coils' images of the next frame are wanted; gadgets that have them without further work then give
  /// them.
  std::function<bool()> wants_coil_images;
  /// [coil, z, y, x], where the context computes; not changed before this has returned.
  std::function<void(numerics::DeviceView<const numerics::cfloat>)> coil_images;
};

}  // namespace echotrain
