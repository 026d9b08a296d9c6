#include "protocol/files/crc32c.h"

#ifdef __SSE4_2__
#include <nmmintrin.h>

#include <array>
#include <cstring>
#else
#include <boost/crc.hpp>
#endif

namespace echotrain::protocol {

#ifdef __SSE4_2__

namespace {

std::uint64_t add_word(std::uint64_t crc, const std::byte* at) {
  std::uint64_t word = 0;
  std::memcpy(&word, at, sizeof word);
  return _mm_crc32_u64(crc, word);
}

// The instruction takes three cycles, and one can begin in each: so three stretches of bytes are done at once.
constexpr std::size_t kStretch = 4096;

/// The remainders that kStretch zeros make of a remainder, for each of its four bytes. The whole is the sum of these,
/// without carries.
class PastStretch {
 public:
  PastStretch() {
    for (std::size_t i = 0; i < 4; ++i)
      for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint64_t crc = std::uint64_t{byte} << 8 * i;
        for (std::size_t n = 0; n < kStretch; n += sizeof crc) crc = _mm_crc32_u64(crc, 0);
        table_[i][byte] = static_cast<std::uint32_t>(crc);
      }
  }
  std::uint32_t operator()(std::uint64_t crc) const {
    return table_[0][crc & 255] ^ table_[1][crc >> 8 & 255] ^ table_[2][crc >> 16 & 255] ^ table_[3][crc >> 24 & 255];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> table_{};
};

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  static const PastStretch past;
  std::uint64_t crc = ~before;
  for (; bytes.size() >= 3 * kStretch; bytes = bytes.subspan(3 * kStretch)) {
    std::uint64_t second = 0, third = 0;
    for (const std::byte* at = bytes.data(); at != bytes.data() + kStretch; at += sizeof crc) {
      crc = add_word(crc, at);
      second = add_word(second, at + kStretch);
      third = add_word(third, at + 2 * kStretch);
    }
    crc = past(past(crc) ^ second) ^ third;
  }
  for (; bytes.size() >= sizeof crc; bytes = bytes.subspan(sizeof crc)) crc = add_word(crc, bytes.data());
  auto rest = static_cast<std::uint32_t>(crc);
  for (const std::byte byte : bytes) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(byte));
  return ~rest;
}

#else

namespace {

std::uint32_t reversed(std::uint32_t bits) {
  std::uint32_t result = 0;
  for (int i = 0; i < 32; ++i) result |= (bits >> i & 1) << (31 - i);
  return result;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) {
  boost::crc_optimal<32, 0x1EDC6F41, 0, 0, true, true> crc(reversed(~before));
  crc.process_bytes(bytes.data(), bytes.size());
  return ~crc.checksum();
}

#endif

}  // namespace echotrain::protocol
