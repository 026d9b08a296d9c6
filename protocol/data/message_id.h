// A message id is the number that begins a message on the wire; docs/protocol.md says who may send each. Source:
// Gadgetron 4 / python-ismrmrd-server / libismrmrd >= 1.14 constants; summarised in docs/protocol.md.
#pragma once

#include <cstdint>

namespace echotrain::protocol {

enum class MessageId : std::uint16_t {
  config_file = 1,
  config_text = 2,
  header = 3,
  close = 4,
  text = 5,
  query = 6,
  response = 7,
  error = 8,
  acquisition = 1008,
  image = 1022,
  waveform = 1026,
};

inline constexpr std::uint16_t kDefaultPort = 9002;

}  // namespace echotrain::protocol
