// Small blocks of pinned memory, many of which are pinned at once.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <vector>

#include "gadgets/numerics/core/cuda/event_pool.cuh"

namespace echotrain::numerics::cuda {

/// Slabs that are cut into blocks of one size each. While memory is pinned, the driver lets no other thread launch
/// anything: one call for each small block would hold up all scans. The owner pins and frees slabs. Not thread-safe.
class PinnedSlabs {
 public:
  static constexpr std::size_t kSlabBytes = 1 << 20;
  static constexpr std::size_t kLargestBlock = 64 << 10;

  explicit PinnedSlabs(EventPool& events) : events_(events) {}
  /// Does not free slabs: their owner does.
  ~PinnedSlabs();
  PinnedSlabs(const PinnedSlabs&) = delete;
  PinnedSlabs& operator=(const PinnedSlabs&) = delete;

  /// Returns a block of `size` bytes that no work uses, or nullptr; a slab may then be added.
  void* take(std::size_t size);
  /// Adds `slab`, of kSlabBytes, which must hold no block of another size. On std::bad_alloc it was not added.
  void add(void* slab, std::size_t size);
  /// True if the block comes from a slab.
  bool has(const void* block) const;
  /// Takes back the block, which may be used again when `done`, which it owns, has happened; null: at once.
  void give_back(void* block, cudaEvent_t done, int device) noexcept;

  /// Removes and returns a slab of which no block is in use; nullptr if there is none.
  void* drop();
  /// True if drop() would find a slab.
  bool unused() { return first_unused() != slabs_.end(); }
  /// The slabs that are left.
  std::vector<void*> all() const;

 private:
  struct Block {
    void* memory;
    cudaEvent_t done;
    int device;
  };
  struct Slab {
    std::size_t size, blocks;
    std::vector<Block> kept;  // the block released first is first
  };
  using Slabs = std::map<const char*, Slab>;
  bool finished(Block& block) noexcept;
  Slabs::iterator first_unused();

  EventPool& events_;
  Slabs slabs_;
  std::map<std::size_t, std::vector<Slab*>> of_size_;  // the slab used last is last
};

}  // namespace echotrain::numerics::cuda
