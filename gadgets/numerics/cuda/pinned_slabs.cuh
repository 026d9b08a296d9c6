// Small blocks of pinned memory, many of which are pinned at once.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <map>
#include <vector>

#include "gadgets/numerics/cuda/spare_events.cuh"

namespace echotrain::numerics::cuda {

/// Slabs that are cut into blocks of one size each. While memory is pinned, the driver lets no other thread launch
/// anything: one call for each small block would hold up everybody. Its owner pins and frees slabs. Not thread-safe.
class PinnedSlabs {
 public:
  static constexpr std::size_t kSlabBytes = 1 << 20;
  static constexpr std::size_t kLargestBlock = 64 << 10;

  explicit PinnedSlabs(SpareEvents& events) : events_(events) {}
  /// Slabs are their owner's to free.
  ~PinnedSlabs();
  PinnedSlabs(const PinnedSlabs&) = delete;
  PinnedSlabs& operator=(const PinnedSlabs&) = delete;

  /// A block of `size` bytes that no work uses; nullptr: there is none, and a slab may be added.
  void* take(std::size_t size);
  /// `slab`, of kSlabBytes, has no block of another size so far. std::bad_alloc: it was not added.
  void add(void* slab, std::size_t size);
  /// Whether a block is of a slab.
  bool has(const void* block) const;
  /// The block may be used again when `done`, which goes with it, has happened; null: at once.
  void give_back(void* block, cudaEvent_t done, int device) noexcept;

  /// A slab of which no block is in use, which is no longer one; nullptr: there is none.
  void* drop();
  /// Whether drop() would find one.
  bool unused() { return first_unused() != slabs_.end(); }
  /// Slabs that are left.
  std::vector<void*> all() const;

 private:
  struct Block {
    void* memory;
    cudaEvent_t done;
    int device;
  };
  struct Slab {
    std::size_t size, blocks;
    std::vector<Block> kept;  // the one given back first is first
  };
  using Slabs = std::map<const char*, Slab>;
  bool finished(Block& block) noexcept;
  Slabs::iterator first_unused();

  SpareEvents& events_;
  Slabs slabs_;
  std::map<std::size_t, std::vector<Slab*>> of_size_;  // the one that was of use last is last
};

}  // namespace echotrain::numerics::cuda
