// ForwardReferences passes on reference lines that were read forward, and the others where these are missing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Chooses among reference lines (flag 20) that came in both directions: the gadgets that follow get the forward ones.
class ForwardReferences {
 public:
  /// Passes on lines that were read forward, and keeps the others.
  void take(Readouts&& references, const std::vector<bool>& reversed, const Emit<Readouts>& emit);
  /// Called before lines of an image of that slice, or at the end: passes on kept lines without a forward one, and
  /// drops the others.
  void release(std::optional<std::uint16_t> slice, const Emit<Readouts>& emit);

 private:
  using Slice = std::pair<std::uint16_t, std::uint16_t>;  // encoding, slice
  static Slice slice_of(const protocol::AcquisitionHeader& head) { return {head.encoding_space_ref, head.idx.slice}; }

  std::map<Slice, std::set<std::uint16_t>> forward_;     // lines with forward references
  std::map<std::uint16_t, std::vector<Readouts>> kept_;  // reversed references, by idx.slice
};

/// Cuts out readouts begin to end, which share the memory of all.
Array<cfloat> readouts_of(const Array<cfloat>& all, std::size_t begin, std::size_t end);

}  // namespace echotrain
