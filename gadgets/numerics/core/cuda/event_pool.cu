#include <cstddef>
#include <new>

#include "gadgets/numerics/core/cuda/event_pool.cuh"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::size_t kMostSpareEvents = 64;  // events of one device

}  // namespace

EventPool::~EventPool() {
  for (auto& [device, events] : spare_)
    for (cudaEvent_t event : events) cudaEventDestroy(event);
  cudaGetLastError();
}

cudaEvent_t EventPool::take() noexcept {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto spare = spare_.find(device);
    if (spare != spare_.end() && !spare->second.empty()) {
      cudaEvent_t event = spare->second.back();
      spare->second.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  return cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess ? event : nullptr;
}

void EventPool::give_back(cudaEvent_t event, int device) noexcept {
  {
    std::lock_guard lock(mutex_);
    try {
      std::vector<cudaEvent_t>& spare = spare_[device];
      if (spare.size() < kMostSpareEvents) {
        spare.push_back(event);
        return;
      }
    } catch (const std::bad_alloc&) {
      // The event is destroyed, then.
    }
  }
  cudaEventDestroy(event);
}

}  // namespace echotrain::numerics::cuda
