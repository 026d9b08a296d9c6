// PartialFourier fills one-sided Cartesian k-space.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gadgets/api/gadget.h"
#include "gadgets/images/kspace/over_kspace.h"

namespace echotrain {

/// Fills the side of k-space that partial Fourier or asymmetric echoes left out, coil by coil, from the acquired side
/// and the phase of the middle (numerics/transforms/partial/partial_fourier.h). Changes the k-space in place. A frame
/// whose lines have gaps, or have different parts of their samples, passes unchanged, with a warning, as does an axis
/// on which too little about the centre came to determine the phase: less than a sixteenth of its points on the short
/// side. Meta attribute partial_fourier: the method and the share of each axis that was acquired ("pocs, y 0.625").
/// Throws ClientError for k-space that does not say which lines came. The lines then include the filled ones; where
/// pocs fills more than one axis, the corners stay 0 and the lines remain the acquired ones.
///
/// With `auto` frames that lack no side pass without a word. The first frame of each encoding, slice, contrast and set
/// tells whether the phase is smooth enough: half of the lines on the short side are predicted from the others. Where
/// the error's energy is less than 0.35 of theirs, pocs takes four iterations, else two; where it is not below theirs,
/// these frames stay zero-filled (meta attributes partial_fourier: "zero_fill,
/// ..." and the reason; partial_fourier_error: that ratio). This frame waits for the device.
class PartialFourier final : public Gadget<KSpace, KSpace> {
 public:
  struct Options {
    std::string method = "pocs";
    std::int64_t iterations = 1;
    std::int64_t transition = 0;
    double least = 0.02;
  };
  static constexpr std::string_view kName = "partial_fourier";
  static constexpr std::string_view kSummary =
      "Fills the side of Cartesian k-space that partial Fourier or asymmetric echoes left out.";
  static Parameters<Options> parameters();

  explicit PartialFourier(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& /*header*/, Scan& scan) override { scan_ = &scan; }
  void process(KSpace&& kspace, const Emit<KSpace>& emit) override;
  std::optional<KSpaceChange> change_of(const CoilImages& images, const AcquiredExtent& extent);

  struct Filling;

 private:
  std::map<std::string, std::string> fill(FrameKey key, const Filling& filling, numerics::DeviceView<cfloat> kspace);

  Options options_;
  Scan* scan_ = nullptr;
  std::map<FrameKey, double> errors_;  // auto: of known lines; phase and repetition 0
};

/// Completes complex images, after parallel imaging has filled in the lines within: coil by coil or as the one combined
/// image. Frame::acquired tells the missing side; where the image's field of view was cut from the encoded one, the
/// edge is known to about a sample. Gaps within what came stay as they are, and samples that not all lines have are
/// predicted anew. Magnitudes cannot be completed: the root of the sum of squares has no phase. Frames
/// that are already complete, g-factor maps and images in units of SNR pass unchanged. Throws ClientError for frames
/// that do not say what was acquired; a client's images pass with a warning then.
using PartialFourierOfImages = OverKSpace<PartialFourier>;

}  // namespace echotrain
