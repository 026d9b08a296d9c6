// A branch of a pipeline is read as data: `- branch: {when: {...}, pipeline: [...]}` (docs/pipelines.md, "Branches").
// In a chain it stands where gadgets stand, as a GadgetSpec of the name kBranch, whose parameters are read here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/pipeline_spec.h"

namespace echotrain::config {

inline constexpr std::string_view kBranch = "branch";

/// Counters by which items may be told apart, by the names used in YAML.
inline constexpr std::array<std::string_view, 7> kCounters{"encoding",   "slice", "contrast", "phase",
                                                           "repetition", "set",   "series"};

/// The items that a branch takes: those for which every key that was given holds, by one of its values.
struct When {
  struct Range {
    std::int64_t first = 0, last = 0;  ///< inclusive
  };
  std::optional<Input> item;
  std::vector<std::string> kinds;        ///< imaging, noise, calibration, navigator, phase_correction, other
  std::vector<std::string> flags;        ///< reverse, user_1, ... user_8
  std::vector<std::string> contents;     ///< image, g_factor, snr
  std::vector<std::string> image_types;  ///< magnitude, phase, real, imag, complex
  std::array<std::vector<Range>, kCounters.size()> counters;
  std::map<std::string, std::vector<std::string>> meta;  ///< by the attributes' names
  std::vector<std::pair<std::string, Mark>> keys;        ///< that were given, in their order
  std::string text;                                      ///< for people: "contrast is 0 or 2, kind is noise"
};

struct BranchSpec {
  When when;
  bool pass_on = true;                         ///< whether items that the branch takes go on along the chain, too
  std::optional<std::uint16_t> series_offset;  ///< added to image_series_index of its images
  std::string role;  ///< not empty: its images are for gadgets that ask for images of this role, and are not sent
  std::vector<GadgetSpec> gadgets;
  std::size_t size = 0;  ///< how many gadgets and branches it has, at any depth
  Mark mark;
};

/// Reads the branch that `gadget`, of the name kBranch, stands for. Throws ConfigError with file:line:column.
BranchSpec read_branch(const GadgetSpec& gadget);

/// Reads the chain in `list`, the value of the key `key`. `size` becomes the number of its gadgets and branches, at any
/// depth. Throws ConfigError when it is empty or has more than kMostGadgets.
std::vector<GadgetSpec> read_chain(const Node& list, const std::string& key, std::size_t& size);

/// Returns all gadgets of a chain in the order of the file, those of its branches among them; not the branches
/// themselves.
std::vector<GadgetSpec> gadgets_in(const std::vector<GadgetSpec>& chain);

}  // namespace echotrain::config
