// An EchoTrain holds the navigators of one slice, and the phase corrections that follow from them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/numerics/mri/epi/navigator.h"

namespace echotrain {

/// The options of the lines' phase correction.
struct PhaseOptions {
  std::string method = "linear";
  std::string coils = "joint";
  std::string lines = "each";
  std::string refine = "none";
  bool b0_drift = true;
  bool dual_polarity = false;
};

/// The odd/even phase that a set of navigators gives.
struct OddEvenPhase {
  std::vector<double> phases;  ///< [coil, x], or [1, x] for all coils: excess phase of reversed lines [rad]
  numerics::LinearPhase linear;
  /// What each line's phase has beyond the linear one, by a separate scan of navigators; 0 for lines that ran forward.
  std::vector<numerics::LinearPhase> of_lines;
  double ghost_before = 0, ghost_after = 0;  ///< ghost of the navigators, relative to the object
};

/// The navigators of a slice, shot by shot. Lines are profiles along x.
class EchoTrain {
 public:
  /// Adds a navigator line. One that follows lines of an image, or whose counters differ, begins a new set.
  void add(const protocol::AcquisitionHeader& head, std::vector<numerics::cdouble> profile, std::int64_t points);
  bool has_navigators() const { return !set_.profiles.empty(); }
  std::int64_t coils() const { return set_.coils; }
  std::int64_t points() const { return set_.n; }
  std::size_t lines() const { return set_.profiles.size(); }
  bool reversed(std::size_t line) const { return set_.reversed[line]; }
  bool mirrored() const { return numerics::looks_mirrored(set_); }

  /// True if navigators came since the last call of odd_even().
  bool changed() const { return changed_; }
  /// The phase by the latest set; no value when its lines all run the same way. Sets that were excited alike have the
  /// same `excited`, 0 or 1: drift is a set's difference from the first of these.
  std::optional<OddEvenPhase> odd_even(const PhaseOptions& options, std::size_t excited = 0);

  /// The phase of spins beyond that of the first shot's navigators [rad], at the next line of this shot, which is
  /// counted.
  double drift_at_next_line();
  double drift_per_echo() const { return drift_; }

 private:
  void compare_with(numerics::Navigators& first);
  std::vector<numerics::LinearPhase> phases_of_lines(const numerics::LinearPhase& all) const;

  numerics::Navigators set_;
  std::array<numerics::Navigators, 2> first_;  // by excitation
  std::vector<std::uint16_t> counters_;        // counters of the set
  bool changed_ = false, used_ = false;
  double offset_ = 0, drift_ = 0;  // phase at the middle of the set, and per echo
  std::int64_t next_line_ = 0;
};

}  // namespace echotrain
