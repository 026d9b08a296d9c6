// A DevicePool is a stream's device memory: from the driver's pool, and kept for reuse.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <mutex>
#include <vector>

namespace echotrain::numerics::cuda {

/// Blocks of memory that are allocated and freed in the order of one stream. Some are kept when they are released,
/// because taking a kept block does not call the driver. take() is for the stream's thread, all else for any thread.
class DevicePool {
 public:
  /// `device` must be current.
  DevicePool(int device, cudaStream_t stream);
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  /// Returns a block for `bytes`. Throws ResourceError when the device has none, or when the stream is recorded and
  /// none of the kept ones fits. The device must be current.
  void* take(std::size_t bytes);
  /// Keeps the block of `bytes` for reuse. Returns false if it does not; the block is then to be freed.
  bool keep(void* memory, std::size_t bytes) noexcept;
  /// Frees a block in the stream's order. The device must be current.
  void free(void* memory) noexcept;
  /// Begins (true) or ends (false) a period in which all blocks are kept; periods may be nested.
  void keep_all(bool on) noexcept;
  /// Frees the kept blocks.
  void free_kept() noexcept;

 private:
  struct Block {
    void* memory;
    std::size_t size;  // allocated size: block_size() of the bytes asked for
  };
  void* take_kept(std::size_t bytes);

  const int device_;
  const cudaStream_t stream_;
  cudaMemPool_t pool_ = nullptr;
  std::mutex mutex_;
  int keepers_ = 0;
  std::vector<Block> kept_;  // free blocks, for the next array of their size
  std::size_t kept_bytes_ = 0;
};

}  // namespace echotrain::numerics::cuda
