// Prewhitening: makes the coils' noise uncorrelated and of unit strength.
#pragma once

#include <optional>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/coils/coil.h"

namespace echotrain {

/// Estimates the noise covariance from noise readouts (flag IS_NOISE_MEASUREMENT) and whitens all later readouts for
/// images and for calibration. After it, noise in each coil has standard deviation 1 in its real and in its imaginary
/// part, and coils are uncorrelated. A scan without noise readouts passes unchanged. Source: Kellman & McVeigh, MRM 54,
/// 2005.
class NoiseAdjust final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "noise_adjust";
  static constexpr std::string_view kSummary =
      "Whitens readouts by the covariance of the scan's noise readouts; without noise readouts data passes unchanged.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  explicit NoiseAdjust(Options /*options*/) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;

 private:
  void whiten(Readouts& readouts);
  void learn(const Readouts& noise);
  void make_matrix(double dwell_us);

  Scan* scan_ = nullptr;
  double bandwidth_ = 1;  // relative receiver noise bandwidth
  std::optional<numerics::NoiseCovariance> covariance_;
  double noise_dwell_us_ = 0;
  Array<cfloat> matrix_;        // [coil, coil]; made at the first readout to whiten after noise
  double matrix_dwell_us_ = 0;  // of the readouts that it is for
};

}  // namespace echotrain
