// Any bytes as an HDF5 file.
#include "tests/fuzz/read_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static echotrain::fuzz::ScratchFile file;
  file.fill(echotrain::fuzz::as_bytes(data, size));
  echotrain::fuzz::read_everything(file.path());
  return 0;
}
