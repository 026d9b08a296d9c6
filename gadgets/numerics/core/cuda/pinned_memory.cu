#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "gadgets/numerics/core/cuda/pinned_memory.cuh"
#include "gadgets/numerics/core/cuda/receive_memory.h"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/device.h"

namespace echotrain::numerics::cuda {
namespace {

constexpr std::uint64_t kMostKeptPinned = 1ull << 30;   // bytes kept for reuse by all contexts
constexpr std::chrono::milliseconds kLongestWait{100};  // for which drop() waits for its blocks to be freed
constexpr std::size_t kMostUsed = 64 << 20;             // bytes that are freed later
constexpr std::chrono::milliseconds kLook{5};           // the interval of checks of blocks that work still uses and
                                                        // that are to be freed

}  // namespace

std::byte* pin(std::size_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) == cudaSuccess) return static_cast<std::byte*>(memory);
  cudaGetLastError();
  return nullptr;
}

void unpin(std::byte* memory) noexcept {
  cudaFreeHost(memory);
  cudaGetLastError();
}

PinnedMemory::PinnedMemory(Resources& resources)
    : events_(resources.share<EventPool>()),
      budget_(resources.memory()),
      most_kept_(budget_->bounded() ? std::min(kMostKeptPinned, budget_->bound() / 4) : kMostKeptPinned),
      thread_([this](const std::stop_token& stop) { free_what_goes(stop); }) {
  budget_->add_evictable(*this);
}

PinnedMemory::~PinnedMemory() {
  budget_->remove_evictable(*this);
  thread_.request_stop();
  thread_.join();  // the thread has freed all blocks to free
  budget_->give(kept_bytes_);
  for (auto& [size, blocks] : kept_)
    for (const Block& block : blocks) free_now(block);
  for (void* slab : slabs_.all()) {
    cudaFreeHost(slab);
    budget_->give(PinnedSlabs::kSlabBytes);
  }
  cudaGetLastError();
}

void* PinnedMemory::allocate(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  if (size <= PinnedSlabs::kLargestBlock)
    if (void* const memory = small_block(size); memory != nullptr) return memory;
  {
    std::lock_guard lock(mutex_);
    auto& blocks = kept_[size];
    for (auto block = blocks.begin(); block != blocks.end(); ++block) {
      if (!finished(block->done)) continue;
      void* memory = block->memory;
      events_->give_back(block->done, block->device);
      blocks.erase(block);
      no_longer_kept(size);
      return memory;
    }
  }
  void* memory = nullptr;
  cudaError_t status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
  if (status != cudaSuccess) {
    cudaGetLastError();
    drop_finished();
    status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    if (is_sticky(status)) check(status, "pinning memory");
    throw ResourceError("the machine has no " + bytes_text(bytes) +
                        " of pinned memory left: " + cudaGetErrorString(status));
  }
  return memory;
}

// The budget counts kept blocks of slabs here, and those in use where they are used. Returns nullptr if no slab can be
// added.
void* PinnedMemory::small_block(std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    if (void* const memory = slabs_.take(size); memory != nullptr) {
      budget_->give(size);
      return memory;
    }
  }
  if (!budget_->take_if_it_fits(PinnedSlabs::kSlabBytes)) return nullptr;
  void* slab = nullptr;
  if (cudaHostAlloc(&slab, PinnedSlabs::kSlabBytes, cudaHostAllocPortable) != cudaSuccess) {
    cudaGetLastError();
    budget_->give(PinnedSlabs::kSlabBytes);
    return nullptr;  // a block of its own may still be available, after others have been dropped
  }
  const std::lock_guard lock(mutex_);
  try {
    slabs_.add(slab, size);
  } catch (const std::bad_alloc&) {
    cudaFreeHost(slab);
    budget_->give(PinnedSlabs::kSlabBytes);
    return nullptr;
  }
  cudaGetDevice(&slab_device_);
  budget_->give(size);
  return slabs_.take(size);
}

void PinnedMemory::release(void* memory, std::size_t bytes, cudaStream_t stream) noexcept {
  const std::size_t size = block_size(bytes);
  int device = 0;
  cudaGetDevice(&device);
  if (cudaEvent_t done = events_->take(); done != nullptr) {
    if (cudaEventRecord(done, stream) == cudaSuccess) {
      if (give_back_small(memory, size, done, device)) return;
      const Block block{memory, done, device};
      if (keep(block, size) || free_later(block, size)) return;
    }
    cudaEventDestroy(done);
  }
  cudaStreamSynchronize(stream);
  if (!give_back_small(memory, size, nullptr, device)) cudaFreeHost(memory);
  cudaGetLastError();
}

/// Returns false if the block does not come from a slab.
bool PinnedMemory::give_back_small(void* memory, std::size_t size, cudaEvent_t done, int device) noexcept {
  if (size > PinnedSlabs::kLargestBlock) return false;
  const std::lock_guard lock(mutex_);
  if (!slabs_.has(memory)) return false;
  slabs_.give_back(memory, done, device);
  budget_->add(size);
  return true;
}

