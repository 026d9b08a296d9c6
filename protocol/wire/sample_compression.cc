#include "protocol/wire/sample_compression.h"

#include <fmt/format.h>
#include <zfp.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>

#include "protocol/data/layout.h"
#include "protocol/data/limits.h"

namespace echotrain::protocol {
namespace {

constexpr std::size_t kPackedHeadBytes = 13;  // uint64 count, float scale, uint8 bits

Error refuse(std::string reason) { return {"compression", std::move(reason)}; }

// Gadgetron counts the bytes of a block in single precision, so above 2^24 bits the length may be off by the rounding
// of a float of that size. Bytes that are missing because of it read as zero.
std::uint64_t rounding_slack(std::uint64_t total_bits) {
  constexpr int kFloatBits = 24;
  const int width = std::bit_width(total_bits);
  return width <= kFloatBits ? 0 : (std::uint64_t{1} << (width - kFloatBits)) / 8 + 1;
}

// Bits that libzfp reads of 16 numbers before it checks their limit: whether there is anything, the way back, exponent
// and precision. With a lower limit its subtraction wraps around, and it reads on without a bound.
constexpr unsigned kZfpHeadBits = 1 + 1 + 8 + 5;

struct ZfpDeleter {
  void operator()(zfp_field* field) const { zfp_field_free(field); }
  void operator()(zfp_stream* stream) const { zfp_stream_close(stream); }
  void operator()(bitstream* bits) const { stream_close(bits); }
};

}  // namespace

Status check_packed(std::span<const std::byte> block, std::uint64_t elements) {
  if (block.size() < kPackedHeadBytes) {
    return refuse(
        fmt::format("COMPRESSION2 block has {} bytes; its head alone has {}", block.size(), kPackedHeadBytes));
  }
  const auto count = load<std::uint64_t>(block, 0);
  const auto scale = load<float>(block, 8);
  const auto bits = load<std::uint8_t>(block, 12);
  if (count != elements) {
    return refuse(fmt::format("COMPRESSION2 block holds {} numbers; the readout has {}", count, elements));
  }
  if (bits < 1 || bits > 31)
    return refuse(fmt::format("COMPRESSION2 block has {} bits per number; 1 to 31 are valid", bits));
  if (!std::isfinite(scale) || scale <= 0) {
    return refuse(fmt::format("COMPRESSION2 block has scale {}; it must be finite and positive", scale));
  }
  const std::uint64_t total_bits = elements * bits;
  const std::uint64_t expected = kPackedHeadBytes + (total_bits + 7) / 8;
  const std::uint64_t slack = rounding_slack(total_bits);
  if (block.size() + slack < expected || block.size() > expected + slack) {
    return refuse(fmt::format("COMPRESSION2 block has {} bytes; {} numbers of {} bits need {}", block.size(), elements,
                              bits, expected));
  }
  return {};
}

Result<std::vector<float>> expand_packed(std::span<const std::byte> block, std::uint64_t elements) {
  if (Status status = check_packed(block, elements); !status) return status.error();
  const auto scale = load<float>(block, 8);
  const auto bits = load<std::uint8_t>(block, 12);
  const auto packed = block.subspan(kPackedHeadBytes);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  std::vector<float> values(elements);
  std::uint64_t window = 0;  // bits read but not used yet, the next one lowest
  unsigned held = 0;
  std::size_t next = 0;
  for (float& value : values) {
    while (held < bits) {
      const std::uint64_t byte = next < packed.size() ? std::to_integer<std::uint64_t>(packed[next]) : 0;
      ++next;
      window |= byte << held;
      held += 8;
    }
    const std::uint64_t raw = window & mask;
    const auto integer = static_cast<std::int64_t>(raw ^ sign) - static_cast<std::int64_t>(sign);
    value = static_cast<float>(integer) / scale;
    window >>= bits;
    held -= bits;
  }
  return values;
}

// The copy of the block with the padding below: what libzfp may read, which is at most a header, and for each 16
// numbers their exponent and 32 planes of 16 bits with a group test each.
std::uint64_t zfp_scratch_bytes(std::span<const std::byte> block, std::uint64_t samples, std::uint64_t channels) {
  const std::uint64_t blocks = ((2 * samples + 3) / 4) * ((channels + 3) / 4);
  return 2 * block.size() + 160 + blocks * (16 * sizeof(float) + 8);
}

namespace {

/// A block whose header has been read and checked.
struct Zfp {
  std::vector<std::uint64_t> input;
  std::unique_ptr<zfp_field, ZfpDeleter> field;
  std::unique_ptr<zfp_stream, ZfpDeleter> stream;
  std::unique_ptr<bitstream, ZfpDeleter> bits;
  std::size_t head_bits = 0;
};

Result<Zfp> open_zfp(std::span<const std::byte> block, std::uint64_t samples, std::uint64_t channels) {
  if (const std::uint64_t plain = 8 * samples * channels;
      plain > kAnyRatioBytes && plain / kMaxExpansion > block.size()) {
    return refuse(fmt::format("COMPRESSION1 block of {} bytes expands to {}; at most {} times its size is taken",
                              block.size(), plain, kMaxExpansion));
  }
  // libzfp reads whole words and does not know where its input ends. So it first reads the header from a small copy,
  // then the block from a copy padded with zeros to the longest stream for this size.
  constexpr std::size_t kHeadWords = (ZFP_HEADER_MAX_BITS + 63) / 64 + 1;
  Zfp zfp{std::vector<std::uint64_t>(kHeadWords), decltype(Zfp::field)(zfp_field_alloc()),
          decltype(Zfp::stream)(zfp_stream_open(nullptr)), nullptr};
  auto& [input, field, stream, bits, head_bits] = zfp;
  std::copy_n(block.begin(), std::min(block.size(), input.size() * 8), reinterpret_cast<std::byte*>(input.data()));

  bits.reset(stream_open(input.data(), input.size() * 8));
  zfp_stream_set_bit_stream(stream.get(), bits.get());
  zfp_stream_rewind(stream.get());
  head_bits = zfp_read_header(stream.get(), field.get(), ZFP_HEADER_FULL);
  if (head_bits == 0 || head_bits > block.size() * 8) return refuse("COMPRESSION1 block has no valid ZFP header");
  if (zfp_field_type(field.get()) != zfp_type_float || zfp_field_dimensionality(field.get()) != 2 ||
      field->nx != 2 * samples || field->ny != channels) {
    return refuse(fmt::format("COMPRESSION1 block is {}D, {} x {}; the readout is 2D float, {} x {}",
                              zfp_field_dimensionality(field.get()), field->nx, field->ny, 2 * samples, channels));
  }
  if (stream->maxbits < kZfpHeadBits) {
    return refuse(fmt::format("COMPRESSION1 block has {} bits for 16 numbers; at least {} are needed", stream->maxbits,
                              kZfpHeadBits));
  }
  const std::uint64_t blocks = zfp_field_blocks(field.get());
  if (blocks * stream->minbits > block.size() * 8) {
    return refuse(fmt::format("COMPRESSION1 block has {} bytes; its header asks for at least {} bits", block.size(),
                              blocks * stream->minbits));
  }

  return zfp;
}

}  // namespace

Status check_zfp(std::span<const std::byte> block, std::uint64_t samples, std::uint64_t channels) {
  const Result<Zfp> zfp = open_zfp(block, samples, channels);
  return zfp ? Status() : Status(zfp.error());
}

Result<std::vector<float>> expand_zfp(std::span<const std::byte> block, std::uint64_t samples, std::uint64_t channels) {
  Result<Zfp> zfp = open_zfp(block, samples, channels);
  if (!zfp) return zfp.error();
  auto& [input, field, stream, bits, head_bits] = *zfp;
  const std::size_t padding = zfp_stream_maximum_size(stream.get(), field.get()) / 8 + 2;
  input = std::vector<std::uint64_t>((block.size() + 7) / 8 + padding);
  std::copy(block.begin(), block.end(), reinterpret_cast<std::byte*>(input.data()));
  bits.reset(stream_open(input.data(), input.size() * 8));
  zfp_stream_set_bit_stream(stream.get(), bits.get());
  zfp_stream_rewind(stream.get());
  std::vector<float> values(2 * samples * channels);
  zfp_field_set_pointer(field.get(), values.data());
  if (zfp_read_header(stream.get(), field.get(), ZFP_HEADER_FULL) != head_bits) {
    return refuse("COMPRESSION1 block has no valid ZFP header");
  }
  const std::size_t used = zfp_decompress(stream.get(), field.get());
  // The reader rounds up to whole words.
  if (used == 0 || used > (block.size() + 7) / 8 * 8) {
    return refuse(fmt::format("COMPRESSION1 block of {} bytes is cut short", block.size()));
  }
  return values;
}

}  // namespace echotrain::protocol
