#include <cuda_runtime.h>
#include <cufft.h>

#include <stdexcept>
#include <string>

#include "tests/bench/bench_fft.h"

namespace echotrain::bench {
namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
void check(cufftResult status) {
  if (status != CUFFT_SUCCESS) throw std::runtime_error("cuFFT failed: " + std::to_string(status));
}

template <class Work>
double seconds(int repeats, const Work& work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 5; ++i) work();
  check(cudaEventRecord(begin));
  for (int i = 0; i < repeats; ++i) work();
  check(cudaEventRecord(end));
  check(cudaEventSynchronize(end));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return milliseconds / 1000 / repeats;
}

}  // namespace

double cufft_seconds(std::int64_t ny, std::int64_t nx, int batch, int repeats) {
  cufftComplex* data = nullptr;
  const std::size_t bytes = static_cast<std::size_t>(ny * nx) * static_cast<std::size_t>(batch) * sizeof(cufftComplex);
  check(cudaMalloc(&data, bytes));
  check(cudaMemset(data, 0, bytes));
  int extents[2] = {static_cast<int>(ny), static_cast<int>(nx)};
  cufftHandle plan;
  check(cufftPlanMany(&plan, 2, extents, nullptr, 1, 0, nullptr, 1, 0, CUFFT_C2C, batch));
  const double result = seconds(repeats, [&] { check(cufftExecC2C(plan, data, data, CUFFT_INVERSE)); });
  cufftDestroy(plan);
  cudaFree(data);
  return result;
}

double device_copy_bytes_per_s() {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  void *from = nullptr, *to = nullptr;
  check(cudaMalloc(&from, kBytes));
  check(cudaMalloc(&to, kBytes));
  check(cudaMemset(from, 0, kBytes));
  const double one = seconds(20, [&] { check(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice)); });
  cudaFree(from);
  cudaFree(to);
  return 2 * static_cast<double>(kBytes) / one;
}

}  // namespace echotrain::bench
