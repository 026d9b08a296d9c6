// Random garbage: nothing may crash, read past its input (sanitizers watch), or take memory by a claimed length.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "protocol/data/header.h"
#include "protocol/data/xml_check.h"
#include "protocol/files/stream_file.h"
#include "tests/protocol/wire_bytes.h"

namespace echotrain::protocol::test {
namespace {

constexpr std::uint16_t kIds[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 1008, 1022, 1026, 1023, 24953};

class Random {
 public:
  std::uint32_t below(std::uint32_t n) { return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(engine_); }
  std::byte byte() { return static_cast<std::byte>(below(256)); }

 private:
  std::mt19937 engine_{20240601};
};

// Refusing is fine, and so is accepting; what is accepted must encode to a message of the same kind.
void digest(const Buffer& bytes, const Limits& limits) {
  const auto extent = measure(bytes, limits);
  const auto message = decode_copy(bytes, limits);
  if (!extent) {
    ASSERT_FALSE(message);
    ASSERT_FALSE(extent.error().code.empty());
    return;
  }
  ASSERT_TRUE(extent->exact || extent->size > bytes.size());
  if (!message) return;
  ASSERT_EQ(extent->size, bytes.size());
  Buffer again;
  std::visit([&again](const auto& content) { encode(content, again); }, *message);
  const auto second = decode_copy(again, limits);
  ASSERT_TRUE(second);
  ASSERT_EQ(second->index(), message->index());
}

Limits small_limits() {
  Limits limits;
  limits.response_bytes = 64;
  limits.acquisition_bytes = 4096;
  limits.image_bytes = 4096;
  limits.waveform_bytes = 4096;
  return limits;
}

TEST(CodecFuzz, RandomBytesBehindEachId) {
  Random random;
  for (int i = 0; i < 60'000; ++i) {
    Wire wire;
    wire.u16(kIds[random.below(std::size(kIds))]);
    const std::uint32_t n = random.below(500);
    for (std::uint32_t k = 0; k < n; ++k) wire.bytes.push_back(random.below(3) == 0 ? random.byte() : std::byte{0});
    digest(wire.bytes, small_limits());
    if (HasFatalFailure()) return;
  }
}

TEST(CodecFuzz, GoodMessagesWithAFewBytesChanged) {
  Random random;
  Buffer compressed = Wire{acquisition_head(2, 1, 0, 1ull << 53)}.u32(16).u64(4).f32(2).u8(5).zeros(3).bytes;
  const Buffer originals[] = {acquisition_bytes(5, 2, 2),
                              Wire{image_head(5, 3, 2, 1, 1, 4)}.text("<a/>").zeros(24).bytes,
                              Wire{waveform_head(3, 2)}.zeros(24).bytes,
                              Wire().u16(6).u64(0).u64(1).u64(2).text("ab").bytes,
                              Wire().u16(3).u32(4).text("<a/>").bytes,
                              compressed};
  for (int i = 0; i < 40'000; ++i) {
    Buffer bytes = originals[random.below(std::size(originals))];
    const std::uint32_t changes = 1 + random.below(4);
    for (std::uint32_t k = 0; k < changes; ++k) {
      bytes[2 + random.below(static_cast<std::uint32_t>(bytes.size() - 2))] = random.byte();
    }
    bytes.resize(random.below(2) == 0 ? bytes.size() : random.below(static_cast<std::uint32_t>(bytes.size() + 1)));
    digest(bytes, small_limits());
    if (HasFatalFailure()) return;
  }
}

TEST(CodecFuzz, EveryTruncationOfAGoodMessageAsksForMore) {
  for (const Buffer& bytes :
       {acquisition_bytes(5, 2, 2), Wire{image_head(5, 3, 2, 1, 1, 4)}.text("<a/>").zeros(24).bytes,
        Wire().u16(1).text("a").zeros(1023).bytes, Wire().u16(5).u32(3).text("abc").bytes}) {
    std::uint64_t known = 0;
    for (std::size_t n = 0; n < bytes.size(); ++n) {
      const Buffer part(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
      const auto extent = measure(part, Limits{});
      ASSERT_TRUE(extent);
      ASSERT_GT(extent->size, n);
      ASSERT_GE(extent->size, known);  // the known size never shrinks
      known = extent->size;
      ASSERT_FALSE(decode_copy(part));
    }
    ASSERT_EQ(known, bytes.size());
  }
}

TEST(CodecFuzz, GarbageThroughTheMessageBuffer) {
  Random random;
  for (int i = 0; i < 2000; ++i) {
    MessageBuffer buffer(small_limits(), 512);
    bool alive = true;
    for (int k = 0; k < 50 && alive; ++k) {
      const auto room = buffer.prepare();
      const std::size_t n = std::min<std::size_t>(room.size(), 1 + random.below(100));
      std::generate_n(room.begin(), n, [&] { return random.below(4) == 0 ? random.byte() : std::byte{0}; });
      if (k == 0 && n >= 2) {
        const std::uint16_t id = kIds[random.below(std::size(kIds))];
        std::memcpy(room.data(), &id, 2);
      }
      buffer.commit(n);
      while (true) {
        const auto message = buffer.next();
        alive = static_cast<bool>(message);
        if (!message || !*message) break;
      }
    }
  }
}

TEST(CodecFuzz, XmlScanAndHeaderSurviveMarkupGarbage) {
  Random random;
  constexpr std::string_view kPieces[] = {"<",         ">",   "/",   "!",    "?",          "\"",
                                          "'",         "a",   "=",   " ",    "<!--",       "-->",
                                          "<![CDATA[", "]]>", "<a>", "</a>", "<encoding>", "<ismrmrdHeader>",
                                          "&lt;",      "&x;", "\xff"};
  for (int i = 0; i < 20'000; ++i) {
    std::string xml = random.below(2) == 0 ? "<ismrmrdHeader>" : "";
    const std::uint32_t n = random.below(30);
    for (std::uint32_t k = 0; k < n; ++k) xml += kPieces[random.below(std::size(kPieces))];
    EXPECT_FALSE(parse_header(xml, Limits{})) << xml;
  }
}

}  // namespace
}  // namespace echotrain::protocol::test
