// OffResonanceImages grids samples and corrects their off-resonance.
#pragma once

#include "gadgets/api/gadget.h"
#include "gadgets/shared/frame_gridder.h"
#include "gadgets/shared/scan_field_map.h"

namespace echotrain {

/// Does the conjugate phase reconstruction in the place of gridding, fft and deapodization, and grids each sample once
/// for each segment of time. Segments are channels of one grid, so that readouts are gridded as they come. The number
/// of segments and their error are in the image's meta attributes. Source: see
/// gadgets/numerics/transforms/off_resonance/off_resonance.h.
class OffResonanceImages final : public Gadget<Samples, CoilImages> {
 public:
  struct Options {
    FieldOptions field;
    GriddingOptions gridding;
  };
  static constexpr std::string_view kName = "off_resonance";
  static constexpr std::string_view kSummary =
      "Grids samples to images that lose the blur of a field that was off, with a field map (conjugate phase).";
  static Parameters<Options> parameters();
  static Delivery delivery(const Options& options);

  explicit OffResonanceImages(Options options) : field_(options.field), gridder_(options.gridding) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Samples&& samples, const Emit<CoilImages>& emit) override;

 private:
  ScanFieldMap field_;
  FrameGridder gridder_;
  std::vector<ImageGeometry> geometries_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
