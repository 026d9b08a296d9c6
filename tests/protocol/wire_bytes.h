// The wire bytes are written by hand after docs/protocol.md, "Messages" and "Layouts", without the code under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "protocol/wire/codec.h"

namespace echotrain::protocol::test {

/// Appends little-endian values one after another.
struct Wire {
  Buffer bytes;

  template <class T>
  Wire& put(T value) {
    const std::size_t end = bytes.size();
    bytes.resize(end + sizeof(T));
    std::memcpy(bytes.data() + end, &value, sizeof(T));
    return *this;
  }
  Wire& u8(std::uint8_t v) { return put(v); }
  Wire& u16(std::uint16_t v) { return put(v); }
  Wire& u32(std::uint32_t v) { return put(v); }
  Wire& u64(std::uint64_t v) { return put(v); }
  Wire& f32(float v) { return put(v); }
  Wire& zeros(std::size_t n) {
    bytes.resize(bytes.size() + n);
    return *this;
  }
  Wire& text(std::string_view t) {
    for (const char c : t) bytes.push_back(static_cast<std::byte>(c));
    return *this;
  }
};

/// Overwrites bytes at an offset counted from after the id, as in docs/protocol.md, "Layouts".
template <class T>
void poke(Buffer& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + 2 + offset, &value, sizeof(T));
}

template <class T>
T peek(const Buffer& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + 2 + offset, sizeof(T));
  return value;
}

inline std::span<const std::byte> first(const Buffer& bytes, std::size_t n) { return std::span(bytes).first(n); }

/// The fixed part of an acquisition message (342 bytes).
inline Buffer acquisition_head(std::uint16_t samples, std::uint16_t channels, std::uint16_t dimensions,
                               std::uint64_t flags = 0) {
  Buffer bytes = Wire().u16(1008).zeros(340).bytes;
  poke<std::uint16_t>(bytes, 0, 1);
  poke<std::uint64_t>(bytes, 2, flags);
  poke<std::uint16_t>(bytes, 34, samples);
  poke<std::uint16_t>(bytes, 36, channels);
  poke<std::uint16_t>(bytes, 38, channels);
  poke<std::uint16_t>(bytes, 176, dimensions);
  return bytes;
}

/// A whole acquisition message; number i of trajectory and samples together is 0.5 * i.
inline Buffer acquisition_bytes(std::uint16_t samples, std::uint16_t channels, std::uint16_t dimensions) {
  Wire wire{acquisition_head(samples, channels, dimensions)};
  const std::size_t numbers = std::size_t{samples} * (dimensions + 2u * channels);
  for (std::size_t i = 0; i < numbers; ++i) wire.f32(0.5f * static_cast<float>(i));
  return wire.bytes;
}

/// The fixed part of an image message (208 bytes).
inline Buffer image_head(std::uint16_t type, std::uint16_t x, std::uint16_t y, std::uint16_t z, std::uint16_t channels,
                         std::uint64_t attributes) {
  Buffer bytes = Wire().u16(1022).zeros(206).bytes;
  poke<std::uint16_t>(bytes, 0, 1);
  poke<std::uint16_t>(bytes, 2, type);
  poke<std::uint16_t>(bytes, 16, x);
  poke<std::uint16_t>(bytes, 18, y);
  poke<std::uint16_t>(bytes, 20, z);
  poke<std::uint16_t>(bytes, 34, channels);
  poke<std::uint64_t>(bytes, 198, attributes);
  return bytes;
}

/// The fixed part of a waveform message (42 bytes), with dirty padding.
inline Buffer waveform_head(std::uint16_t samples, std::uint16_t channels) {
  Buffer bytes = Wire().u16(1026).zeros(40).bytes;
  poke<std::uint16_t>(bytes, 0, 1);
  poke<std::uint32_t>(bytes, 2, 0xdeadbeef);
  poke<std::uint16_t>(bytes, 38, 0xdead);
  poke<std::uint16_t>(bytes, 28, samples);
  poke<std::uint16_t>(bytes, 30, channels);
  return bytes;
}

/// Decodes `bytes` from a copy on the heap of exactly that size, so that a sanitizer sees any read past the end.
inline Result<Message> decode_copy(const Buffer& bytes, const Limits& limits = {}) {
  auto owner = std::make_shared<const Buffer>(bytes);
  return decode(*owner, owner, limits);
}

template <class T>
std::vector<T> numbers(const Payload& payload) {
  std::vector<T> values(payload.bytes.size() / sizeof(T));
  payload.copy_to(values.data());
  return values;
}

}  // namespace echotrain::protocol::test
