// CartesianImages turns Cartesian lines into images in one gadget, on the CPU.
#pragma once

#include "gadgets/cartesian/hybrid_lines.h"

namespace echotrain {

/// Does what `cartesian_kspace`, `fft` and, with `rss`, `coil_combine` do one after another, but transforms each line
/// along x and cuts it to the image as it arrives: oversampled samples are never kept, and only the columns are left to
/// transform after a frame's last readout. On the CPU a Fusion (gadgets/api/registry.h) puts this gadget in their
/// place; it has no name of its own.
class CartesianImages final : public Gadget<Readouts, CoilImages> {
 public:
  CartesianImages(numerics::Direction direction, bool rss, const ReferenceOptions& options)
      : direction_(direction), rss_(rss), options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<CoilImages>& emit) override;

 private:
  CoilImages image_of(HybridFrame&& whole) const;

  numerics::Direction direction_;
  bool rss_;
  ReferenceOptions options_;
  Scan* scan_ = nullptr;
  HybridLines lines_;
};

}  // namespace echotrain
