#include <algorithm>
#include <cmath>
#include <utility>

#include "gadgets/numerics/core/dense/hermitian_projector_cuda.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr int kSquarings = 9;
/// The relative error of the largest eigenvalue, which is found as the mean of all with weights of their 512th powers.
/// It comes out too small by less than this share for up to some thousand rows, wherever the eigenvalues are.
constexpr double kMargin = 0.02;
constexpr double kLeastShare = 1e-11;

/// The sum over all threads of a block of 1,024.
__device__ double block_sum(double value) {
  __shared__ double sums[32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int warp = 0; warp < 32; ++warp) value += sums[warp];
  return value;
}

/// *trace = the trace of the matrix, or 1 where it is 0. Runs as one block.
__global__ void __launch_bounds__(1024) trace_kernel(const double2* matrix, int n, double* trace) {
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += matrix[static_cast<std::int64_t>(i) * n + i].x;
  sum = block_sum(sum);
  if (threadIdx.x == 0) *trace = sum > 0 ? sum : 1;
}

/// *largest = tr(matrix * power) / tr(power). Runs as one block.
__global__ void __launch_bounds__(1024)
    largest_kernel(const double2* matrix, const double2* power, const double* trace, int n, double* largest) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < static_cast<std::int64_t>(n) * n; i += blockDim.x)
    sum += matrix[i].x * power[i].x + matrix[i].y * power[i].y;
  sum = block_sum(sum) / *trace;
  if (threadIdx.x == 0) *largest = sum > 0 ? sum : 1;
}

/// to = factor * product + diagonal, divided by *divide ^ 2 where it is given.
struct PutProduct {
  double2* to;
  int n;
  double factor, diagonal;
  const double* divide;
  __device__ void operator()(int i, int j, double2 sum, bool mirrored) const {
    const double by = divide == nullptr ? factor : factor / (*divide * *divide);
    put_hermitian(to, n, i, j, make_double2(by * sum.x + (i == j ? diagonal : 0.0), i == j ? 0.0 : by * sum.y),
                  mirrored);
  }
};

__global__ void start_kernel(double2* matrix, const double* largest, double share, int n, double2* sign) {
  const double by = 1 / *largest;
  ECHOTRAIN_GRID_STRIDE(i, static_cast<std::int64_t>(n) * n) {
    const double2 own = make_double2(matrix[i].x * by, matrix[i].y * by);
    matrix[i] = own;
    sign[i] = make_double2((own.x - (i / n == i % n ? share : 0.0)) / (1 + kMargin), own.y / (1 + kMargin));
  }
}

__global__ void projector_kernel(double2* sign, int n) {
  ECHOTRAIN_GRID_STRIDE(i, static_cast<std::int64_t>(n) * n)
  sign[i] = make_double2(0.5 * sign[i].x + (i / n == i % n ? 0.5 : 0.0), 0.5 * sign[i].y);
}

double2* on_device(Array<cdouble>& array) { return reinterpret_cast<double2*>(array.data()); }

void multiply(cudaStream_t stream, const double2* a, const double2* b, const PutProduct& put) {
  lower_product<<<hermitian_tiles(put.n), kTileThreads, 0, stream>>>(put.n, put.n, HermitianRow{a, put.n},
                                                                     HermitianColumn{b, put.n}, put);
  check_launch("hermitian_projector");
}

}  // namespace

Array<cdouble> hermitian_projector(Context& context, DeviceView<cdouble> matrix, double share, double* largest) {
  const int n = static_cast<int>(matrix.shape()[0]);
  const std::int64_t elements = matrix.size();
  const cudaStream_t stream = stream_of(context);
  auto* const own = reinterpret_cast<double2*>(matrix.data());
  Array<cdouble> sign = context.allocate<cdouble>(matrix.shape()), other = context.allocate<cdouble>(matrix.shape()),
                 third = context.allocate<cdouble>(matrix.shape());
  Array<double> trace = context.allocate<double>({1});
  const double2* power = own;
  for (int i = 0; i < kSquarings; ++i) {
    context.check_stop();
    trace_kernel<<<1, 1024, 0, stream>>>(power, n, trace.data());
    double2* const to = power == on_device(other) ? on_device(third) : on_device(other);
    multiply(stream, power, power, {to, n, 1, 0, trace.data()});
    power = to;
  }
  trace_kernel<<<1, 1024, 0, stream>>>(power, n, trace.data());
  largest_kernel<<<1, 1024, 0, stream>>>(own, power, trace.data(), n, largest);
  share = std::max(share, kLeastShare);
  start_kernel<<<blocks_for(elements), kThreads, 0, stream>>>(own, largest, share, n, on_device(sign));
  check_launch("hermitian_projector");
  // Values whose distance from 0 is at least `least` are brought to 1.
  for (double least = std::max(1e-3 * share, kLeastShare) / (1 + kMargin); 1 - least > 1e-12;) {
    context.check_stop();
    const double scale = std::sqrt(3 / (1 + least + least * least));
    multiply(stream, on_device(sign), on_device(sign),
             {on_device(other), n, -0.5 * scale * scale * scale, 1.5 * scale, nullptr});
    multiply(stream, on_device(sign), on_device(other), {on_device(third), n, 1, 0, nullptr});
    std::swap(sign, third);
    least = scale * least * (3 - scale * scale * least * least) / 2;
  }
  projector_kernel<<<blocks_for(elements), kThreads, 0, stream>>>(on_device(sign), n);
  check_launch("hermitian_projector");
  return sign;
}

}  // namespace echotrain::numerics::cuda
