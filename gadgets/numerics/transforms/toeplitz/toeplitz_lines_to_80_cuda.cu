#include "gadgets/numerics/transforms/toeplitz/toeplitz_lines_cuda.cuh"

namespace echotrain::numerics::cuda {

template LineKernels line_kernels<16>();
template LineKernels line_kernels<32>();
template LineKernels line_kernels<48>();
template LineKernels line_kernels<64>();
template LineKernels line_kernels<80>();

}  // namespace echotrain::numerics::cuda
