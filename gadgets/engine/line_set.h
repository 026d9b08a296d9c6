// A LineSet holds the numbers of a frame's lines that have come.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// A set of nonzero numbers: a table with open addressing, in memory that counts towards the session's budget. Throws
/// ResourceError when the budget is exhausted.
class LineSet {
 public:
  explicit LineSet(numerics::Context& compute);

  /// Adds `line`; returns false if it was there already.
  bool insert(std::uint64_t line);
  bool contains(std::uint64_t line) const { return line == *slot(line); }
  /// Empties the set; it keeps its memory.
  void clear();
  std::size_t bytes() const { return static_cast<std::size_t>(slots_.size()) * sizeof(std::uint64_t); }

 private:
  const std::uint64_t* slot(std::uint64_t line) const;  ///< slot that holds `line` or is free for it
  void grow();

  numerics::Context* compute_;
  numerics::HostArray<std::uint64_t> slots_;  // a power of two; 0 is free
  std::int64_t size_ = 0;
};

}  // namespace echotrain
