// Deapodization undoes the gridding kernel's shading and crops the oversampled field of view.
#pragma once

#include "gadgets/api/gadget.h"

namespace echotrain {

/// image = oversampled image / transform of the kernel, cut about the centre to the image's extents.
class Deapodization final : public Gadget<OversampledImages, CoilImages> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "deapodization";
  static constexpr std::string_view kSummary =
      "Divides by the gridding kernel's transform and cuts to the image's field of view.";
  static Parameters<Options> parameters() { return {}; }

  explicit Deapodization(Options /*options*/) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(OversampledImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
