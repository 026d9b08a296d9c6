// The "fatal" rows of docs/protocol.md, "Validation and answers", that the codec decides: the code, and how early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/protocol/wire_bytes.h"

namespace echotrain::protocol::test {
namespace {

using ::testing::HasSubstr;

std::string code_of(std::span<const std::byte> bytes, const Limits& limits = {}) {
  const auto extent = measure(bytes, limits);
  return extent ? "ok" : extent.error().code;
}

std::string reason_of(std::span<const std::byte> bytes) {
  const auto extent = measure(bytes, Limits{});
  return extent ? "ok" : extent.error().message;
}

// Refused with `code` once `n` bytes are there, and not before.
void expect_refused_at(const Buffer& bytes, std::size_t n, const std::string& code) {
  ASSERT_GE(bytes.size(), n);
  EXPECT_EQ(code_of(first(bytes, n - 1)), "ok") << "with " << n - 1 << " bytes";
  EXPECT_EQ(code_of(first(bytes, n)), code) << "with " << n << " bytes";
  EXPECT_EQ(code_of(bytes), code);
}

TEST(CodecLimits, NothingIsKnownBeforeTheId) {
  for (const std::size_t n : {0u, 1u}) {
    const auto extent = measure(first(Wire().u16(4).bytes, n), Limits{});
    ASSERT_TRUE(extent);
    EXPECT_EQ(extent->id, 0);
    EXPECT_EQ(extent->size, 2u);
    EXPECT_FALSE(extent->exact);
  }
}

TEST(CodecLimits, UnknownAndUnsupportedIds) {
  EXPECT_EQ(reason_of(Wire().u16(1023).bytes), "unsupported message 1023 (RECONDATA)");
  for (const std::uint16_t id : {1018, 1019, 1023, 1024, 1030, 1050, 1051, 1001, 1002, 1003, 1004, 1005, 1006,
                                 1007, 1009, 1010, 1011, 1012, 1013, 1014, 1015, 1016, 1017, 1020, 1021}) {
    EXPECT_EQ(code_of(Wire().u16(id).bytes), "unknown-message") << id;
    EXPECT_THAT(reason_of(Wire().u16(id).bytes), HasSubstr("unsupported message " + std::to_string(id)));
  }
  for (const std::uint16_t id : {0, 9, 999, 1000, 1025, 2000, 4096, 30840, 65535}) {
    EXPECT_EQ(code_of(Wire().u16(id).bytes), "unknown-message") << id;
  }
}

TEST(CodecLimits, ForeignProtocolsAreNamed) {
  EXPECT_THAT(reason_of(Wire().text("yardl").bytes), HasSubstr("MRD v2"));
  EXPECT_THAT(reason_of(Wire().text("GET / HTTP/1.1").bytes), HasSubstr("HTTP"));
  EXPECT_THAT(reason_of(Wire().text("POST /").bytes), HasSubstr("HTTP"));
  EXPECT_THAT(reason_of(Wire().u8(0x16).u8(0x03).u8(0x01).bytes), HasSubstr("TLS"));
}

TEST(CodecLimits, ResponseIsRefusedByAServer) {
  EXPECT_EQ(code_of(Wire().u16(7).bytes), "unknown-message");
  Limits client;
  client.response_bytes = 10;
  EXPECT_EQ(code_of(Wire().u16(7).u64(0).u64(10).bytes, client), "ok");
  EXPECT_EQ(code_of(Wire().u16(7).u64(0).u64(11).bytes, client), "too-large");
}

TEST(CodecLimits, ErrorIsFatalAndItsTextIsReported) {
  const Buffer bytes = Wire().u16(8).u64(4).text("why\x01").bytes;
  expect_refused_at(bytes, 14, "unknown-message");
  EXPECT_THAT(reason_of(bytes), HasSubstr("why?"));
  const auto waiting = measure(first(bytes, 13), Limits{});
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->size, bytes.size());                   // for all of the text, and no more
  EXPECT_EQ(code_of(Wire().u16(8).u64(4096).bytes), "ok");  // waits for the text
  EXPECT_EQ(code_of(Wire().u16(8).u64(4097).bytes), "unknown-message");
  EXPECT_EQ(code_of(Wire().u16(8).u64(UINT64_MAX).bytes), "unknown-message");
}

TEST(CodecLimits, TextLengths) {
  EXPECT_EQ(code_of(Wire().u16(2).u32(1 << 20).bytes), "ok");
  expect_refused_at(Wire().u16(2).u32((1 << 20) + 1).bytes, 6, "bad-config");
  EXPECT_EQ(code_of(Wire().u16(3).u32(16 << 20).bytes), "ok");
  expect_refused_at(Wire().u16(3).u32((16 << 20) + 1).bytes, 6, "bad-header");
  expect_refused_at(Wire().u16(3).u32(0).bytes, 6, "bad-header");
  EXPECT_EQ(code_of(Wire().u16(5).u32(1 << 20).bytes), "ok");
  expect_refused_at(Wire().u16(5).u32((1 << 20) + 1).bytes, 6, "too-large");
  expect_refused_at(Wire().u16(5).u32(UINT32_MAX).bytes, 6, "too-large");
}

TEST(CodecLimits, Query) {
  EXPECT_EQ(code_of(Wire().u16(6).u64(0).u64(1).u64(4096).bytes), "ok");
  expect_refused_at(Wire().u16(6).u64(1).bytes, 10, "bad-query");
  expect_refused_at(Wire().u16(6).u64(0).u64(1).u64(4097).bytes, 26, "bad-query");
  expect_refused_at(Wire().u16(6).u64(0).u64(1).u64(UINT64_MAX).bytes, 26, "bad-query");
}

std::string config_code(std::string_view name, std::byte fill = std::byte{0}) {
  Buffer bytes = Wire().u16(1).text(name).bytes;
  bytes.resize(1026, fill);
  const auto message = decode_copy(bytes);
  return message ? "ok" : message.error().code;
}

TEST(CodecLimits, ConfigNames) {
  EXPECT_EQ(config_code("a"), "ok");
  EXPECT_EQ(config_code(std::string(255, 'a')), "ok");
  EXPECT_EQ(config_code(std::string(256, 'a')), "bad-config");
  EXPECT_EQ(config_code(std::string(1024, 'a')), "bad-config");  // no NUL at all
  EXPECT_EQ(config_code("abc", std::byte{'z'}), "bad-config");
  for (const char* name : {".", "..", ".hidden", "../x", "a/b", "a b", "a\nb", "\xc3\xa4", "a$HOME", "~"}) {
    EXPECT_EQ(config_code(name), "bad-config") << name;
  }
}

// Each of the 255 bytes that a name can hold, by the list of docs/protocol.md.
TEST(CodecLimits, ConfigNamesAreOfTheseCharacters) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  for (int c = 1; c < 256; ++c) {
    const std::string name{'a', static_cast<char>(c)};
    const bool allowed = kAllowed.find(name[1]) != std::string_view::npos;
    EXPECT_EQ(config_code(name), allowed ? "ok" : "bad-config") << c;
  }
}

