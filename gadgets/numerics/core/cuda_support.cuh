// Error checks, streams and launches of CUDA kernels.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/numerics_errors.h"

namespace echotrain::numerics::cuda {

inline bool is_sticky(cudaError_t status) { return fault_of(static_cast<int>(status)) == CudaFault::lost; }

/// Throws ResourceError when a CUDA call failed: DeviceLost when no later call can succeed, DeviceFailed when the
/// reason is not memory.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next call is not blamed for it
  const std::string text = std::string("CUDA: ") + what + " failed: " + cudaGetErrorString(status);
  switch (fault_of(static_cast<int>(status))) {
    case CudaFault::lost:
      throw DeviceLost(text);
    case CudaFault::memory:
      throw ResourceError(text);
    case CudaFault::other:
      break;
  }
  throw DeviceFailed(text, static_cast<int>(status));
}

/// The stream to launch on. Makes the context's device the calling thread's current one.
inline cudaStream_t stream_of(Context& context) {
  check(cudaSetDevice(context.device()), "choosing the device");
  return static_cast<cudaStream_t>(context.stream());
}

/// Checks the last launch; call it after each launch.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

/// An event that orders work and does not take the time.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "making an event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Keeps the host at most two steps ahead of the device in a sequence of long kernels, because enqueued work cannot be
/// stopped. Context::cache() holds one, so that steps count across calls. Not for work that is recorded as a graph.
class LaunchThrottle {
 public:
  /// Call it after each step, always with the same context. Waits for the step before it; throws Stopped when the scan
  /// is to stop.
  void step(Context& context) {
    check(cudaEventRecord(ends_[count_ % 2].get(), stream_of(context)), "recording an event");
    if (++count_ > 1) check(cudaEventSynchronize(ends_[count_ % 2].get()), "waiting for an event");
    context.check_stop();
  }

 private:
  Event ends_[2];
  std::int64_t count_ = 0;
};

constexpr int kThreads = 256;

/// The number of blocks for `n` elements in a grid-stride loop: enough to keep any device busy.
inline unsigned blocks_for(std::int64_t n) {
  constexpr std::int64_t kMost = 1 << 16;
  const std::int64_t blocks = (n + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMost ? blocks : kMost);
}

/// std::complex<float> as the device sees it: the same two floats.
inline const float2* device_view(const cfloat* data) { return reinterpret_cast<const float2*>(data); }
inline float2* device_view(cfloat* data) { return reinterpret_cast<float2*>(data); }

}  // namespace echotrain::numerics::cuda

/// Loops over i = this thread's first; i < n; i += threads of the launch.
#define ECHOTRAIN_GRID_STRIDE(i, n)                                                                \
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < (n); \
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x)
