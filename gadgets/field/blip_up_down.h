// BlipUpDown corrects the distortion of echo-planar images by images with opposite blips.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/field/gradient_warp.h"

namespace echotrain {

/// Estimates the distortion of each slice from its first two images of opposite blips
/// (gadgets/numerics/mri/field/blip_pair.h), and corrects these and all later images of the slice: voxels are moved
/// along y, the axis of phase encoding, and get the brightness that their signal had
/// (gadgets/numerics/mri/field/unwarp.h). The polarity of an image's blips is in its meta attribute epi_blips, up or
/// down, which epi_phase_correction writes. Images of several coils count by their root sum of squares. Belongs before
/// gadgets that turn or crop images; for shifts that are smooth along z, put stack_slices before it.
///
/// A slice's images wait for the first one of the other polarity. More than `wait` of them leave uncorrected, with a
/// warning, and so do images without epi_blips and those that still wait at the scan's end. G-factors and images in
/// units of SNR are moved without the factor. Waits for the device, once per slice.
/// Meta attributes: blip_up_down, the largest shift in voxels, or none; blip_difference: the pair's difference before
/// and after, as parts of its mean.
///
/// Throws ClientError when images of a slice have another size.
class BlipUpDown final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    double smoothness = 0.02;
    std::int64_t wait = 8;
    bool modulate = true;
  };
  static constexpr std::string_view kName = "blip_up_down";
  static constexpr std::string_view kSummary =
      "Takes the distortion out of echo-planar images, as two of opposite blips tell it.";
  static Parameters<Options> parameters();

  explicit BlipUpDown(Options options) : options_(options) {}
  /// With a gradient_unwarp behind it: images are interpolated once.
  BlipUpDown(Options options, GradientWarpOptions gradients) : options_(options), gradients_(std::move(gradients)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  enum Polarity : std::size_t { up, down };
  struct State {
    std::array<Array<cfloat>, 2> first;  // one of each polarity, until the shifts are known
    std::vector<std::pair<CoilImages, Polarity>> waiting;
    bool gave_up = false;
    std::array<Array<float>, 2> shifts;  // [z, y, x] for up, for down; empty until known
    double largest = 0, before = 0, after = 0;
  };
  HostArray<float> magnitude(const Array<cfloat>& images) const;
  void find(State& state) const;
  CoilImages corrected(const State& state, CoilImages&& images, Polarity polarity);
  CoilImages untouched(CoilImages&& images);

  const Options options_;
  Scan* scan_ = nullptr;
  std::optional<GradientWarp> gradients_;
  std::map<std::pair<std::uint16_t, std::uint16_t>, State> states_;  // by encoding and slice
};

}  // namespace echotrain
