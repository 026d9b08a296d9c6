#include "protocol/wire/sample_compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zfp.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "tests/protocol/wire_bytes.h"

namespace echotrain::protocol::test {
namespace {

constexpr std::uint64_t kZfp = 1ull << 52;
constexpr std::uint64_t kPacked = 1ull << 53;

// Four 5-bit numbers, packed by hand: 3, -1, 15, -16 are 00011, 11111, 01111, 10000; least significant bit first they
// make bytes 11100011 (3 bits of -1 above 3), 10111111 (2 bits of -1, then 01111, then the lowest bit of 10000 = 0),
// ... As one number: 3 | 31 << 5 | 15 << 10 | 16 << 15 = 0x83fe3.
Wire packed_block(std::uint64_t count = 4, float scale = 2, std::uint8_t bits = 5) {
  return Wire().u64(count).f32(scale).u8(bits).u8(0xe3).u8(0x3f).u8(0x08);
}

TEST(Compression, HandMadePackedBlock) {
  const auto values = expand_packed(packed_block().bytes, 4);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(*values, (std::vector<float>{1.5f, -0.5f, 7.5f, -8.0f}));
}

TEST(Compression, PackedWidthsFromOneToThirtyOne) {
  for (int bits = 1; bits <= 31; ++bits) {
    // The two ends of the range, zero and minus one, alternating over 37 numbers.
    const std::int64_t low = -(std::int64_t{1} << (bits - 1));
    const std::array<std::int64_t, 4> kinds = {low, -low - 1, 0, -1};
    std::vector<bool> stream;
    std::vector<float> expected;
    for (std::size_t i = 0; i < 37; ++i) {
      for (int b = 0; b < bits; ++b) stream.push_back(((kinds[i % 4] >> b) & 1) != 0);
      expected.push_back(static_cast<float>(kinds[i % 4]) / 0.25f);
    }
    Wire wire = Wire().u64(37).f32(0.25f).u8(static_cast<std::uint8_t>(bits));
    for (std::size_t i = 0; i < stream.size(); i += 8) {
      unsigned byte = 0;
      for (std::size_t b = 0; b < 8 && i + b < stream.size(); ++b) byte |= stream[i + b] ? 1u << b : 0u;
      wire.u8(static_cast<std::uint8_t>(byte));
    }
    const auto values = expand_packed(wire.bytes, 37);
    ASSERT_TRUE(values) << bits << ": " << values.error().message;
    EXPECT_EQ(*values, expected) << bits << " bits";
  }
}

TEST(Compression, PackedBlocksThatAreRefused) {
  const auto refused = [](const Buffer& bytes, std::uint64_t elements = 4) {
    const auto values = expand_packed(bytes, elements);
    return !values && values.error().code == "compression";
  };
  EXPECT_TRUE(refused(packed_block(5).bytes));
  EXPECT_TRUE(refused(packed_block(UINT64_MAX).bytes));
  EXPECT_TRUE(refused(packed_block().bytes, 5));
  EXPECT_TRUE(refused(packed_block(4, 2, 0).bytes));
  EXPECT_TRUE(refused(packed_block(4, 2, 32).bytes));
  EXPECT_TRUE(refused(packed_block(4, 2, 4).bytes));  // one byte too many for 16 bits
  EXPECT_TRUE(refused(packed_block(4, 2, 7).bytes));  // one too few for 28
  for (const float scale :
       {0.0f, -1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_TRUE(refused(packed_block(4, scale).bytes)) << scale;
  }
  EXPECT_TRUE(refused(Wire().zeros(12).bytes));
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused(packed_block().u8(0).bytes));
}

TEST(Compression, PackedLengthMayBeRoundedInSinglePrecision) {
  // 2^21 + 1 numbers of 9 bits: 18874377 bits, which as a float is 18874376 = 2359297 bytes exactly, one byte short.
  constexpr std::uint64_t kCount = (1u << 21) + 1;
  const auto length = static_cast<std::size_t>(std::ceil(static_cast<float>(kCount * 9) / 8.0f));
  ASSERT_EQ(length + 1, (kCount * 9 + 7) / 8);
  const auto values = expand_packed(Wire().u64(kCount).f32(1).u8(9).zeros(length).bytes, kCount);
  ASSERT_TRUE(values) << values.error().message;
  EXPECT_EQ(values->size(), kCount);
  // A float of 25 bits is at most one bit off, and its bytes at most one.
  EXPECT_TRUE(expand_packed(Wire().u64(kCount).f32(1).u8(9).zeros(length + 2).bytes, kCount));
  EXPECT_FALSE(expand_packed(Wire().u64(kCount).f32(1).u8(9).zeros(length - 1).bytes, kCount));
  EXPECT_FALSE(expand_packed(Wire().u64(kCount).f32(1).u8(9).zeros(length + 3).bytes, kCount));
}

TEST(Compression, PackedReadoutBecomesPlain) {
  Wire wire{acquisition_head(2, 1, 1, kPacked | 0x80)};
  wire.f32(0.25f).f32(-0.25f);
  const Buffer block = packed_block().bytes;
  wire.u32(static_cast<std::uint32_t>(block.size()));
  wire.bytes.insert(wire.bytes.end(), block.begin(), block.end());
  const auto message = decode_copy(wire.bytes);
  ASSERT_TRUE(message) << message.error().message;
  const auto& acquisition = std::get<Acquisition>(*message);
  EXPECT_EQ(+acquisition.head.flags, 0x80u);
  EXPECT_EQ(numbers<float>(acquisition.trajectory), (std::vector<float>{0.25f, -0.25f}));
  EXPECT_EQ(numbers<float>(acquisition.data), (std::vector<float>{1.5f, -0.5f, 7.5f, -8.0f}));
}

TEST(Compression, FlagOfAnEmptyReadoutIsCleared) {
  const auto message = decode_copy(acquisition_head(0, 3, 0, kPacked));
  ASSERT_TRUE(message);
  EXPECT_EQ(+std::get<Acquisition>(*message).head.flags, 0u);
}

// Made with libzfp itself, which is what senders use. `accuracy` 0 means a lossless stream.
Buffer zfp_block(std::vector<float> values, std::size_t nx, std::size_t ny, double accuracy, double rate = 0) {
  zfp_field* field = zfp_field_2d(values.data(), zfp_type_float, nx, ny);
  zfp_stream* stream = zfp_stream_open(nullptr);
  if (rate > 0) {
    zfp_stream_set_rate(stream, rate, zfp_type_float, 2, 0);
  } else if (accuracy > 0) {
    zfp_stream_set_accuracy(stream, accuracy);
  } else {
    zfp_stream_set_reversible(stream);
  }
  Buffer block(zfp_stream_maximum_size(stream, field));
  bitstream* bits = stream_open(block.data(), block.size());
  zfp_stream_set_bit_stream(stream, bits);
  zfp_stream_rewind(stream);
  zfp_write_header(stream, field, ZFP_HEADER_FULL);
  block.resize(zfp_compress(stream, field));
  stream_close(bits);
  zfp_stream_close(stream);
  zfp_field_free(field);
  return block;
}

std::vector<float> wave(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(0.37f * static_cast<float>(i)) * 100;
  return values;
}

TEST(Compression, ZfpReadout) {
  const std::size_t samples = 33;
  const std::size_t channels = 5;
  const auto truth = wave(2 * samples * channels);
  for (const double accuracy : {0.0, 1e-3}) {
    const Buffer block = zfp_block(truth, 2 * samples, channels, accuracy);
    ASSERT_EQ(std::memcmp(block.data(), "zfp\x05", 4), 0);
    Wire wire{acquisition_head(samples, channels, 0, kZfp)};
    wire.u32(static_cast<std::uint32_t>(block.size()));
    wire.bytes.insert(wire.bytes.end(), block.begin(), block.end());
    const auto message = decode_copy(wire.bytes);
    ASSERT_TRUE(message) << message.error().message;
    const auto values = numbers<float>(std::get<Acquisition>(*message).data);
    ASSERT_EQ(values.size(), truth.size());
    // zfp keeps its tolerance; rounding of a float of size 100 adds about 1e-5.
    for (std::size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(values[i], truth[i], accuracy * 1.01) << i;
    EXPECT_EQ(+std::get<Acquisition>(*message).head.flags, 0u);
  }
}

TEST(Compression, ZfpOfAnotherShapeIsRefused) {
  const Buffer block = zfp_block(wave(64), 16, 4, 1e-3);
  EXPECT_TRUE(expand_zfp(block, 8, 4));
  EXPECT_FALSE(expand_zfp(block, 4, 8));
  EXPECT_FALSE(expand_zfp(block, 8, 5));
  EXPECT_FALSE(expand_zfp(block, 60000, 1000));
}

// A bit for each 4 x 4 zeros, and a head.
TEST(Compression, ZfpThatExpandsTooFarIsRefused) {
  const auto zeros = [](std::size_t samples, std::size_t channels) {
    return zfp_block(std::vector<float>(2 * samples * channels), 2 * samples, channels, 1e-3);
  };
  const Buffer small = zeros(512, 256);  // 1 MiB
  EXPECT_LT(small.size(), std::size_t{9000});
  EXPECT_TRUE(expand_zfp(small, 512, 256));
  const Buffer large = zeros(512, 264);
  const auto values = expand_zfp(large, 512, 264);
  ASSERT_FALSE(values);
  EXPECT_THAT(values.error().message, testing::HasSubstr("at most 64 times its size"));
}

// What expanding takes is known before: the numbers, and a copy of the block that is as long as libzfp may read.
TEST(Compression, ScratchOfZfpIsWhatItMayRead) {
  std::vector<float> values = wave(64 * 50);
  zfp_field* field = zfp_field_2d(values.data(), zfp_type_float, 64, 50);
  zfp_stream* stream = zfp_stream_open(nullptr);
  zfp_stream_set_reversible(stream);
  const Buffer block = zfp_block(values, 64, 50, 0);
  EXPECT_GE(zfp_scratch_bytes(block, 32, 50), block.size() + zfp_stream_maximum_size(stream, field));
  EXPECT_LE(zfp_scratch_bytes(block, 32, 50), 2 * block.size() + 2 * zfp_stream_maximum_size(stream, field));
  zfp_stream_close(stream);
  zfp_field_free(field);
}

TEST(Compression, ZfpCutShortIsRefused) {
  const Buffer block = zfp_block(wave(4096), 64, 64, 1e-3);
  EXPECT_TRUE(expand_zfp(block, 32, 64));
  for (const std::size_t n : {block.size() / 2, block.size() - 16, std::size_t{20}, std::size_t{4}, std::size_t{0}}) {
    const auto values = expand_zfp(first(block, n), 32, 64);
    ASSERT_FALSE(values) << n;
    EXPECT_EQ(values.error().code, "compression");
  }
}

TEST(Compression, DamagedZfpNeverCrashes) {
  std::mt19937 random(7);
  for (const double rate : {0.0, 8.0}) {
    const Buffer good = zfp_block(wave(512), 32, 16, 1e-3, rate);
    for (int i = 0; i < 5000; ++i) {
      Buffer block = good;
      // Mostly the head, which says how the rest is read.
      for (int k = 0; k < 3; ++k) block[random() % (k == 0 ? 20 : block.size())] ^= static_cast<std::byte>(random());
      if (i % 3 == 0) block.resize(random() % block.size());
      const auto values = expand_zfp(block, 16, 16);
      if (values) {
        ASSERT_EQ(values->size(), 512u);
      } else {
        ASSERT_EQ(values.error().code, "compression");
      }
    }
  }
}

TEST(Compression, ZfpThatAsksForMoreBitsThanItHasIsRefused) {
  const Buffer block = zfp_block(wave(4096), 64, 64, 0, 16);
  EXPECT_TRUE(expand_zfp(block, 32, 64));
  EXPECT_FALSE(expand_zfp(first(block, block.size() / 2), 32, 64));
}

// libzfp subtracts the bits of a block's head from those that the block may have: with fewer it would read past its
// input without a bound.
TEST(Compression, ZfpBlocksWithoutRoomForTheirHeadAreRefused) {
  for (const unsigned bits : {1u, 8u, 14u}) {
    std::vector<float> values(16);
    zfp_field* field = zfp_field_2d(values.data(), zfp_type_float, 4, 4);
    zfp_stream* stream = zfp_stream_open(nullptr);
    ASSERT_TRUE(zfp_stream_set_params(stream, bits, bits, ZFP_MAX_PREC, ZFP_MIN_EXP));
    Buffer block(64);
    bitstream* words = stream_open(block.data(), block.size());
    zfp_stream_set_bit_stream(stream, words);
    const std::size_t head = zfp_write_header(stream, field, ZFP_HEADER_FULL) / 8;
    zfp_stream_flush(stream);
    stream_close(words);
    zfp_stream_close(stream);
    zfp_field_free(field);
    std::fill(block.begin() + static_cast<std::ptrdiff_t>(head), block.end(), std::byte{0xff});
    const auto expanded = expand_zfp(first(block, head + 5), 2, 4);
    ASSERT_FALSE(expanded) << bits;
    EXPECT_NE(expanded.error().message.find("at least 15 are needed"), std::string::npos) << expanded.error().message;
  }
}

}  // namespace
}  // namespace echotrain::protocol::test
