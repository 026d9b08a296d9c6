// Filter multiplies Cartesian k-space by a window.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gadgets/api/gadget.h"
#include "gadgets/images/kspace/over_kspace.h"

namespace echotrain {

/// Multiplies k-space by a window along each axis, or (elliptic) by one of the radius, in place: less ringing and noise
/// for wider edges. It is 1 at the centre, so that the image's mean stays. Widths count from the centre to the
/// outermost acquired sample, or, where the lines are not known, to the end of the axis. Belongs after gadgets that
/// fill in lines. Meta attribute filter: the window's shape, and ", elliptic".
class Filter final : public Gadget<KSpace, KSpace> {
 public:
  struct Options {
    std::string shape = "tukey";
    double width = 1;
    double alpha = 0.5;
    double sigma = 0.5;
    std::string axes = "xyz";
    bool elliptic = false;
  };
  static constexpr std::string_view kName = "filter";
  static constexpr std::string_view kSummary = "Multiplies Cartesian k-space by a window, against ringing and noise.";
  static Parameters<Options> parameters();

  /// Throws std::invalid_argument for axes other than x, y and z.
  explicit Filter(Options options);
  void start(const protocol::Header& /*header*/, Scan& scan) override { scan_ = &scan; }
  void process(KSpace&& kspace, const Emit<KSpace>& emit) override;
  std::optional<KSpaceChange> change_of(const CoilImages& images, const AcquiredExtent& extent) const;

 private:
  /// reach: distances [samples] of the outermost acquired samples from the centre, of z, y, x; no value: no window.
  KSpaceChange change(const numerics::Shape& n, const std::array<std::optional<double>, 3>& reach) const;

  Options options_;
  Scan* scan_ = nullptr;
};

/// Widths count to the outermost sample in Frame::acquired, also where the field of view was cut, or voxels were
/// interpolated; without it, to the end of the axis. Axes that were not encoded are unchanged, and so are g-factor maps
/// and images in units of SNR.
using FilterOfImages = OverKSpace<Filter>;

}  // namespace echotrain
