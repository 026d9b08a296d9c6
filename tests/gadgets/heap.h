// The heap is what the program has of the allocator.
#pragma once

#include <malloc.h>

#include <cstdint>

namespace echotrain::testing {

/// Bytes in use. Not under a sanitizer, whose allocator does not tell.
inline std::uint64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace echotrain::testing
