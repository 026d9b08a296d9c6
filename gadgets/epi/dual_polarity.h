// DualPolarity corrects frames of EPI by kernels from references of both polarities (dual-polarity GRAPPA).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/epi/forward_references.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/epi/dual_polarity_kernels.h"

namespace echotrain {

/// The readouts of a frame that waits, and which of their lines were reversed.
struct HeldLines {
  Readouts readouts;
  std::vector<bool> reversed;
  bool corrected = false;  ///< also by the phase found in the image
};

/// Does the work of epi_phase_correction with `dual_polarity`. Lines are already turned, and corrected by navigators.
class DualPolarity {
 public:
  using Slice = std::pair<std::uint16_t, std::uint16_t>;  // encoding, slice

  explicit DualPolarity(Scan& scan);
  /// Passes on reference lines that were read forward, and keeps the others; before the slice is decided, copies both.
  void learn(Readouts&& references, const std::vector<bool>& reversed, const Emit<Readouts>& emit);
  /// Called before lines of an image of that slice, or at the end: passes on kept references of lines without a forward
  /// one, and drops the others.
  void release(std::optional<std::uint16_t> slice, const Emit<Readouts>& emit) { forward_.release(slice, emit); }
  /// True if the slice has references of both polarities; the first call for each slice warns of what is missing.
  bool ready(const Slice& slice);
  /// Makes the reversed lines of a whole frame. Returns the relative misfit of the references; no value, with a
  /// warning, where kernels could not be made and lines are unchanged.
  std::optional<double> correct(const Slice& slice, std::vector<HeldLines>& frame);

 private:
  struct State {
    /// [coil, sample], by line and polarity; kept until the kernels are decided on.
    std::map<std::pair<std::uint16_t, bool>, HostArray<cfloat>> references;
    std::array<HostArray<cfloat>, 2> blocks;  // forward, reversed: [coil, line, sample]
    bool decided = false, usable = false;
    std::vector<numerics::PolarityLine> lines;  // lines that the kernels serve
    numerics::DualPolarityKernels kernels;
  };

  void copy(State& state, const std::pair<std::uint16_t, bool>& line, const Readouts& from, std::size_t i);
  void decide(State& state, const Slice& slice);
  std::string fill(State& state);

  Scan* scan_;
  std::map<Slice, State> states_;
  ForwardReferences forward_;
};

}  // namespace echotrain
