// GriddedImages does gridding, inverse FFT, deapodization and root sum of squares in one gadget.
#pragma once

#include "gadgets/api/gadget.h"
#include "gadgets/shared/frame_gridder.h"

namespace echotrain {

/// Does what `gridding`, `fft`, `deapodization` and, with `rss`, `coil_combine` do one after another, without keeping
/// the results in between: it computes only the lines of the transform that the image needs. A Fusion
/// (gadgets/api/registry.h) puts this gadget in their place; it has no name of its own.
template <class In>
class GriddedImages final : public Gadget<In, CoilImages> {
 public:
  GriddedImages(GriddingOptions options, bool rss) : gridder_(options), rss_(rss) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(In&& samples, const Emit<CoilImages>& emit) override;

 private:
  FrameGridder gridder_;
  bool rss_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
