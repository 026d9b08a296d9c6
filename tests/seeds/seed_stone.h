// The versions of F^H d are those of Stone et al., "Accelerating advanced MRI reconstructions on GPUs", JPDC 68, 2008,
// sections 3 to 5 (docs/seeds.md): image[n] = sum_m mu_m exp(2 pi i k_m . x_n), a sine and a cosine per pair of sample
// and voxel.
#pragma once

#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::seed {

/// Samples as structure of arrays: k in cycles per pixel and mu = conj(phi) d. phi, the transform of the voxel's basis,
/// is 1 here.
template <class T>
struct Samples {
  std::vector<T> kx, ky, kz, re, im;
  std::int64_t size() const { return static_cast<std::int64_t>(kx.size()); }
};

/// CPU.SP and CPU.DP for voxels [begin, end) of a cube [z, y, x] of `matrix` voxels an edge: samples tiled for the L1
/// cache, vectorised, sums in T. re and im are of the whole cube.
void cpu_fhd(const Samples<float>& samples, std::int64_t matrix, std::int64_t begin, std::int64_t end, float* re,
             float* im);
void cpu_fhd(const Samples<double>& samples, std::int64_t matrix, std::int64_t begin, std::int64_t end, double* re,
             double* im);

/// Figure 5 of the seed, each version on the one before it, and further versions.
enum class Variant {
  base,       ///< everything in global memory, voxels and sums read and written for every sample
  reg_alloc,  ///< voxels and sums in registers
  layout,     ///< samples as structure of arrays instead of array of structures
  const_mem,  ///< samples in constant memory, as array of structures
  fast_trig,  ///< sines and cosines by the special function units; with other settings this is GPU.Tune
  /// const_mem with structure of arrays: its figure 8
  const_arrays,
  /// const_arrays with k alone in constant memory, data in global memory: NVIDIA's teaching kit, module 15
  const_k,
  /// a thread per sample, which adds to all voxels: the first kernel of that kit. As written there, sums are lost: here
  /// additions are atomic.
  scatter
};

/// The settings that GPU.Tune searches over; the defaults are those of the other versions.
struct Settings {
  int threads = 256;  ///< per block
  int tile = 256;     ///< samples that a launch works on
  int unroll = 1;     ///< of the loop over samples: 1, 2, 4 or 8
};
constexpr int kLargestTile = 2048;

int gpu_count();

/// Voxels [begin, end) of a cube and all samples, on the context's GPU.
class GpuFhd {
 public:
  GpuFhd(numerics::Context& context, const Samples<float>& samples, std::int64_t matrix, std::int64_t begin,
         std::int64_t end);
  /// Enqueues one F^H d, the clearing of the sums included. const_mem, fast_trig and const_arrays look at
  /// settings.unroll. At most the first `samples` samples, rounded up to a whole tile; 0: all.
  void run(Variant variant, const Settings& settings, std::int64_t samples = 0);
  /// Voxels [begin, end) of the last run.
  std::vector<numerics::cfloat> image();

 private:
  numerics::Context& context_;
  std::int64_t voxels_, padded_;      ///< samples are padded with zeros to whole tiles of any size
  numerics::Array<float> positions_;  ///< of voxels: [x y z, voxel]
  numerics::Array<float> arrays_;     ///< [kx ky kz re im, sample]
  numerics::Array<float> structs_;    ///< [sample, kx ky kz re im]
  numerics::Array<float> sums_;       ///< [re im, voxel]
};

}  // namespace echotrain::seed
