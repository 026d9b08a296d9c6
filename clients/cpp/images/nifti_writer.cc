#include "clients/cpp/images/nifti_writer.h"

#include <fstream>
#include <stdexcept>

namespace echotrain::client {

void write_nifti(const std::filesystem::path& file, const NiftiVolume& volume) {
  std::vector<char> header;
  try {
    header = protocol::nifti::header_bytes(volume.shape);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(file.string() + ": " + error.what());
  }
  std::ofstream out(file, std::ios::binary);
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  if (volume.shape.is_complex) {
    out.write(reinterpret_cast<const char*>(volume.values.data()),
              static_cast<std::streamsize>(volume.values.size() * sizeof(std::complex<float>)));
  } else {
    std::vector<float> real;
    real.reserve(volume.values.size());
    for (const auto& value : volume.values) real.push_back(value.real());
    out.write(reinterpret_cast<const char*>(real.data()), static_cast<std::streamsize>(real.size() * sizeof(float)));
  }
  out.flush();
  if (!out) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace echotrain::client
