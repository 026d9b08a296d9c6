// Working space that a thread keeps.
#pragma once

#include <cstddef>
#include <vector>

namespace echotrain::numerics {

/// This thread's working space for `User`: at least `floats` floats, aligned to 64 bytes, zero at first, later as
/// `User` left them. It grows and is kept until the thread ends; it is not charged to any session. std::bad_alloc when
/// there is no memory.
template <class User>
float* thread_scratch(std::size_t floats) {
  struct alignas(64) Line {
    float values[16];
  };
  constexpr std::size_t kPerLine = sizeof(Line) / sizeof(float);
  thread_local std::vector<Line> memory;
  const std::size_t needed = (floats + kPerLine - 1) / kPerLine;
  if (memory.size() < needed) {
    memory = {};  // frees the old block before the new one is made
    memory.resize(needed);
  }
  return memory.data()->values;
}

}  // namespace echotrain::numerics
