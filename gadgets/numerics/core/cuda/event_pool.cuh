// A pool of CUDA events for reuse.
#pragma once

#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <vector>

namespace echotrain::numerics::cuda {

/// Events kept for reuse, because making one takes longer than recording it. They belong to the current device.
/// Thread-safe.
class EventPool {
 public:
  EventPool() = default;
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  /// Returns nullptr where none can be made.
  cudaEvent_t take() noexcept;
  /// `device` is the one that the event was taken for.
  void give_back(cudaEvent_t event, int device) noexcept;

 private:
  std::mutex mutex_;
  std::map<int, std::vector<cudaEvent_t>> spare_;
};

}  // namespace echotrain::numerics::cuda
