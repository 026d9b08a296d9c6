#include "protocol/data/layout.h"

#include <array>

namespace echotrain::protocol {

std::size_t bytes_per_pixel(std::uint16_t data_type) {
  static constexpr std::array<std::size_t, 9> kBytes = {0, 2, 2, 4, 4, 4, 8, 8, 16};
  return data_type < kBytes.size() ? kBytes[data_type] : 0;
}

std::optional<std::uint64_t> pixel_bytes(const ImageHeader& head, std::uint64_t limit) {
  std::uint64_t bytes = bytes_per_pixel(head.data_type);
  for (const std::uint16_t size : {+head.matrix_size[0], +head.matrix_size[1], +head.matrix_size[2], +head.channels}) {
    if (size == 0 || bytes == 0 || bytes > limit / size) return std::nullopt;
    bytes *= size;
  }
  return bytes;
}

}  // namespace echotrain::protocol
