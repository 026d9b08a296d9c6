// The undersampling of a Cartesian scan says which readouts are acquired: regular and random patterns, reference lines,
// partial Fourier.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "clients/cpp/simulate/simulate_options.h"
#include "clients/cpp/simulate/trajectory.h"

namespace echotrain::client {

/// A readout of a frame, and its purpose.
struct AcquiredReadout {
  int readout = 0;  ///< of ScanPath
  bool image = true, calibration = false;
};

/// Reads "3" or "3x2": steps 1 and 2. Throws UsageError for anything else.
std::array<int, 2> parse_acceleration(std::string_view text);

/// regular: every Ry-th line of every Rz-th plane, the k-space centre among them; with CAIPIRINHA the j-th plane's
/// lines begin j * shift later (Breuer et al., MRM 55:549-556, 2006). elliptical: of these, those in the ellipse of
/// k-space. poisson: as many lines as regular ones would be, at random, no two closer than a distance that grows from
/// the centre to the rim twofold (variable-density Poisson disc).
///
/// Reference lines are the middle N lines (of the middle N planes): embedded in each frame, where those off the lattice
/// are for calibration alone, or separate, all before the first frame. interleaved: the lattice's origin moves with the
/// frame, so that Ry * Rz frames together have all lines (TGRAPPA: Breuer et al., MRM 53:981-985, 2005).
///
/// Partial Fourier leaves out the first lines. Encoding steps then count from the first one acquired.
class Undersampling {
 public:
  /// Throws UsageError when the options do not go together, or not with the scan.
  Undersampling(const UndersamplingOptions& options, const ScanPath& scan, std::uint64_t seed);

  std::vector<AcquiredReadout> frame(int frame) const;  ///< in the order of acquisition
  std::vector<AcquiredReadout> before() const;          ///< reference readouts before the first frame
  /// Returns the blips along z by which a line differs from that of the centre of k-space: as many acquired lines.
  int blips(int line) const { return (line - scan_.shots() / 2) / step_[0]; }
  int first_line() const { return first_line_; }  ///< encoding step 1 counts from it
  /// Returns the element parallelImaging; empty without acceleration. `spacing_mm`: of slices that are excited at once.
  std::string header(double spacing_mm = 0) const;

 private:
  bool accelerated() const { return step_[0] * step_[1] > 1; }
  bool on_lattice(int line, int plane, int frame) const;
  bool in_reference(int line, int plane) const;
  void check() const;
  void choose_at_random(std::uint64_t seed);

  UndersamplingOptions options_;
  ScanPath scan_;
  std::array<int, 2> step_{1, 1};
  int first_line_ = 0;
  std::vector<bool> chosen_;  // poisson: [plane, line]
};

}  // namespace echotrain::client
