// Which items a branch takes.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/branch_spec.h"
#include "gadgets/api/items.h"

namespace echotrain {

/// config::ConfigError, at the key, for a condition that items of this type do not answer. `sent`: images come from a
/// client.
void check_condition(const config::When& when, ItemType type, bool sent);

/// A branch's `when`. Counters and flags are those of imaging readouts' frames and of what is made of them. Readouts of
/// other kinds serve all frames, so that counters and flags do not keep them out, but `kind` does.
class Condition {
 public:
  explicit Condition(const config::When& when);

  /// For items of the types that have frames, and of type Image.
  bool holds(const Item& item) const;
  bool holds(const protocol::Image& message) const;
  /// Whether items of this encoding space may be taken.
  bool admits_space(std::uint16_t encoding) const;
  /// Whether an item's encoding space is all that is asked for.
  bool asks_space_only() const { return space_only_; }

 private:
  struct Facts;
  bool holds(const Readouts& readouts) const;
  bool holds(const Facts& facts) const;

  std::array<std::vector<config::When::Range>, config::kCounters.size()> counters_;
  std::vector<protocol::ReadoutKind> kinds_;
  std::uint64_t flags_ = 0;
  std::vector<std::uint16_t> contents_, image_types_;
  std::map<std::string, std::vector<std::string>> meta_;
  bool space_only_ = false;
};

}  // namespace echotrain
