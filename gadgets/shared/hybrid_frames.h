// Hybrid frames, which are Cartesian lines transformed along x as they came, and the interface of gadgets that make
// images of them.
#pragma once

#include <memory>

#include "gadgets/api/any_gadget.h"
#include "gadgets/numerics/transforms/fft/line_images.h"

namespace echotrain {

/// One frame, on the CPU: a KSpace after numerics::transform_lines().
struct HybridFrame {
  std::shared_ptr<const Frame> frame;
  Array<cfloat> half;               ///< [coil, encoded z * y, image x]; missing rows are undefined
  numerics::LineGeometry geometry;  ///< as in KSpace
  std::shared_ptr<const SampledLines> lines;
  std::shared_ptr<const Calibration> calibration;  ///< null: there is none
  double image_noise = 0;                          ///< as in KSpace
};

/// Sets missing rows to 0.
void clear_missing_rows(numerics::Context& context, HybridFrame& frame);

/// The second interface of a gadget that takes KSpace: with it, a Fusion (gadgets/api/registry.h) can let one gadget
/// collect lines and make images.
class HybridFrameImages {
 public:
  virtual ~HybridFrameImages() = default;
  /// Called once before data, as AnyGadget::start().
  virtual void start(const protocol::Header& header, Scan& scan) = 0;
  /// Prepares the frame's images early. The frame will probably end with these facts; its `half` is empty.
  virtual void prepare(const HybridFrame& expected) = 0;
  virtual void process(HybridFrame&& frame, const Emit<CoilImages>& emit) = 0;
};

}  // namespace echotrain
