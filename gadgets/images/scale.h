// Scale brings a series of images to a stated range of values.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Multiplies all images of a series (of an encoding space, or of a client's series) by one factor. The series' first
/// image that is not all zero fixes it: the factor brings the `percentile` of that image's magnitudes to `to`. Later
/// images keep the factor at any brightness, so that values of a series can be compared. Values above `to` are kept in
/// floating point; `image: {type: uint16}` cuts them at 65535, so `to` leaves room: with `to: 1000`, for images 65
/// times as bright. Waits for the first image of a series, not for later ones. Images of other units (g-factor, SNR)
/// pass unchanged. Meta attributes: scale_factor, and a window from 0 to `to` (WindowCenter, WindowWidth).
class Scale final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    double percentile = 99.5;
    double to = 1000;
  };
  static constexpr std::string_view kName = "scale";
  static constexpr std::string_view kSummary = "Brings all images of a series to a stated range by one factor.";
  static Parameters<Options> parameters();

  explicit Scale(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  double level(const CoilImages& images) const;  // the percentile of its magnitudes

  Options options_;
  Scan* scan_ = nullptr;
  std::map<std::pair<std::uint16_t, std::uint16_t>, double> factors_;  // by encoding and series
};

}  // namespace echotrain
