// Image series as NIfTI-1 files.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "protocol/data/messages.h"

namespace echotrain::client {

/// Voxel indices (i, j, k) to millimetres in NIfTI's coordinates: x to the right, y to the front, z to the head (RAS+).
/// Row-major, 3 x 4.
using Affine = std::array<std::array<double, 4>, 3>;

/// The affine of an image whose voxel floor(n/2) lies at the header's position and whose axes are read_dir, phase_dir,
/// slice_dir. ISMRMRD's coordinates are LPS: the first two change sign. Axes whose directions a sender left at zero are
/// taken as L, P, S. `slice_mm`: distance between planes; 0: field of view / matrix.
Affine affine_of(const protocol::ImageHeader& head, double slice_mm = 0);

struct NiftiVolume {
  std::array<std::size_t, 4> size{1, 1, 1, 1};  ///< x, y, z, images
  bool is_complex = false;
  std::vector<std::complex<float>> values;  ///< [image, z, y, x]; real parts only unless complex
  Affine affine{};
};

/// A .nii file: the 348-byte header of NIfTI-1 (little-endian, sizeof_hdr 348, magic "n+1"), four bytes that say that
/// there are no extensions, and the voxels from byte 352 on, x fastest: float32 (datatype 16) or complex64 (32).
/// Geometry is the sform (sform_code 1, scanner coordinates); the qform is left unknown. pixdim holds voxel sizes in
/// mm. Source: Cox et al., the NIfTI-1 data format (nifti1.h, nifti.nimh.nih.gov). std::runtime_error, naming the file,
/// when it cannot be written; std::invalid_argument for an extent above 32767.
void write_nifti(const std::filesystem::path& file, const NiftiVolume& volume);

}  // namespace echotrain::client
