// The examples are the introductory ones of MIC-GPU, "High-Performance Computing for Medical Imaging on Programmable
// Graphics Hardware" (docs/seeds.md), on today's machines: kernels 1, 2, 3 and 7 of its reduction, and its Sobel filter
// from global, texture and shared memory. Written from the document's description; only this bench has them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::seed {

constexpr std::int64_t kNumbers = 1 << 22;  ///< "4M numbers"
constexpr int kEdge = 4096;                 ///< of the pictures, pixels
/// Copies of the input that runs take in turn: more than the GPU's cache holds.
constexpr int kCopies = 8;

enum class Reduction {
  one_thread,  ///< the document's "non-parallel approach"
  divergent,   ///< kernel 1: interleaved addressing, threads chosen by %
  strided,     ///< kernel 2: interleaved addressing, the first threads work, with bank conflicts
  sequential,  ///< kernel 3: sequential addressing
  several,     ///< kernel 7: several elements per thread on the way in, the tree unrolled
  cub_ints,    ///< cub::DeviceReduce::Sum of the same ints
  cub_floats   ///< of the floats, in fp32
};

/// Numbers on the GPU.
class GpuNumbers {
 public:
  GpuNumbers(numerics::Context& context, const std::vector<std::int32_t>& ints, const std::vector<float>& floats);
  ~GpuNumbers();
  /// Enqueues the sum of a copy, down to one number.
  void run(Reduction which, int copy);
  double result(Reduction which);  ///< of the last run
  numerics::DeviceView<const float> floats(int copy) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

enum class SobelMemory { global, texture, shared };

/// A picture [y, x] on the GPU, and |gx| + |gy| of it by Sobel's operator, borders replicated. Pixel: std::uint8_t, cut
/// at 255, as in the document; or float, for comparison with the product, which works in floats.
template <class Pixel>
class GpuPicture {
 public:
  GpuPicture(numerics::Context& context, const std::vector<Pixel>& pixels);
  ~GpuPicture();
  void run(SobelMemory memory, int copy);
  std::vector<Pixel> result();
  numerics::DeviceView<const Pixel> pixels(int copy) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Median seconds of one of work(0) ... work(kCopies - 1), by device_seconds_of().
double gpu_seconds_of(numerics::Context& context, const std::function<void(int copy)>& work);
/// Bytes per second that a device-to-device copy of 1 GiB reads and writes.
double gpu_bandwidth(numerics::Context& context);

}  // namespace echotrain::seed