TEST(CodecLimits, ConfigTextAndHeaderMustBeUtf8) {
  const auto config = decode_copy(Wire().u16(2).u32(1).u8(0xff).bytes);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, "bad-config");
  const auto header = decode_copy(Wire().u16(3).u32(2).u8(0xc3).u8('a').bytes);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code, "bad-header");
}

TEST(CodecLimits, VersionIsRefusedAfterItsTwoBytes) {
  for (const std::uint16_t id : {1008, 1022, 1026}) {
    EXPECT_EQ(code_of(Wire().u16(id).u16(0).bytes), "ok");  // zeroed headers of Python
    EXPECT_EQ(code_of(Wire().u16(id).u16(1).bytes), "ok");
    expect_refused_at(Wire().u16(id).u16(2).bytes, 4, "bad-version");
    expect_refused_at(Wire().u16(id).u16(0x100).bytes, 4, "bad-version");
  }
}

TEST(CodecLimits, AcquisitionSizes) {
  EXPECT_EQ(code_of(acquisition_head(8192, 1024, 3)), "ok");  // exactly 64 MiB
  expect_refused_at(acquisition_head(8193, 1024, 0), 42, "too-large");
  EXPECT_EQ(code_of(acquisition_head(1, 1024, 0)), "ok");
  expect_refused_at(acquisition_head(1, 1025, 0), 42, "too-large");
  expect_refused_at(acquisition_head(65535, 65535, 0), 42, "too-large");
  expect_refused_at(acquisition_head(0, 65535, 0), 42, "too-large");
  EXPECT_EQ(code_of(acquisition_head(65535, 1, 3)), "ok");
  expect_refused_at(acquisition_head(1, 1, 4), 2 + 178, "bad-trajectory");
  expect_refused_at(acquisition_head(1, 1, 65535), 2 + 178, "bad-trajectory");
}

TEST(CodecLimits, CompressionKindsWithoutALayout) {
  const std::uint64_t one = 1ull << 52;
  const std::uint64_t two = 1ull << 53;
  expect_refused_at(acquisition_head(4, 1, 0, 1ull << 54), 12, "compression");
  expect_refused_at(acquisition_head(4, 1, 0, 1ull << 55), 12, "compression");
  expect_refused_at(acquisition_head(4, 1, 0, one | two), 12, "compression");
}

