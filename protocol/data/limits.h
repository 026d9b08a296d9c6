// The bounds of what a peer may send or ask for. Every length on the wire is checked against these before memory is
// allocated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace echotrain::protocol {

/// Bounds on what one message may claim, in bytes unless said otherwise: defaults, for files, clients and tests. A
/// server has kServerLimits. docs/protocol.md, "Validation and answers", tells all bounds of this header, and a test
/// holds it to them.
struct Limits {
  std::uint64_t config_text_bytes = 1ull << 20;
  std::uint64_t header_bytes = 16ull << 20;
  std::uint64_t text_bytes = 1ull << 20;
  std::uint64_t query_bytes = 4096;
  std::uint64_t response_bytes = 0;  ///< text of a RESPONSE; 0 = refused, as a server never asks (a client sets more)
  std::uint64_t acquisition_bytes = 64ull << 20;  ///< samples: 8 * number_of_samples * active_channels
  std::uint64_t waveform_bytes = 16ull << 20;     ///< 4 * number_of_samples * channels
  std::uint64_t image_bytes = 1ull << 30;         ///< pixels of one image
  std::uint64_t attribute_bytes = 16ull << 20;    ///< meta attributes of one image
  std::uint32_t channels = 1024;                  ///< width of the channel mask
  std::uint32_t encodings = 64;                   ///< elements of a header: gadgets prepare work for each
  std::uint32_t matrix_size = 4096;               ///< per axis of an encoding space [voxels]
  std::uint64_t matrix_voxels = 1ull << 30;       ///< product of an encoding space's axes
  std::uint32_t xml_depth = 64;                   ///< nesting of XML elements
  std::uint64_t xml_items = 1 << 17;              ///< tags and attributes of an XML text: each costs a parser far more
                                                  ///< memory than its bytes take
};

/// Those of a server. Shipped pipelines have 1 to 3 KiB, and reading YAML takes half a second per MiB; the live page
/// takes texts of pipelines as long. Headers of scanners have 10 to 200 KiB, and a parser takes many times the bytes
/// that it parses.
inline constexpr Limits kServerLimits{.config_text_bytes = 256 << 10, .header_bytes = 1 << 20};

inline constexpr std::size_t kMaxConfigName = 255;    ///< characters of a configuration's name
inline constexpr std::uint64_t kMaxErrorText = 4096;  ///< longest text of a peer's ERROR message that we wait for
inline constexpr std::uint64_t kMaxTrajectoryDimensions = 3;
/// A host's JSON: its bytes, and parameters in it.
inline constexpr std::size_t kMaxHostBytes = 64 << 10, kMaxHostParameters = 1024;
/// Where a token is needed: bytes and lines of a text in which it is looked for, and bytes that are taken before it.
/// Answers to queries before a config are bounded likewise.
inline constexpr std::size_t kTokenBytes = 16 << 10;
inline constexpr int kTokenLines = 16;
/// Compressed samples of more than kAnyRatioBytes have at least 1 byte for kMaxExpansion of them.
inline constexpr std::uint64_t kAnyRatioBytes = 1 << 20, kMaxExpansion = 64;
/// Bytes that compressed samples may take, for `plain` bytes of samples.
constexpr std::uint64_t max_compressed_bytes(std::uint64_t plain) { return 2 * plain + 64; }

}  // namespace echotrain::protocol
