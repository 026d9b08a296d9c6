#include "protocol/wire/slab_pool.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace echotrain::protocol {

// The memory is not zeroed: only bytes that were received are ever read.
Slab::Slab(std::size_t n) : own(std::make_unique_for_overwrite<std::byte[]>(n)), bytes(own.get()), size(n) {}
Slab::Slab(std::span<std::byte> lent, std::shared_ptr<const void> of)
    : owner(std::move(of)), bytes(lent.data()), size(lent.size()) {}

std::shared_ptr<Slab> SlabPool::get(std::size_t bytes) {
  std::unique_ptr<Slab> slab = take(bytes);
  if (!slab) slab = std::make_unique<Slab>(bytes);
  return {slab.release(), [pool = shared_from_this()](Slab* free) { pool->put(std::unique_ptr<Slab>(free)); }};
}

void SlabPool::lend(std::span<std::byte> memory, const std::shared_ptr<const void>& owner) {
  const std::lock_guard lock(mutex_);
  for (; memory.size() >= kSlabBytes; memory = memory.subspan(kSlabBytes))
    free_.push_back(std::make_unique<Slab>(memory.first(kSlabBytes), owner));
}

// A period ends: what was given back before it is old.
bool SlabPool::free_unused() {
  std::vector<std::unique_ptr<Slab>> old;  // freed outside the lock: that can take milliseconds
  const std::lock_guard lock(mutex_);
  const auto first = std::stable_partition(
      free_.begin(), free_.end(), [this](const auto& slab) { return slab->lent() || slab->period == period_; });
  old.assign(std::make_move_iterator(first), std::make_move_iterator(free_.end()));
  free_.erase(first, free_.end());
  for (const std::unique_ptr<Slab>& slab : old) free_bytes_ -= slab->size;
  ++period_;
  return !old.empty();
}

// The smallest free slab that is large enough, and no larger than whoever takes it pays for; of several a lent one; of
// several the one given back last, so that others grow old.
std::unique_ptr<Slab> SlabPool::take(std::size_t bytes) {
  const std::size_t most = 2 * std::max(bytes, kSlabBytes);
  const std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto slab = free_.begin(); slab != free_.end(); ++slab) {
    const bool first = best == free_.end();
    if ((*slab)->size >= bytes && (*slab)->size < most &&
        (first || (*slab)->size < (*best)->size ||
         ((*slab)->size == (*best)->size && (*slab)->lent() >= (*best)->lent())))
      best = slab;
  }
  if (best == free_.end()) return nullptr;
  std::unique_ptr<Slab> slab = std::move(*best);
  free_.erase(best);
  if (!slab->lent()) free_bytes_ -= slab->size;
  return slab;
}

void SlabPool::put(std::unique_ptr<Slab> slab) {
  const std::lock_guard lock(mutex_);
  const std::size_t own = slab->lent() ? 0 : slab->size;
  if (free_bytes_ + own > keep_bytes_) return;
  slab->period = period_;
  try {
    free_.push_back(std::move(slab));
  } catch (const std::bad_alloc&) {  // whoever lets go of a slab cannot help it: the slab is freed
    return;
  }
  free_bytes_ += own;
}

}  // namespace echotrain::protocol
