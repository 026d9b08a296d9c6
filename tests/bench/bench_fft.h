// The plain transform of CUDA's library is timed for bench_fft. Built with CUDA only.
#pragma once

#include <complex>
#include <cstdint>

namespace echotrain::bench {

/// Seconds that cuFFT takes for one in-place inverse transform of `batch` images [y, x] in device memory, mean of
/// `repeats` in a row, after a few that do not count.
double cufft_seconds(std::int64_t ny, std::int64_t nx, int batch, int repeats);
/// Bytes per second, read and written together, of a copy from device to device.
double device_copy_bytes_per_s();

}  // namespace echotrain::bench