bool PinnedMemory::keep(const Block& block, std::size_t size) noexcept {
  std::lock_guard lock(mutex_);
  if (kept_bytes_ + size > most_kept_ || !budget_->take_if_it_fits(size)) return false;
  try {
    kept_[size].push_back(block);
  } catch (const std::bad_alloc&) {
    budget_->give(size);
    return false;
  }
  kept_bytes_ += size;
  return true;
}

// The work that uses the block may take seconds, and freeing waits for other work, too; callers, the threads of
// connections among them, cannot wait that long.
bool PinnedMemory::free_later(const Block& block, std::size_t size) noexcept {
  std::lock_guard lock(mutex_);
  if (used_bytes_ + size > kMostUsed) return false;
  try {
    used_.push_back({block, size});
  } catch (const std::bad_alloc&) {
    return false;
  }
  used_bytes_ += size;
  changed_.notify_all();
  return true;
}

void PinnedMemory::no_longer_kept(std::size_t size) noexcept {  // requires the lock
  kept_bytes_ -= size;
  budget_->give(size);
}

// Blocks of a size lie in the order of their release: those behind a block that work still uses are most likely in use,
// too.
std::optional<std::uint64_t> PinnedMemory::unused_since() const {
  std::lock_guard lock(mutex_);
  for (const auto& [size, blocks] : kept_)
    if (!blocks.empty() && finished(blocks.front().done)) return 0;
  if (slabs_.unused()) return 0;
  return std::nullopt;
}

// Freeing pinned memory may wait for all work of the device, and callers, the threads of connections among them, cannot
// wait that long: a thread frees it.
void PinnedMemory::evict(std::uint64_t wanted) {
  std::unique_lock lock(mutex_);
  std::uint64_t dropped = 0;
  for (auto of_size = kept_.rbegin(); of_size != kept_.rend(); ++of_size) {
    auto& [size, blocks] = *of_size;
    auto block = blocks.begin();
    for (; block != blocks.end() && dropped < wanted && finished(block->done); ++block) {
      try {
        going_.push_back({*block, size});
      } catch (const std::bad_alloc&) {
        break;
      }
      kept_bytes_ -= size;
      dropped += size;
    }
    blocks.erase(blocks.begin(), block);
  }
  while (dropped < wanted) {
    void* const slab = slabs_.drop();
    if (slab == nullptr) break;
    try {
      going_.push_back({{slab, nullptr, slab_device_}, PinnedSlabs::kSlabBytes});
    } catch (const std::bad_alloc&) {
      cudaFreeHost(slab);
      budget_->give(PinnedSlabs::kSlabBytes);
    }
    dropped += PinnedSlabs::kSlabBytes;
  }
  changed_.notify_all();
  changed_.wait_for(lock, kLongestWait, [this] { return going_.empty() && !freeing_; });
}

void PinnedMemory::free_what_goes(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !going_.empty() || !used_.empty(); })) {
    free_what_was_used(lock);
    if (going_.empty()) {
      if (!used_.empty()) changed_.wait_for(lock, kLook, [this] { return !going_.empty(); });
      continue;
    }
    const std::vector<Going> going = std::exchange(going_, {});
    freeing_ = true;
    lock.unlock();
    for (const auto& [block, size] : going) {
      cudaSetDevice(block.device);  // sets this thread's device only
      free_now(block);
      budget_->give(size);
    }
    cudaGetLastError();
    lock.lock();
    freeing_ = false;
    changed_.notify_all();
  }
}

// Requires the lock, and releases it while a block is freed.
void PinnedMemory::free_what_was_used(std::unique_lock<std::mutex>& lock) {
  // A device that has failed never reports work as done, but no work uses its memory: the destructor waits for such
  // blocks.
  const auto is_free = [](const Going& each) {
    const cudaError_t status = cudaEventQuery(each.block.done);
    if (status != cudaSuccess) cudaGetLastError();
    return status != cudaErrorNotReady;
  };
  for (;;) {
    const auto next = std::find_if(used_.begin(), used_.end(), is_free);
    if (next == used_.end()) return;
    const auto [block, size] = *next;
    used_.erase(next);
    lock.unlock();
    cudaSetDevice(block.device);  // sets this thread's device only
    free_now(block);
    cudaGetLastError();
    lock.lock();
    used_bytes_ -= size;
  }
}

bool PinnedMemory::finished(cudaEvent_t done) noexcept {
  if (cudaEventQuery(done) == cudaSuccess) return true;
  cudaGetLastError();  // clears "not ready", which the next launch would take for its error
  return false;
}

void PinnedMemory::free_now(const Block& block) noexcept {
  if (block.done != nullptr) cudaEventDestroy(block.done);
  cudaFreeHost(block.memory);
}

void PinnedMemory::drop_finished() noexcept {
  std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : kept_)
    for (auto block = blocks.begin(); block != blocks.end();) {
      if (!finished(block->done)) {
        ++block;
        continue;
      }
      free_now(*block);
      no_longer_kept(size);
      block = blocks.erase(block);
    }
  while (void* const slab = slabs_.drop()) {
    cudaFreeHost(slab);
    budget_->give(PinnedSlabs::kSlabBytes);
  }
  cudaGetLastError();
}

}  // namespace echotrain::numerics::cuda
