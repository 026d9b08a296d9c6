// CoilCombine combines all coils' images into one.
#pragma once

#include <cstdint>
#include <string>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Combines coils. rss: root sum of squares (Roemer et al., MRM 16, 1990), which loses the phase. adaptive: by maps
/// estimated from the images (Walsh et al., MRM 43, 2000; numerics/mri/coils/coil_maps.h): the phase is the object's as
/// one virtual coil sees it, and dark voxels hold less noise (meta attribute coil_combine: the method and its block).
/// It assumes white noise, as noise_adjust leaves it. none: coil images pass unchanged.
class CoilCombine final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string method = "rss";
    std::int64_t block = 5;
  };
  static constexpr std::string_view kName = "coil_combine";
  static constexpr std::string_view kSummary = "Combines the coils' images into one.";
  static Parameters<Options> parameters();

  explicit CoilCombine(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Options options_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
