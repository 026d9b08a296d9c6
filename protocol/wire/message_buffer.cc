#include "protocol/wire/message_buffer.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <utility>

#include "protocol/data/layout.h"
#include "protocol/wire/codec.h"

namespace echotrain::protocol {

struct MessageBuffer::Slab {
  // Not zeroed: only bytes that were received are ever read.
  explicit Slab(std::size_t n) : own(std::make_unique_for_overwrite<std::byte[]>(n)), bytes(own.get()), size(n) {}
  explicit Slab(std::span<std::byte> lent) : bytes(lent.data()), size(lent.size()) {}
  bool lent() const { return !own; }
  const std::unique_ptr<std::byte[]> own;
  std::byte* const bytes;
  const std::size_t size;
  std::uint64_t period = 0;  // the pool's period in which it was last given back
};

// Slabs that are free to be used again. Slabs in use keep the pool alive. The last message of a slab gives it back, on
// any thread.
namespace {

constexpr std::size_t kSmallestSlab = 64;
constexpr std::size_t kSlabsKept = 16;
constexpr std::size_t kSharedBytes = 64 << 20;  // as much as a server's queue holds by default

}  // namespace

class MessageBuffer::Pool : public std::enable_shared_from_this<Pool> {
 public:
  explicit Pool(std::size_t keep_bytes) : keep_bytes_(keep_bytes) {}
  static const std::shared_ptr<Pool>& shared() {
    // Never destroyed: threads may free slabs while the process exits.
    static const auto* const pool = new std::shared_ptr<Pool>(std::make_shared<Pool>(kSharedBytes));
    return *pool;
  }

  std::shared_ptr<Slab> get(std::size_t bytes) {
    std::unique_ptr<Slab> slab = take(bytes);
    if (!slab) slab = std::make_unique<Slab>(bytes);
    return {slab.release(), [pool = shared_from_this()](Slab* free) { pool->put(std::unique_ptr<Slab>(free)); }};
  }

  void add(std::span<std::byte> memory) {
    const std::lock_guard lock(mutex_);
    for (; memory.size() >= kSlabBytes; memory = memory.subspan(kSlabBytes))
      free_.push_back(std::make_unique<Slab>(memory.first(kSlabBytes)));
  }

  // Frees the slabs that were given back before the period that ends now.
  bool age() {
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

 private:
  // The smallest free slab that is large enough; of several a lent one; of several the one given back last, so that
  // others grow old.
  std::unique_ptr<Slab> take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto slab = free_.begin(); slab != free_.end(); ++slab) {
      const bool first = best == free_.end();
      if ((*slab)->size >= bytes && (first || (*slab)->size < (*best)->size ||
                                     ((*slab)->size == (*best)->size && (*slab)->lent() >= (*best)->lent())))
        best = slab;
    }
    if (best == free_.end()) return nullptr;
    std::unique_ptr<Slab> slab = std::move(*best);
    free_.erase(best);
    if (!slab->lent()) free_bytes_ -= slab->size;
    return slab;
  }

  void put(std::unique_ptr<Slab> slab) {
    const std::lock_guard lock(mutex_);
    if (!slab->lent()) {
      if (free_bytes_ + slab->size > keep_bytes_) return;
      free_bytes_ += slab->size;
    }
    slab->period = period_;
    free_.push_back(std::move(slab));
  }

  const std::size_t keep_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slab>> free_;
  std::size_t free_bytes_ = 0;  // without those that were lent
  std::uint64_t period_ = 0;
};

bool MessageBuffer::free_unused_slabs() { return Pool::shared()->age(); }
void MessageBuffer::lend(std::span<std::byte> memory) { Pool::shared()->add(memory); }

MessageBuffer::MessageBuffer(const Limits& limits, std::size_t slab_bytes)
    : limits_(limits),
      slab_bytes_(std::max(slab_bytes, kSmallestSlab)),
      // Buffers of the usual size share a pool: a connection finds warm slabs that earlier ones have left.
      pool_(slab_bytes_ == kSlabBytes ? Pool::shared() : std::make_shared<Pool>(kSlabsKept * slab_bytes_)) {}