TEST(CodecLimits, CompressedLengthComesAfterTheTrajectory) {
  const std::uint64_t flag = 1ull << 53;
  const Buffer head = acquisition_head(4, 2, 3, flag);
  const auto extent = measure(head, Limits{});
  ASSERT_TRUE(extent);
  EXPECT_FALSE(extent->exact);
  EXPECT_EQ(extent->size, 342u + 4 * 3 * 4 + 4);
  const auto known = measure(Wire{head}.zeros(48).u32(100).bytes, Limits{});
  ASSERT_TRUE(known);
  EXPECT_TRUE(known->exact);
  EXPECT_EQ(known->size, 342u + 48 + 4 + 100);
  EXPECT_EQ(code_of(Wire{head}.zeros(48).u32(16 * 8 + 64).bytes), "ok");
  EXPECT_EQ(code_of(Wire{head}.zeros(48).u32(16 * 8 + 65).bytes), "compression");
  EXPECT_EQ(code_of(Wire{head}.zeros(48).u32(UINT32_MAX).bytes), "compression");
  // Without samples there is no block and no length.
  const auto empty = measure(acquisition_head(4, 0, 3, flag), Limits{});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->exact);
  EXPECT_EQ(empty->size, 342u + 48);
}

TEST(CodecLimits, WaveformSizes) {
  EXPECT_EQ(code_of(waveform_head(65535, 64)), "ok");
  EXPECT_EQ(code_of(waveform_head(4096, 1024)), "ok");  // exactly 16 MiB
  expect_refused_at(waveform_head(4097, 1024), 34, "too-large");
  expect_refused_at(waveform_head(65535, 65535), 34, "too-large");
  const auto empty = measure(waveform_head(0, 0), Limits{});
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->size, 42u);
}

TEST(CodecLimits, ImageTypesAndSizes) {
  for (const std::uint16_t type : {0, 9, 65535}) expect_refused_at(image_head(type, 1, 1, 1, 1, 0), 6, "bad-image");
  expect_refused_at(image_head(5, 0, 1, 1, 1, 0), 2 + 18, "bad-image");
  expect_refused_at(image_head(5, 1, 0, 1, 1, 0), 2 + 20, "bad-image");
  expect_refused_at(image_head(5, 1, 1, 0, 1, 0), 2 + 22, "bad-image");
  expect_refused_at(image_head(5, 1, 1, 1, 0, 0), 2 + 36, "bad-image");
  EXPECT_EQ(code_of(image_head(8, 1024, 1024, 64, 1, 0)), "ok");  // exactly 1 GiB
  expect_refused_at(image_head(8, 1024, 1024, 65, 1, 0), 2 + 22, "too-large");
  // 2^32 voxels wrap to 0 in 32 bits, and 65535^4 of 16 bytes wrap in 64 bits.
  expect_refused_at(image_head(1, 32768, 32768, 4, 1, 0), 2 + 20, "too-large");
  EXPECT_EQ(code_of(image_head(8, 65535, 65535, 65535, 65535, 0)), "too-large");
  EXPECT_EQ(code_of(image_head(5, 1, 1, 1, 1, 16 << 20)), "ok");
  expect_refused_at(image_head(5, 1, 1, 1, 1, (16 << 20) + 1), 208, "too-large");
  expect_refused_at(image_head(5, 1, 1, 1, 1, UINT64_MAX), 208, "too-large");
}

TEST(CodecLimits, LimitsAreConfigurable) {
  Limits small;
  small.acquisition_bytes = 64;
  small.channels = 4;
  small.image_bytes = 8;
  EXPECT_EQ(code_of(acquisition_head(2, 4, 0), small), "ok");
  EXPECT_EQ(code_of(acquisition_head(3, 4, 0), small), "too-large");
  EXPECT_EQ(code_of(acquisition_head(1, 5, 0), small), "too-large");
  EXPECT_EQ(code_of(image_head(6, 1, 1, 1, 1, 0), small), "ok");
  EXPECT_EQ(code_of(image_head(6, 2, 1, 1, 1, 0), small), "too-large");
  Limits none;
  none.image_bytes = UINT64_MAX;
  EXPECT_EQ(code_of(image_head(8, 32768, 32768, 32768, 32768, 0), none), "too-large");  // 2^64 wraps to 0
}

TEST(CodecLimits, DecodeTakesExactlyOneMessage) {
  Buffer bytes = acquisition_bytes(4, 2, 1);
  bytes.push_back(std::byte{0});
  const auto longer = decode_copy(bytes);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code, "truncated");
  bytes.resize(bytes.size() - 2);
  const auto shorter = decode_copy(bytes);
  ASSERT_FALSE(shorter);
  EXPECT_EQ(shorter.error().code, "truncated");
}

TEST(CodecLimits, ErrorsArePlainAscii) {
  Buffer bytes = Wire().u16(1).u8(0xe4).u8(0x07).u8('[').bytes;
  bytes.resize(1026);
  const auto message = decode_copy(bytes);
  ASSERT_FALSE(message);
  for (const char c : message.error().message) EXPECT_TRUE(c >= 0x20 && c <= 0x7e) << static_cast<int>(c);
}

}  // namespace
}  // namespace echotrain::protocol::test
