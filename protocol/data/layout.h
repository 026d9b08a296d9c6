// The layout of the wire, for codec, files and checks: widths, offsets, flags, and unaligned little-endian loads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "protocol/data/messages.h"

namespace echotrain::protocol {

static_assert(std::endian::native == std::endian::little, "structs are sent as memory images, which are little-endian");

inline constexpr std::size_t kIdBytes = 2;
inline constexpr std::size_t kConfigNameBytes = 1024;  ///< fixed field of CONFIG_FILE
inline constexpr std::size_t kAcquisitionHeadBytes = sizeof(AcquisitionHeader);
inline constexpr std::size_t kWaveformHeadBytes = sizeof(WaveformHeader);
inline constexpr std::size_t kImageHeadBytes = sizeof(ImageHeader);

/// The offsets of the fields that tell a message's length, counted from after the id (docs/protocol.md, "Layouts"); a
/// test holds the page to the structs.
namespace at {
inline constexpr std::size_t kVersion = 0;  ///< of all three heads
inline constexpr std::size_t kAcquisitionFlags = offsetof(AcquisitionHeader, flags);
inline constexpr std::size_t kAcquisitionSamples = offsetof(AcquisitionHeader, number_of_samples);
inline constexpr std::size_t kAcquisitionChannels = offsetof(AcquisitionHeader, active_channels);
inline constexpr std::size_t kTrajectoryDimensions = offsetof(AcquisitionHeader, trajectory_dimensions);
inline constexpr std::size_t kWaveformSamples = offsetof(WaveformHeader, number_of_samples);
inline constexpr std::size_t kWaveformChannels = offsetof(WaveformHeader, channels);
inline constexpr std::size_t kImageType = offsetof(ImageHeader, data_type);
inline constexpr std::size_t kImageMatrix = offsetof(ImageHeader, matrix_size);  ///< u16 [x, y, z]
inline constexpr std::size_t kImageChannels = offsetof(ImageHeader, channels);
inline constexpr std::size_t kQueryLength = 16, kResponseLength = 8;  ///< of their texts
}  // namespace at
inline constexpr std::size_t kTextFixedBytes = 4, kQueryFixedBytes = 24, kResponseFixedBytes = 16, kErrorFixedBytes = 8;

inline constexpr std::size_t kAttributeLengthBytes = 8;  ///< uint64 between an image's header and its attributes

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

}  // namespace echotrain::protocol
