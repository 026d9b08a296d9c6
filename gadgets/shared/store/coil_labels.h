// Matching of the coils of two scans by their labels.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace echotrain {

/// The coils of a scan: their number, and their labels in the order of channels, if they have any.
struct LabelledCoils {
  int coils = 0;
  const std::vector<std::string>& labels;
};

/// Finds for each coil of `ours` its coil in `theirs`: by labels, or by their number where neither scan has any. Labels
/// that are not one name for each coil (a gadget may have removed coils) are ignored. Returns no value when a coil is
/// not among `theirs` or cannot be matched: then `why_not` completes the sentence "the scan X that the header names ".
std::optional<std::vector<std::size_t>> matching_coils(const LabelledCoils& ours, const LabelledCoils& theirs,
                                                       std::string& why_not);

}  // namespace echotrain
