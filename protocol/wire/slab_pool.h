// The slab pool holds memory that messages are received into and that is used again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace echotrain::protocol {

/// Contiguous memory.
struct Slab {
  explicit Slab(std::size_t n);                                     ///< of its own
  Slab(std::span<std::byte> lent, std::shared_ptr<const void> of);  ///< of an owner
  bool lent() const { return owner != nullptr; }

  const std::unique_ptr<std::byte[]> own;
  const std::shared_ptr<const void> owner;
  std::byte* const bytes;
  const std::size_t size;
  std::uint64_t period = 0;  ///< the pool's period in which it was last given back
};

/// Keeps slabs that are free to be used again. A pool is held by shared pointers: slabs in use keep it alive, and the
/// holder that drops the last reference to a slab gives it back, on any thread. A program's Resources make one pool for
/// all its buffers. Thread-safe.
class SlabPool : public std::enable_shared_from_this<SlabPool> {
 public:
  static constexpr std::size_t kSlabBytes = 1 << 20;  ///< of a slab as buffers use them
  static constexpr std::size_t kKept = 64;            ///< slabs; as much as a server's queue holds by default

  SlabPool() : SlabPool(kKept * kSlabBytes) {}
  /// Keeps free slabs of up to `keep_bytes`, without those that were lent.
  explicit SlabPool(std::size_t keep_bytes) : keep_bytes_(keep_bytes) {}
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  /// Returns a slab of at least `bytes` and less than twice as many, or than two of kSlabBytes. Its bytes are not set.
  std::shared_ptr<Slab> get(std::size_t bytes);
  /// Lends the pool more memory, in slabs of kSlabBytes, which are taken first and stay as long as the pool. The pool
  /// and its slabs keep `owner`, which is not null.
  void lend(std::span<std::byte> memory, const std::shared_ptr<const void>& owner);
  /// Frees the kept slabs that were not used since the previous call. Call it at regular intervals: a slab is then
  /// freed after being unused for one to two intervals. Returns whether anything was freed.
  bool free_unused();

 private:
  std::unique_ptr<Slab> take(std::size_t bytes);
  void put(std::unique_ptr<Slab> slab);

  const std::size_t keep_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> free_;
  std::size_t free_bytes_ = 0;  // without those that were lent
  std::uint64_t period_ = 0;
};

}  // namespace echotrain::protocol
