// InvertContrast makes dark voxels bright.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Computes maximum - value, for all images of a series (of an encoding space, or of a client's series) with one
/// maximum: `maximum`, or where that is 0 the largest finite value of the series' first image, for which the gadget
/// waits.
/// The value of images made of readouts, and of a client's complex images and magnitudes, is the magnitude, which later
/// images may have above the maximum: they become 0 there. The value of a client's other images (real, imaginary) is
/// the real number, and its inverse may be negative. Phases and images with a unit of their own (g-factor, SNR) pass
/// unchanged. Meta attributes: a window from 0 to the maximum, or the inherited window turned about (WindowCenter
/// becomes maximum - WindowCenter), and the step INVERT of ImageProcessingHistory.
class InvertContrast final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    double maximum = 0;
  };
  static constexpr std::string_view kName = "invert_contrast";
  static constexpr std::string_view kSummary = "Turns bright to dark: a series' maximum minus the value.";
  static Parameters<Options> parameters();

  explicit InvertContrast(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  float largest(const CoilImages& images, bool of_magnitudes) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::map<std::pair<std::uint16_t, std::uint16_t>, float> maxima_;  // by encoding and series
};

}  // namespace echotrain
