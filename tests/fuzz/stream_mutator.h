// The mutator changes streams of messages as messages: one changes, goes, comes twice or moves, and lengths stay true,
// so that more inputs reach what lies behind the codec. Included by the one source file of a fuzz target.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/data/layout.h"
#include "protocol/wire/codec.h"
#include "tests/fuzz/fuzz.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace echotrain::fuzz {

/// A field of a message's fixed part, counted from after the id, and the values that are worth trying.
struct Field {
  std::size_t offset;
  std::size_t width;
};

class StreamMutator {
 public:
  StreamMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed)
      : data_(data), size_(size), max_size_(max_size), random_(seed) {}

  std::size_t mutate() {
    split();
    if (pieces_.empty() || below(3) == 0) return LLVMFuzzerMutate(data_, size_, max_size_);
    const std::size_t at = below(pieces_.size());
    switch (below(8)) {
      case 0:
        pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        pieces_.insert(pieces_.begin() + static_cast<std::ptrdiff_t>(below(pieces_.size() + 1)), Piece(pieces_[at]));
        break;
      case 2:
        std::swap(pieces_[at], pieces_[below(pieces_.size())]);
        break;
      default:
        change(pieces_[at]);
    }
    return join();
  }

 private:
  using Piece = std::vector<std::byte>;

  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  void split() {
    auto rest = as_bytes(data_, size_);
    while (!rest.empty()) {
      const auto extent = protocol::measure(rest, limits_);
      if (!extent || !extent->exact || extent->size > rest.size()) break;
      pieces_.emplace_back(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(extent->size));
      rest = rest.subspan(extent->size);
    }
    tail_.assign(rest.begin(), rest.end());
  }

  std::size_t join() {
    std::vector<std::byte> all;
    for (const Piece& piece : pieces_) all.insert(all.end(), piece.begin(), piece.end());
    all.insert(all.end(), tail_.begin(), tail_.end());
    const std::size_t n = std::min(all.size(), max_size_);
    std::copy_n(all.begin(), n, reinterpret_cast<std::byte*>(data_));
    return n;
  }

  static std::uint16_t id_of(const Piece& piece) { return protocol::load<std::uint16_t>(piece, 0); }

  template <class T>
  static void store(Piece& piece, std::size_t offset, T value) {
    std::memcpy(piece.data() + protocol::kIdBytes + offset, &value, sizeof(T));
  }

  void change(Piece& piece) {
    switch (static_cast<protocol::MessageId>(id_of(piece))) {
      case protocol::MessageId::config_text:
      case protocol::MessageId::header:
      case protocol::MessageId::text:
        return change_text(piece);
      case protocol::MessageId::acquisition:
        return change_acquisition(piece);
      default:
        change_bytes(piece, protocol::kIdBytes, piece.size());
    }
  }

  // Bytes [begin, end) in place, as long as they were.
  void change_bytes(Piece& piece, std::size_t begin, std::size_t end) {
    if (begin >= end) return;
    std::vector<std::uint8_t> part(end - begin);
    std::memcpy(part.data(), piece.data() + begin, part.size());
    LLVMFuzzerMutate(part.data(), part.size(), part.size());
    std::memcpy(piece.data() + begin, part.data(), part.size());
  }

  void change_text(Piece& piece) {
    const std::size_t head = protocol::kIdBytes + 4;
    const std::size_t before = piece.size() - head;
    std::vector<std::uint8_t> text(before + 64);
    if (before > 0) std::memcpy(text.data(), piece.data() + head, before);
    text.resize(LLVMFuzzerMutate(text.data(), before, text.size()));
    piece.resize(head + text.size());
    store(piece, 0, static_cast<std::uint32_t>(text.size()));
    if (!text.empty()) std::memcpy(piece.data() + head, text.data(), text.size());
  }

  void change_acquisition(Piece& piece) {
    if (below(4) == 0) return change_bytes(piece, protocol::kIdBytes + protocol::kAcquisitionHeadBytes, piece.size());
    // flags, samples, channels, discard, center, encoding space, dimensions, sample time, read and phase direction, the
    // counters.
    static constexpr Field kFields[] = {{2, 8},   {34, 2},  {38, 2},  {168, 2}, {170, 2}, {172, 2}, {174, 2},
                                        {176, 2}, {178, 4}, {194, 4}, {206, 4}, {242, 2}, {244, 2}, {246, 2},
                                        {248, 2}, {250, 2}, {252, 2}, {254, 2}, {256, 2}, {258, 2}};
    const Field field = kFields[below(std::size(kFields))];
    std::uint64_t value = below(40);
    if (field.width == 8) value = protocol::load<std::uint64_t>(piece, protocol::kIdBytes + 2) ^ (1ull << below(64));
    if (field.width == 4) value = random_();
    if (below(8) == 0) value = random_();
    std::memcpy(piece.data() + protocol::kIdBytes + field.offset, &value, field.width);
    // The payload follows its sizes while it is small; else the message is left broken.
    const auto number = [&](std::size_t offset) {
      return std::size_t{protocol::load<std::uint16_t>(piece, protocol::kIdBytes + offset)};
    };
    const bool packed =
        (protocol::load<std::uint64_t>(piece, protocol::kIdBytes + 2) & protocol::kCompressionFlags) != 0;
    const std::size_t payload = number(34) * (4 * number(176) + 8 * number(38));
    if (!packed && payload <= kMostPayload)
      piece.resize(protocol::kIdBytes + protocol::kAcquisitionHeadBytes + payload);
  }

  static constexpr std::size_t kMostPayload = 1 << 13;
  const protocol::Limits limits_ = small_limits();
  std::uint8_t* data_;
  std::size_t size_;
  std::size_t max_size_;
  std::minstd_rand random_;
  std::vector<Piece> pieces_;
  Piece tail_;
};

}  // namespace echotrain::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  return echotrain::fuzz::StreamMutator(data, size, max_size, seed).mutate();
}
