// What of parallel imaging the backends do; arguments were checked.
#pragma once

#include <vector>

#include "gadgets/numerics/core/backends.h"
#include "gadgets/numerics/parallel/line_correction.h"

namespace echotrain::numerics {

/// What is wrong with reference lines, in both backends' words.
inline constexpr const char* kNotFinite = "calibration lines hold values that are not finite";
inline constexpr const char* kNoSignal = "singular calibration: the reference lines hold no signal";
inline constexpr const char* kNotDetermined = "singular calibration: the reference lines do not determine the kernels";

/// One matrix: kernels of some targets, from some of their sources.
struct KernelSystem {
  std::vector<std::size_t> used;     ///< sources of the group, ascending
  double share;                      ///< lambda, as a share of the mean of the diagonal for all of the group's sources
  std::vector<std::size_t> targets;  ///< of the group
  std::vector<std::size_t> kernels;  ///< that each target's solution is
};

/// Targets whose sources are the same rows: their equations share all sums.
struct KernelGroup {
  KernelRows rows;
  std::vector<KernelSystem> systems;  ///< the first one: all sources, all targets
};

/// All kernels of a frame.
struct KernelFit {
  DeviceView<const cfloat> calibration;  ///< [coil, z, y, x]
  std::vector<KernelGroup> groups;
  std::vector<std::int64_t> first;  ///< of each kernel: its weights in `weights`
  DeviceView<cfloat> weights;

  std::int64_t coils() const { return calibration.shape()[0]; }
};

struct HybridWork {
  const cfloat* weights;
  const std::int64_t* first;  ///< of each source: its weight for coil 0, source coil 0 and dx 0
  const std::int64_t* step;   ///< of each source: from one coil to the next; from one dx to the next are `coils`
  std::int64_t sources, coils, width, blocks;
  const float* phases;  ///< [block of columns, dx, re and im, kHybridLanes]
  float* to;            ///< HybridKernels::values
};

struct UnmixingWork {
  const float* kernels;             ///< HybridKernels::values
  std::int64_t all_sources;         ///< of these
  std::int64_t sources;             ///< the first ones, which are used
  const cfloat *along_y, *along_z;  ///< [source, y] and [source, z]: the product is the phase of a source at a voxel
  std::int64_t coils, nz, ny, nx;
  const cfloat* maps;
  cfloat* to;
};

struct CorrectionWork {
  const float* kernels;
  std::int64_t sources, coils, columns, rows;  ///< rows: of half
  const std::int32_t* own;
  const std::int32_t* first;
  const LineCorrections::Term* terms;
  std::int64_t count;
  const cfloat* half;
  cfloat* to;
};

/// An acquired row that corrections take from.
struct TouchedRow {
  /// A corrected row that it has a part in.
  struct Part {
    std::int64_t ky, kz;  ///< from the centre
    std::int32_t source;  ///< of HybridKernels; -1: the acquired row as it is
    float sign;
  };
  std::int64_t ky, kz;  ///< from the centre
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
  double untouched;             ///< rows of the lattice that are not touched
  double all_rows, on_lattice;  ///< rows of the encoded matrix, and those on the lattice
  double samples, points;       ///< of a row; of the encoded matrix
  float *deviation, *g;         ///< [z, y, x]
};

// clang-format off
ECHOTRAIN_BACKENDS(
/// GrappaKernels::residual. Waits for the device.
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
