// LatticeCount detects when a frame of regularly undersampled k-space has all its lines.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// The lines that a header announces: every `step[0]`-th of encoding step 1 in every `step[1]`-th of encoding step 2.
struct LineLattice {
  static constexpr std::int64_t kMostSteps = 16;  ///< steps of an axis; larger ones are no lattice here

  std::array<std::int64_t, 2> first{0, 0};   ///< the least of each encoding step
  std::array<std::int64_t, 2> extent{1, 1};  ///< number of steps from `first`, including skipped ones
  std::array<std::int64_t, 2> step{1, 1};
  std::int64_t times = 1;  ///< number of times that each line comes

  bool undersampled() const {
    const std::int64_t largest = std::max(step[0], step[1]);
    return largest > 1 && largest <= kMostSteps && step[0] <= extent[0] && step[1] <= extent[1];
  }
};

/// Counts the lines of one frame. Neither the lattice's origin nor its shift in each plane (CAIPIRINHA) is announced,
/// so lines are counted by plane and by remainder of step 1, and the frame is whole when the planes of one remainder of
/// step 2 each have all lines of one remainder of step 1. Reference lines between those of the lattice count for other
/// remainders and so never replace missing ones. Memory counts towards the session's budget; throws ResourceError when
/// that is exhausted.
class LatticeCount {
 public:
  /// `lattice` is undersampled.
  LatticeCount(numerics::Context& compute, const LineLattice& lattice)
      : lattice_(lattice), came_(compute.allocate_host<std::uint32_t>({lattice.extent[1], lattice.step[0]})) {
    std::fill_n(came_.data(), came_.size(), 0u);
  }

  /// Counts a line that came for the first time; if lines come several times, each time.
  void add(std::int64_t step1, std::int64_t step2) {
    const std::int64_t y = step1 - lattice_.first[0], z = step2 - lattice_.first[1];
    if (y < 0 || y >= lattice_.extent[0] || z < 0 || z >= lattice_.extent[1]) return;
    std::uint32_t* plane = came_.data() + z * lattice_.step[0];
    ++plane[y % lattice_.step[0]];
    if (plane[y % lattice_.step[0]] != asked(0, y % lattice_.step[0]) * lattice_.times) return;
    int whole = 0;  // number of whole remainders of this plane
    for (std::int64_t r = 0; r < lattice_.step[0]; ++r)
      if (plane[r] >= asked(0, r) * lattice_.times) ++whole;
    const auto group = static_cast<std::size_t>(z % lattice_.step[1]);
    if (whole == 1 && ++planes_.at(group) == asked(1, z % lattice_.step[1])) complete_ = true;
  }

  bool complete() const { return complete_; }

 private:
  /// The number of an axis' steps with this remainder.
  std::int64_t asked(std::size_t axis, std::int64_t remainder) const {
    return (lattice_.extent[axis] - remainder + lattice_.step[axis] - 1) / lattice_.step[axis];
  }

  LineLattice lattice_;
  numerics::HostArray<std::uint32_t> came_;                     // [step 2, remainder of step 1]
  std::array<std::int64_t, LineLattice::kMostSteps> planes_{};  // number of whole ones, by remainder of step 2
  bool complete_ = false;
};

}  // namespace echotrain
