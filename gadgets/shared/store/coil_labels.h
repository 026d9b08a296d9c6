// Coils of two scans, matched by their labels.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace echotrain {

/// The coils of a scan: how many, and their labels in the order of channels, if they have any.
struct LabelledCoils {
  int coils = 0;
  const std::vector<std::string>& labels;
};

/// Which coil of `theirs` each coil of `ours` is: by labels, or by their number where neither scan has any. Labels that
/// are not one name for each coil (a gadget may have removed coils) tell nothing. Nothing when a coil is not among
/// `theirs` or cannot be matched: then `why_not` goes on after "the scan X that the header names ".
std::optional<std::vector<std::size_t>> matching_coils(const LabelledCoils& ours, const LabelledCoils& theirs,
                                                       std::string& why_not);

}  // namespace echotrain
