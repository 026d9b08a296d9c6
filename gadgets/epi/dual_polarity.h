// Frames whose reversed lines are made by kernels from references that were read both ways.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/epi/dual_polarity.h"

namespace echotrain {

/// Readouts of a frame that waits, and which of their lines were reversed.
struct HeldLines {
  Readouts readouts;
  std::vector<bool> reversed;
  bool corrected = false;  ///< by what was found in the image, too
};

/// What epi_phase_correction does with `dual_polarity`. Lines are already turned, and corrected by navigators.
class DualPolarity {
 public:
  using Slice = std::pair<std::uint16_t, std::uint16_t>;  // encoding, slice

  explicit DualPolarity(Scan& scan);
  /// Passes on reference lines that were read forward, and keeps the others; before the slice is decided, copies both.
  void learn(Readouts&& references, const std::vector<bool>& reversed, const Emit<Readouts>& emit);
  /// Before lines of an image of that slice, or at the end: passes on kept references of lines that no forward one came
  /// for, and drops the others.
  void release(std::optional<std::uint16_t> slice, const Emit<Readouts>& emit);
  /// Whether the slice has references of both ways; the first time for each slice, a warning says what is amiss.
  bool ready(const Slice& slice);
  /// Makes the reversed lines of a whole frame. What the kernels miss of the references; nothing, with a warning,
  /// where they could not be made and lines stay.
  std::optional<double> correct(const Slice& slice, std::vector<HeldLines>& frame);

 private:
  struct State {
    std::set<std::uint16_t> forward;  // lines that references came for
    /// By line and whether it was reversed, [coil, sample]; until it is clear what they are good for.
    std::map<std::pair<std::uint16_t, bool>, HostArray<cfloat>> references;
    std::array<HostArray<cfloat>, 2> blocks;  // forward, reversed: [coil, line, sample]
    bool decided = false, usable = false;
    std::vector<numerics::PolarityLine> lines;  // that the kernels are for
    numerics::DualPolarityKernels kernels;
    std::uint64_t bytes = 0;
  };

  void copy(State& state, const std::pair<std::uint16_t, bool>& line, const Readouts& from, std::size_t i);
  void decide(State& state, const Slice& slice);
  std::string fill(State& state);

  Scan* scan_;
  std::map<Slice, State> states_;
  std::map<std::uint16_t, std::vector<Readouts>> kept_;  // reversed references, by idx.slice
  std::unique_ptr<numerics::MemoryShare> paid_;
};

}  // namespace echotrain
