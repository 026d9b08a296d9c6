// The NIfTI writer makes NIfTI-1 files of image series.
#pragma once

#include <complex>
#include <filesystem>
#include <vector>

#include "protocol/nifti/nifti_header.h"

namespace echotrain::client {

struct NiftiVolume {
  protocol::nifti::Shape shape;
  std::vector<std::complex<float>> values;  ///< [image, z, y, x]; real parts only unless complex
};

/// Writes a .nii file: the header (protocol/nifti/nifti_header.h) and the voxels from byte 352 on. Throws
/// std::runtime_error, naming the file, when it cannot be written; std::invalid_argument for an extent above 32767.
void write_nifti(const std::filesystem::path& file, const NiftiVolume& volume);

}  // namespace echotrain::client
