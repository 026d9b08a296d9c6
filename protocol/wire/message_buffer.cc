#include "protocol/wire/message_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "protocol/data/layout.h"
#include "protocol/wire/codec.h"

namespace echotrain::protocol {

namespace {

constexpr std::size_t kSmallestSlab = 64;

/// Copies an image's pixels out of a slab that is far larger than its message: images may wait longer than whoever
/// counts slabs lives.
void leave_roomy(const Slab& slab, std::size_t most, Message& message) {
  Image* const image = std::get_if<Image>(&message);
  if (image == nullptr || slab.size <= most) return;
  const std::span<const std::byte> pixels = image->pixels.bytes;
  image->pixels = Payload::take(std::vector(pixels.begin(), pixels.end()));
}

}  // namespace

MessageBuffer::MessageBuffer(const Limits& limits, std::size_t slab_bytes)
    : MessageBuffer(limits, std::max(slab_bytes, kSmallestSlab),
                    std::make_shared<SlabPool>(SlabPool::kKept * std::max(slab_bytes, kSmallestSlab))) {}

MessageBuffer::MessageBuffer(const Limits& limits, std::shared_ptr<SlabPool> pool)
    : MessageBuffer(limits, SlabPool::kSlabBytes, std::move(pool)) {}

MessageBuffer::MessageBuffer(const Limits& limits, std::size_t slab_bytes, std::shared_ptr<SlabPool> pool)
    : limits_(limits), slab_bytes_(slab_bytes), pool_(std::move(pool)) {}

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

std::string_view MessageBuffer::pending_text(std::size_t begin, std::size_t most) const {
  const auto bytes = pending();
  return as_text(bytes.subspan(std::min(begin, bytes.size()))).substr(0, most);
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
  leave_roomy(*slab_, std::max<std::uint64_t>(slab_bytes_, extent->size + extent->size / 4), *message);
  begin_ += extent->size;
  needed_ = 0;
  return std::optional<Message>(*std::move(message));
}

Result<std::optional<MessageBuffer::Raw>> MessageBuffer::next_raw() {
  const auto bytes = pending();
  if (bytes.empty() || bytes.size() < needed_) return std::optional<Raw>();
  const auto extent = measure(bytes, limits_);
  if (!extent) return extent.error();
  needed_ = extent->size;
  if (!extent->exact || bytes.size() < extent->size) return std::optional<Raw>();
  begin_ += extent->size;
  needed_ = 0;
  return std::optional<Raw>(Raw{extent->id, {owner(), bytes.first(extent->size)}});
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
