// The limits bound what a peer may ask for. Every length on the wire is checked against them before memory is
// allocated.
#pragma once

#include <cstdint>

namespace echotrain::protocol {

/// Bounds on what one message may claim, in bytes unless said otherwise. Defaults: docs/protocol.md,
/// "Validation and answers".
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
  std::uint32_t matrix_size = 4096;               ///< per axis of an encoding space [voxels]
  std::uint64_t matrix_voxels = 1ull << 30;       ///< product of an encoding space's axes
  std::uint32_t xml_depth = 64;                   ///< nesting of XML elements
  std::uint64_t xml_items = 1 << 17;              ///< tags and attributes of an XML text: each costs a parser far more
                                                  ///< memory than its bytes take
};

}  // namespace echotrain::protocol
