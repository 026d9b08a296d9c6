// Frames of Cartesian lines that were transformed along x as they came, and who makes images of them.
#pragma once

#include <memory>

#include "gadgets/api/any_gadget.h"
#include "gadgets/numerics/fft/line_images.h"

namespace echotrain {

/// One frame, on the CPU: what KSpace is, after numerics::transform_lines().
struct HalfFrame {
  std::shared_ptr<const Frame> frame;
  Array<cfloat> half;               ///< [coil, encoded z * y, image x]; rows that did not come hold anything
  numerics::LineGeometry geometry;  ///< as KSpace has it
  std::shared_ptr<const SampledLines> lines;
  std::shared_ptr<const Calibration> calibration;  ///< null: there is none
};

/// Sets the rows that did not come to 0.
void clear_missing_rows(numerics::Context& context, HalfFrame& frame);

/// What a gadget that takes KSpace also does where the loader lets one gadget collect lines and make images.
class HalfFrameImages {
 public:
  virtual ~HalfFrameImages() = default;
  /// As AnyGadget::start().
  virtual void start(const protocol::Header& header, Scan& scan) = 0;
  /// Makes early what the frame's images will need. It will probably end with these facts; its `half` is empty.
  virtual void prepare(const HalfFrame& expected) = 0;
  virtual void process(HalfFrame&& frame, const Emit<CoilImages>& emit) = 0;
};

}  // namespace echotrain
