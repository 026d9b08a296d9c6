#include "gadgets/numerics/transforms/nufft/tuning.h"

namespace echotrain::numerics {

NufftTuning default_tuning(int dims, Backend backend) {
  static constexpr NufftTuning kCpu[3] = {{{1, 1, 512}, 4096}, {{1, 32, 32}, 8192}, {{8, 16, 32}, 8192}};
  static constexpr NufftTuning kCuda[3] = {{{1, 1, 64}, 256}, {{1, 8, 8}, 256}, {{4, 4, 4}, 512}};
  return (backend == Backend::cuda ? kCuda : kCpu)[dims - 1];
}

}  // namespace echotrain::numerics
