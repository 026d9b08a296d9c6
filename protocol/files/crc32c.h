// The CRC-32C is the checksum of iSCSI, ext4 and many others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace echotrain::protocol {

/// Returns the CRC-32C (Castagnoli's polynomial, RFC 3720, section 12.1) of `bytes`. `before` is that of the bytes
/// before them, to go on from there. It finds any three flipped bits of a MiB, and all but one in 2^32 of other
/// changes.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace echotrain::protocol
