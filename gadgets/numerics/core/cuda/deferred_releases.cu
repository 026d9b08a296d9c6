#include <new>

#include "gadgets/numerics/core/cuda/callbacks.cuh"
#include "gadgets/numerics/core/cuda/deferred_releases.cuh"

namespace echotrain::numerics::cuda {

void DeferredReleases::give_back(const Block& block) noexcept {
  if (!block.host && pool_.keep(block.memory, block.bytes)) return;
  if (Callbacks::in_one()) {
    defer(block);
    return;
  }
  const std::lock_guard lock(recording_mutex_);  // the calls below must not become part of a recording
  if (recording_) {
    defer(block);
    return;
  }
  int before = device_;
  cudaGetDevice(&before);
  cudaSetDevice(device_);
  free_now(block);
  if (before != device_) cudaSetDevice(before);
  cudaGetLastError();
}

void DeferredReleases::recording(bool on) noexcept {
  const std::lock_guard lock(recording_mutex_);
  recording_ = on;
}

void DeferredReleases::free_deferred() noexcept {
  if (recording_) return;
  std::vector<Block> blocks;
  {
    std::lock_guard lock(deferred_mutex_);
    blocks.swap(deferred_);
  }
  for (const Block& block : blocks) free_now(block);
}

void DeferredReleases::defer(const Block& block) noexcept {
  const std::lock_guard lock(deferred_mutex_);
  try {
    deferred_.push_back(block);
  } catch (const std::bad_alloc&) {
    // The block is leaked: nothing may be freed here, and there is no memory to remember it.
  }
}

void DeferredReleases::free_now(const Block& block) noexcept {
  if (block.host) {
    pinned_.release(block.memory, block.bytes, stream_);
  } else {
    pool_.free(block.memory);
  }
}

}  // namespace echotrain::numerics::cuda
