// Which lines of a frame have come.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// A set of nonzero numbers: a table with open addressing, in memory that counts towards the session's budget.
/// ResourceError when the budget is exhausted.
class LineSet {
 public:
  explicit LineSet(numerics::Context& compute);

  /// Adds `line`; false if it was there already.
  bool insert(std::uint64_t line);
  bool contains(std::uint64_t line) const { return line == *slot(line); }
  /// Empty again, with the memory that it has.
  void clear();
  std::size_t bytes() const { return static_cast<std::size_t>(slots_.size()) * sizeof(std::uint64_t); }

 private:
  const std::uint64_t* slot(std::uint64_t line) const;  ///< where `line` is or belongs
  void grow();

  numerics::Context* compute_;
  numerics::HostArray<std::uint64_t> slots_;  // a power of two; 0 is free
  std::int64_t size_ = 0;
};

}  // namespace echotrain
