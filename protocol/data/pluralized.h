// A counted noun, "3 images", for texts that people read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace echotrain::protocol {

/// "1 image", "3 images": for nouns whose plural ends in s.
inline std::string pluralized(std::uint64_t n, std::string_view noun) {
  return std::to_string(n) + ' ' + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace echotrain::protocol
