// Unring takes Gibbs ringing out of images.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "gadgets/api/gadget.h"
#include "gadgets/images/kspace/acquired_extent.h"

namespace echotrain {

/// Removes the oscillations beside edges along x and y by local subvoxel shifts (Kellner et al., MRM 76, 2016;
/// numerics/transforms/partial/unring.h), plane by plane and channel by channel, complex or of one sign. Belongs before
/// any window, interpolation or warp: the oscillation must be that of the acquired k-space's ends. Images whose k-space
/// was filtered, is interpolated or is not as long on both sides, with or without partial Fourier, pass unchanged, with
/// a warning, and so do images of other units and those without Cartesian k-space. Meta attribute unring: the number of
/// shifts, or "none" and the reason.
class Unring final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::int64_t shifts = 20;
  };
  static constexpr std::string_view kName = "unring";
  static constexpr std::string_view kSummary = "Removes Gibbs ringing by local subvoxel shifts.";
  static Parameters<Options> parameters();

  explicit Unring(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  /// The reason why the image cannot be unringed; empty: it can.
  std::string hindrance(const CoilImages& images) const;

  Options options_;
  Scan* scan_ = nullptr;
  AcquiredExtent extent_;
};

}  // namespace echotrain
