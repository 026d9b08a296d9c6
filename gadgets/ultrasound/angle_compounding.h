// AngleCompounding joins the images of several plane waves into one.
#pragma once

#include <string>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Computes the mean over the waves of a frame. Coherent: of the complex images, so that their side lobes cancel.
/// Incoherent: of the envelopes, which smooths speckle.
class AngleCompounding final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string method = "coherent";
  };
  static constexpr std::string_view kName = "angle_compounding";
  static constexpr std::string_view kSummary = "Joins the images of a frame's plane waves, coherently or not.";
  static Parameters<Options> parameters();

  explicit AngleCompounding(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Options options_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
