// CalibratedImages turns Cartesian lines into images that need reference lines, in one gadget, on the CPU.
#pragma once

#include <memory>
#include <utility>

#include "gadgets/cartesian/calibrated_frames.h"
#include "gadgets/cartesian/hybrid_lines.h"

namespace echotrain {

/// Does what `cartesian_kspace` and a gadget that is HybridFrameImages (`grappa`, `sense`) do one after another, but
/// transforms each line along x and cuts it to the image as it arrives, and prepares the images' weights as soon as a
/// frame's reference lines are complete, while no other readouts wait. On the CPU a Fusion (gadgets/api/registry.h)
/// puts this gadget in their place; it has no name of its own.
class CalibratedImages final : public Gadget<Readouts, CoilImages> {
 public:
  CalibratedImages(const ReferenceOptions& options, std::unique_ptr<HybridFrameImages> images)
      : options_(options), images_(std::move(images)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<CoilImages>& emit) override;
  void rest(const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  ReferenceOptions options_;
  std::unique_ptr<HybridFrameImages> images_;
  Scan* scan_ = nullptr;
  HybridLines lines_;
  CalibratedFrames<HybridFrame> frames_;
  std::shared_ptr<const Frame> open_;  // the frame of the last batch's imaging readouts
};

}  // namespace echotrain
