// Trajectory correction by measured gradient impulse responses (GIRF).
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/mri/trajectory/small_fft.h"

namespace echotrain::numerics {

/// Gradient impulse responses of the physical axes X, Y, Z (first order, no cross terms), as functions of frequency.
/// Source: Vannesjo et al., "Gradient system characterization by impulse response measurements with a dynamic field
/// camera", MRM 69:583, 2013.
struct Girf {
  std::vector<double> hz;                                    ///< ascending
  std::array<std::vector<std::complex<double>>, 3> of_axis;  ///< as long as `hz`

  /// The response, interpolated linearly between its frequencies; 0 beyond the first and the last, where no power was
  /// measured.
  std::complex<double> at(std::size_t axis, double frequency) const;
};

/// Returns the fault of a table; empty if it is valid.
const char* problem_of(const Girf& girf);

/// Moves positions of one readout to where the gradients really led. The gradient of each physical axis, the step of k
/// from sample to sample, passes the axis' response G'(f) = H(f) G(f), and the differences add up again.
///
/// The gradient before the first sample is known from the first two samples only: one that begins within a step of k =
/// 0 (a spiral, a spoke from the centre) was 0, any other had lasted for `kSettle`. After the last sample it continues
/// unchanged.
class GirfFilter {
 public:
  static constexpr double kSettle = 2e-3;  ///< [s]

  /// Takes `samples` of a readout, `dwell` apart [s].
  GirfFilter(const Girf& girf, std::int64_t samples, double dwell);

  /// positions: [sample, dims] along the logical axes, in one unit. axes[a]: the direction of logical axis a (read,
  /// phase, slice) in the coordinates X, Y, Z of the gradients. The first `dims` (2 or 3) axes are moved, each along
  /// itself: the motion of two axes out of their plane is left out.
  void move(const std::array<std::array<double, 3>, 3>& axes, HostView<double> positions) const;

  std::uint64_t bytes() const { return 3 * response_[0].size() * sizeof(SmallFft::Value); }

 private:
  std::int64_t samples_, before_;
  SmallFft fft_;
  std::array<std::vector<SmallFft::Value>, 3> response_;
};

}  // namespace echotrain::numerics
