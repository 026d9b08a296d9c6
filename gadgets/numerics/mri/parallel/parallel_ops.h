// Backend functions of parallel imaging; arguments were checked.
#pragma once

#include <vector>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/mri/parallel/line_correction.h"

namespace echotrain::numerics {

/// Errors of reference lines, with the same text in both backends.
inline constexpr const char* kNotFinite = "calibration lines hold values that are not finite";
inline constexpr const char* kNoSignal = "singular calibration: the reference lines hold no signal";
inline constexpr const char* kNotDetermined = "singular calibration: the reference lines do not determine the kernels";

/// The system of one matrix: kernels of some targets, from some of their sources.
struct KernelSystem {
  std::vector<std::size_t> used;     ///< sources of the group, ascending
  double share;                      ///< lambda, as a share of the mean of the diagonal for all of the group's sources
  std::vector<std::size_t> targets;  ///< targets of the group
  std::vector<std::size_t> kernels;  ///< the kernel that each target's solution is
};

/// Targets whose sources are the same rows, so that their equations share all sums.
struct KernelGroup {
  KernelRows rows;
  std::vector<KernelSystem> systems;  ///< the first has all sources and all targets
};

/// The fit of all kernels of a frame.
struct KernelFit {
  DeviceView<const cfloat> calibration;  ///< [coil, z, y, x]
  std::vector<KernelGroup> groups;
  std::vector<std::int64_t> first;  ///< for each kernel: its first weight in `weights`
  DeviceView<cfloat> weights;

  std::int64_t coils() const { return calibration.shape()[0]; }
};

struct HybridWork {
  const cfloat* weights;
  const std::int64_t* first;  ///< for each source: its weight for coil 0, source coil 0 and dx 0
  const std::int64_t* step;   ///< for each source: distance from one coil to the next; dx are `coils` apart
  std::int64_t sources, coils, width, blocks;
  const float* phases;  ///< [block of columns, dx, re and im, kHybridLanes]
  float* to;            ///< HybridKernels::values
};

struct UnmixingWork {
  const float* kernels;             ///< HybridKernels::values
  std::int64_t all_sources;         ///< number of all sources in it
  std::int64_t sources;             ///< number of the first ones, which are used
  const cfloat *along_y, *along_z;  ///< [source, y] and [source, z]: their product is the phase of a source at a voxel
  std::int64_t coils, nz, ny, nx;
  const cfloat* maps;
  cfloat* to;
};

struct CorrectionWork {
  const float* kernels;
  std::int64_t sources, coils, columns, rows;  ///< rows: number of rows of half
  const std::int32_t* own;
  const std::int32_t* first;
  const LineCorrections::Term* terms;
  std::int64_t count;
  const cfloat* half;
  cfloat* to;
};

/// An acquired row that corrections take from.
struct TouchedRow {
  /// A corrected row and the part of the acquired one in it.
  struct Part {
    std::int64_t ky, kz;  ///< position from the centre
    std::int32_t source;  ///< source of HybridKernels; -1: the acquired row itself
    float sign;
  };
  std::int64_t ky, kz;  ///< position from the centre
  bool on_lattice;
  std::vector<Part> parts;
};

struct NoiseWork {
  const cfloat *conjugate, *maps;  ///< [coil, z, y, x]
  const float* kernels;            ///< HybridKernels::values, and their sources; null and 0: none
  std::int64_t sources, coils;
  Extents image;
  std::int64_t padded_y, padded_z;
  const std::vector<TouchedRow>& touched;
  double untouched;             ///< lattice rows that no correction touches
  double all_rows, on_lattice;  ///< rows of the encoded matrix, and those on the lattice
  double samples, points;       ///< samples of a row; points of the encoded matrix
  float *deviation, *g;         ///< [z, y, x]
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// Solves for the kernels. Returns GrappaKernels::residual. Waits for the device.
double solve_kernels(Context& context, const KernelFit& fit);
void hybrid_values(Context& context, const HybridWork& work);
void unmixing(Context& context, const UnmixingWork& work);
void correct_lines(Context& context, const CorrectionWork& work);
void noise_gain(Context& context, const NoiseWork& work);
)
// clang-format on

namespace cpu {
/// to[c] += sign * sum_c' kernel[c, c'] from[c'], each of kHybridLanes columns, real parts before imaginary ones.
void add_correction(const float* kernel, const float* from, float sign, std::int64_t coils, float* to);
}  // namespace cpu

}  // namespace echotrain::numerics
