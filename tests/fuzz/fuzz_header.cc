// The measurement header: refused with a reason, or a Header that keeps what header.h promises.
#include <cmath>

#include "protocol/data/header.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  const protocol::Limits limits;
  const auto header = protocol::parse_header(fuzz::as_text(data, size), limits);
  if (!header) {
    fuzz::require(header.error().code == "bad-header", "a header is refused with another code");
    for (const char c : header.error().message) fuzz::require(c >= 0x20 && c < 0x7f, "an error is not plain ASCII");
    return 0;
  }
  fuzz::require(header->images_only || !header->encodings.empty(), "a header without encodings");
  for (const auto& encoding : header->encodings) {
    for (const auto* space : {&encoding.encoded, &encoding.recon}) {
      std::uint64_t voxels = 1;
      for (std::size_t i = 0; i < 3; ++i) {
        fuzz::require(space->matrix[i] >= 1 && space->matrix[i] <= limits.matrix_size, "a matrix out of range");
        fuzz::require(std::isfinite(space->fov_mm[i]) && space->fov_mm[i] > 0, "a field of view out of range");
        voxels *= space->matrix[i];
      }
      fuzz::require(voxels <= limits.matrix_voxels, "too many voxels");
    }
    for (const auto* limit : {&encoding.kspace_encoding_step_1, &encoding.slice, &encoding.segment})
      fuzz::require(!*limit || ((*limit)->minimum <= (*limit)->center && (*limit)->center <= (*limit)->maximum),
                    "counter limits out of order");
  }
  return 0;
}
