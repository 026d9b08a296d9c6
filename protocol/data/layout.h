// The layout of the wire is what codec, files and checks share: widths, offsets, flags, and unaligned little-endian
// loads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "protocol/data/messages.h"

namespace echotrain::protocol {

static_assert(std::endian::native == std::endian::little, "structs are sent as memory images, which are little-endian");

inline constexpr std::size_t kIdBytes = 2;
inline constexpr std::size_t kConfigNameBytes = 1024;  ///< fixed field of CONFIG_FILE
inline constexpr std::size_t kMaxConfigName = 255;     ///< longest name that is accepted
inline constexpr std::size_t kAcquisitionHeadBytes = 340;
inline constexpr std::size_t kWaveformHeadBytes = 40;
inline constexpr std::size_t kImageHeadBytes = 198;
inline constexpr std::size_t kAttributeLengthBytes = 8;  ///< uint64 between an image's header and its attributes
inline constexpr std::uint64_t kMaxErrorText = 4096;     ///< longest text of a peer's ERROR message that we wait for

// Acquisition flags: value v of the enum is bit v - 1.
inline constexpr std::uint64_t acquisition_flag(int value) { return std::uint64_t{1} << (value - 1); }
inline constexpr std::uint64_t kCompression1 = acquisition_flag(53);  ///< ZFP
inline constexpr std::uint64_t kCompression2 = acquisition_flag(54);  ///< Gadgetron's quantised packing
inline constexpr std::uint64_t kCompression34 = acquisition_flag(55) | acquisition_flag(56);
inline constexpr std::uint64_t kCompressionFlags = kCompression1 | kCompression2 | kCompression34;

/// Returns the number at `offset`. Precondition: it lies inside `bytes`.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns the bytes per pixel of an ISMRMRD data type; 0 when the type is not one of 1..8.
std::size_t bytes_per_pixel(std::uint16_t data_type);

/// Returns the bytes of an image's pixels, according to its header; nothing when a size is zero, data_type is not 1..8
/// or the product exceeds `limit` (so it cannot overflow).
std::optional<std::uint64_t> pixel_bytes(const ImageHeader& head, std::uint64_t limit);

}  // namespace echotrain::protocol
