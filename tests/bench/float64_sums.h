// The sums give F^H d by its definition, in float64, over whole images: bench_fhd's errors are measured against them.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::bench {

/// Planes [z, x] of a cube of n voxels an axis, one for each y of `lines`: sum_s values[s] exp(+2 pi i k_s . r), r
/// = index - n/2 along each axis. `coordinates`: [sample, 3], component 0 = x.
std::vector<std::vector<std::complex<double>>> planes_of_lines(numerics::ThreadPool& threads,
                                                               const std::vector<double>& coordinates,
                                                               const std::vector<numerics::cfloat>& values,
                                                               std::int64_t n, const std::vector<std::int64_t>& lines);

}  // namespace echotrain::bench
