// NoiseAdjust prewhitens: it makes the coils' noise uncorrelated and of unit strength.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/shared/store/noise_store.h"

namespace echotrain {

/// Estimates the noise covariance from noise readouts (flag IS_NOISE_MEASUREMENT) and whitens all later readouts for
/// images, for calibration and for phase correction (on the host). After it, noise in each coil has standard deviation
/// 1 in its real and in its imaginary part, and coils are uncorrelated. Source: Kellman & McVeigh, MRM 54, 2005.
///
/// The noise of a scan with a measurement ID is kept (gadgets/shared/store/noise_store.h) when the scan is complete. A
/// scan without noise readouts whose header names that scan takes its noise from the store, and reports it. Coils are
/// matched by their labels, one for each: the noise of all coils of this scan must be there. If neither scan has
/// labels, the number of coils must agree. Several ranks use no noise of other scans and keep none: each has a store of
/// its own. A scan for which no noise fits passes unchanged, with a warning if its header names a noise scan, or is
/// refused (`require_noise`). Images note noise (scan, store or none), noise_samples and noise_age_s.
class NoiseAdjust final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::string noise = "auto";
    bool require_noise = false;
  };
  static constexpr std::string_view kName = "noise_adjust";
  static constexpr std::string_view kSummary =
      "Whitens readouts by the covariance of the scan's noise readouts, or of the noise scan that its header names; "
      "without either, data passes unchanged.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  explicit NoiseAdjust(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  /// The noise as measured, for the coils that this scan has.
  struct Noise {
    int coils = 0;
    std::vector<numerics::cdouble> covariance;  // [coil, coil]
    double dwell_us = 0;
    std::int64_t samples = 0;
  };
  void whiten(Readouts& readouts);
  void learn(const Readouts& noise);
  bool has_store() const;
  void look_up(int coils, bool imaging);
  std::optional<Noise> of_these_coils(const NoiseRecord& record, int coils, std::string& why_not) const;
  const Noise* noise();
  void make_matrix(const Noise& noise, double dwell_us);
  void add_notes(Readouts& readouts);

  Options options_;
  Scan* scan_ = nullptr;
  RecordKey measurement_;  // this scan's key
  std::string dependency_;
  std::vector<std::string> labels_;
  double bandwidth_ = 1;  // relative receiver noise bandwidth
  std::optional<numerics::NoiseCovariance> covariance_;
  double noise_dwell_us_ = 0;
  std::optional<Noise> measured_, stored_;  // measured_: by this scan, made from covariance_ when it is needed
  std::int64_t stored_unix_s_ = 0;          // time at which stored_ was measured
  bool looked_up_ = false;
  Array<cfloat> matrix_;             // [coil, coil]; made at the first readout to whiten after noise
  std::vector<cfloat> host_matrix_;  // the same
  double matrix_dwell_us_ = 0;       // dwell time of the readouts that it serves
};

}  // namespace echotrain
