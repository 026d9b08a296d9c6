// A case of bench_nufft is a trajectory, and data whose transforms are judged.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"

namespace echotrain::bench {

struct NufftCase {
  std::string name;
  numerics::Shape image;
  std::int64_t coils;
  numerics::NufftOptions options;
  bool cpu, cuda;                       ///< where it is measured
  std::vector<double> (*trajectory)();  ///< [sample, dims], cycles/pixel, component 0 = x
  bool forward = false;
};
const std::vector<NufftCase>& nufft_cases();
/// The case of that name; std::out_of_range when there is none.
const NufftCase& nufft_case(const std::string& name);

/// white: independent random numbers. ellipsoids: the head of Shepp and Logan seen by smooth coils, whose values span
/// orders of magnitude: its k-space in closed form times the ramp of the trajectory (adjoint), or its voxels (forward).
enum class NufftData { white, ellipsoids };
/// Returns what a case transforms: samples [sample, coil] for the adjoint, images [coil, image...] for the forward
/// transform.
std::vector<numerics::cfloat> nufft_data(const NufftCase& which, const std::vector<double>& coordinates, NufftData data,
                                         numerics::ThreadPool& threads);

}  // namespace echotrain::bench
