#include "gadgets/numerics/transforms/toeplitz/toeplitz_lines_cuda.cuh"

namespace echotrain::numerics::cuda {

template LineKernels line_kernels<96>();
template LineKernels line_kernels<128>();
template LineKernels line_kernels<160>();
template LineKernels line_kernels<192>();
template LineKernels line_kernels<256>();
template LineKernels line_kernels<320>();

}  // namespace echotrain::numerics::cuda
