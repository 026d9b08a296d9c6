#include "gadgets/shared/store/coil_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace echotrain {
namespace {

/// True if labels tell the coils apart.
bool are_names(const LabelledCoils& of) {
  const std::set<std::string> different(of.labels.begin(), of.labels.end());
  return of.labels.size() == static_cast<std::size_t>(of.coils) && different.size() == of.labels.size() &&
         !different.contains("");
}

}  // namespace

std::optional<std::vector<std::size_t>> matching_coils(const LabelledCoils& ours, const LabelledCoils& theirs,
                                                       std::string& why_not) {
  std::vector<std::size_t> out;
  if (ours.labels.empty() && theirs.labels.empty()) {
    if (theirs.coils != ours.coils) {
      why_not = fmt::format("has {} coils, but this scan has {}", theirs.coils, ours.coils);
      return std::nullopt;
    }
    out.resize(static_cast<std::size_t>(ours.coils));
    std::iota(out.begin(), out.end(), std::size_t{0});
    return out;
  }
  if (!are_names(ours)) {
    why_not = fmt::format("cannot be matched: the {} labels of this scan do not name its {} coils one by one",
                          ours.labels.size(), ours.coils);
    return std::nullopt;
  }
  if (!are_names(theirs)) {
    why_not = fmt::format("cannot be matched: its {} labels do not name its {} coils one by one", theirs.labels.size(),
                          theirs.coils);
    return std::nullopt;
  }
  for (const std::string& label : ours.labels) {
    const auto found = std::find(theirs.labels.begin(), theirs.labels.end(), label);
    if (found == theirs.labels.end()) {
      why_not = fmt::format("has no coil '{}'", label);
      return std::nullopt;
    }
    out.push_back(static_cast<std::size_t>(found - theirs.labels.begin()));
  }
  return out;
}

}  // namespace echotrain