std::span<const std::byte> MessageBuffer::pending() const {
  return slab_ ? std::span<const std::byte>(slab_->bytes + begin_, end_ - begin_) : std::span<const std::byte>();
}

std::size_t MessageBuffer::pending_bytes() const { return end_ - begin_; }

std::size_t MessageBuffer::held_bytes() {
  std::size_t bytes = 0;
  std::erase_if(held_, [&bytes](const std::weak_ptr<const Slab>& each) {
    const std::shared_ptr<const Slab> slab = each.lock();
    bytes += slab ? slab->size : 0;
    return !slab;
  });
  return bytes;
}

std::uint16_t MessageBuffer::pending_id() const {
  return pending_bytes() < kIdBytes ? std::uint16_t{0} : load<std::uint16_t>(pending(), 0);
}

void MessageBuffer::change_slab(std::size_t bytes) {
  const auto partial = pending();
  // Let the old slab go first when nothing of it is needed, so that it can come straight back.
  owner_.reset();
  if (partial.empty()) slab_.reset();
  auto slab = pool_->get(bytes);
  if (!partial.empty()) std::memcpy(slab->bytes, partial.data(), partial.size());
  slab_ = std::move(slab);
  held_.emplace_back(slab_);
  end_ = partial.size();
  begin_ = 0;
}

std::span<std::byte> MessageBuffer::prepare() {
  const std::size_t partial = pending_bytes();
  if (!slab_ || (partial == 0 && end_ == slab_->size)) {
    change_slab(slab_bytes_);
  } else if (begin_ + needed_ > slab_->size) {
    if (needed_ <= slab_bytes_) {
      change_slab(slab_bytes_);  // the whole message fits into a fresh slab
    } else if (end_ == slab_->size) {
      // A large message: room for twice what has arrived, up to the measured size.
      change_slab(std::max<std::size_t>(slab_bytes_, std::min<std::uint64_t>(needed_, 2 * partial)));
    }
  }
  if (end_ == slab_->size) change_slab(std::max(slab_bytes_, 2 * partial));  // next() was not called yet
  return {slab_->bytes + end_, slab_->size - end_};
}

void MessageBuffer::commit(std::size_t n) {
  end_ += n;
  owner_.reset();
}

// What keeps the slab for the messages of one commit(). The slab's own count would go to and fro between the thread
// that takes messages out of it and those that let earlier ones go, once for each readout.
const std::shared_ptr<const void>& MessageBuffer::owner() {
  if (!owner_) owner_ = std::make_shared<const std::shared_ptr<const Slab>>(slab_);
  return owner_;
}

Payload MessageBuffer::received(std::size_t n) const { return {slab_, {slab_->bytes + end_ - n, n}}; }

Result<std::optional<Message>> MessageBuffer::next() {
  const auto bytes = pending();
  if (bytes.empty() || bytes.size() < needed_) return std::optional<Message>();
  const auto extent = measure(bytes, limits_);
  if (!extent) return extent.error();
  needed_ = extent->size;
  if (!extent->exact || bytes.size() < extent->size) return std::optional<Message>();
  auto message = decode(bytes.first(extent->size), owner(), limits_);
  if (!message) return message.error();
  begin_ += extent->size;
  needed_ = 0;
  return std::optional<Message>(*std::move(message));
}

Result<bool> MessageBuffer::next_readout(Acquisition& to) {
  const auto bytes = pending();
  if (bytes.size() < std::max<std::uint64_t>(needed_, kIdBytes) ||
      load<std::uint16_t>(bytes, 0) != static_cast<std::uint16_t>(MessageId::acquisition))
    return false;
  const auto extent = measure(bytes, limits_);
  if (!extent || !extent->exact || bytes.size() < extent->size) return false;
  if (const Status status = decode_acquisition(bytes.first(extent->size), owner(), to); !status) return status.error();
  begin_ += extent->size;
  needed_ = 0;
  return true;
}

}  // namespace echotrain::protocol
