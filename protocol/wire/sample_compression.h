// Functions that expand the compressed samples of a readout (docs/protocol.md, "Compressed acquisitions").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "protocol/data/result.h"

namespace echotrain::protocol {

/// Returns the memory that expand_zfp() takes meanwhile, beside the block and what it returns [bytes].
std::uint64_t zfp_scratch_bytes(std::span<const std::byte> block, std::uint64_t samples, std::uint64_t channels);
/// Expands a COMPRESSION1 block: a ZFP stream with a full header, 2D, 2 * samples by channels floats. Returns
/// 2 * samples * channels floats (re, im, sample fastest). Errors have code "compression". A block that expands to more
/// than kAnyRatioBytes must have at least 1 byte for kMaxExpansion of them (limits.h).
Result<std::vector<float>> expand_zfp(std::span<const std::byte> block, std::uint64_t samples, std::uint64_t channels);

/// Expands a COMPRESSION2 block: uint64 count, float scale, uint8 bits, then `count` two's-complement integers of
/// `bits` bits, least significant bit first; value = integer / scale. `count` must be `elements`. Errors:
/// "compression".
Result<std::vector<float>> expand_packed(std::span<const std::byte> block, std::uint64_t elements);

/// Checks what expanding would check first; the rest of a ZFP block may be wrong all the same.
Status check_zfp(std::span<const std::byte> block, std::uint64_t samples, std::uint64_t channels);
Status check_packed(std::span<const std::byte> block, std::uint64_t elements);

}  // namespace echotrain::protocol
