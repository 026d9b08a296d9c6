// A Condition decides which items a branch takes (its `when`).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/branch_spec.h"
#include "gadgets/api/items.h"

namespace echotrain {

/// Throws config::ConfigError, at the key, for a condition that items of this type cannot answer. `sent`: images come
/// from a client.
void check_condition(const config::When& when, ItemType type, bool sent);

/// A branch's `when`. Counters and flags are those of imaging readouts' frames and of everything made from them.
/// Readouts of other kinds serve all frames, so counters and flags do not exclude them, but `kind` does.
class Condition {
 public:
  explicit Condition(const config::When& when);

  /// True if the item passes. It must be an Image or of a type that has frames.
  bool holds(const Item& item) const;
  bool holds(const protocol::Image& message) const;
  /// True if items of this encoding space may be taken.
  bool admits_space(std::uint16_t encoding) const;
  /// True if the condition tests nothing but the encoding space.
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
