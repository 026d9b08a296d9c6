// Denoise removes noise by non-local means.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Every voxel becomes a mean of voxels about it, weighted by how much their surroundings look alike
/// (gadgets/numerics/mri/images/non_local_means.h has formula and sources): edges stay, noise goes. Channels are
/// denoised separately.
///
/// Noise level: `noise_level`, the standard deviation of the noise's real and imaginary part in the image's unit; where
/// that is 0, 1 for images in units of SNR, else the estimate from the finest details of a series' first image, for
/// which the gadget waits; later images of the series use the same value. Images without noise pass unchanged, with a
/// warning.
///
/// Magnitudes are denoised as real numbers (and an image that has a phase keeps it); with `rician` their noise floor is
/// removed, too. Complex images of a client, and with `complex` all others, are denoised as complex numbers. A client's
/// real and imaginary parts are real numbers with a sign; its phases, and g-factors, pass unchanged.
/// Meta attributes: denoise_level, and the step DENOISE of ImageProcessingHistory.
class Denoise final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    double noise_level = 0;
    double strength = 0.8;
    std::int64_t patch = 1;
    std::int64_t search = 5;
    std::string dimensions = "auto";
    bool complex = false;
    bool rician = false;
  };
  static constexpr std::string_view kName = "denoise";
  static constexpr std::string_view kSummary = "Averages voxels whose surroundings look alike (non-local means).";
  static Parameters<Options> parameters();

  /// Throws std::invalid_argument for options that exclude each other.
  explicit Denoise(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  /// The part of an image's complex numbers that is denoised.
  enum class Values { complex, magnitudes, reals };
  Values values_of(const Frame& frame) const;
  float level_of(const CoilImages& images, Values values);

  Options options_;
  Scan* scan_ = nullptr;
  std::map<std::pair<std::uint16_t, std::uint16_t>, float> levels_;  // by encoding and series
};

}  // namespace echotrain
