// Compressed samples of a readout. Input: kind, samples, channels, then the block.
#include <cmath>

#include "protocol/wire/sample_compression.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  fuzz::Source source(fuzz::as_bytes(data, size));
  const bool zfp = source.number<std::uint8_t>() % 2 == 0;
  const std::uint64_t samples = source.number<std::uint16_t>();
  const std::uint64_t channels = source.number<std::uint8_t>();
  const std::uint64_t elements = 2 * samples * channels;
  // The codec has checked this before it expands.
  if (elements == 0 || 4 * elements > protocol::Limits{}.acquisition_bytes) return 0;
  const auto values =
      zfp ? protocol::expand_zfp(source.rest(), samples, channels) : protocol::expand_packed(source.rest(), elements);
  if (values)
    fuzz::require(values->size() == elements, "a block expands to another size");
  else
    fuzz::require(values.error().code == "compression", "a block is refused with another code");
  return 0;
}
