#include "server/scan/inbox.h"

#include <iterator>
#include <utility>

#include "server/base/busy_polling.h"

namespace echotrain::server {

using protocol::Acquisition;

namespace {
std::size_t payload_bytes_of(const Acquisition& acquisition) {
  return acquisition.trajectory.bytes.size() + acquisition.data.bytes.size();
}

std::size_t own_bytes_of(const Work& work) {
  if (const auto* acquisitions = std::get_if<std::vector<Acquisition>>(&work))
    return acquisitions->capacity() * sizeof(Acquisition);
  const auto* image = std::get_if<protocol::Image>(&work);
  return image == nullptr ? 0 : image->attributes.capacity();
}
}  // namespace

std::size_t payload_bytes_of(const Work& work) {
  if (const auto* acquisitions = std::get_if<std::vector<Acquisition>>(&work)) {
    std::size_t bytes = 0;
    for (const Acquisition& acquisition : *acquisitions) bytes += payload_bytes_of(acquisition);
    return bytes;
  }
  if (const auto* image = std::get_if<protocol::Image>(&work)) return image->pixels.bytes.size();
  return std::get<protocol::Waveform>(work).data.bytes.size();
}

std::size_t bytes_of(const Work& work) { return own_bytes_of(work) + payload_bytes_of(work); }

namespace {
std::int64_t readouts_of(const Work& work) {
  const auto* batch = std::get_if<std::vector<Acquisition>>(&work);
  return batch == nullptr ? 0 : static_cast<std::int64_t>(batch->size());
}
}  // namespace

void Inbox::push(Work&& work) {
  // Its place, with two links, and what is beside it on the heap: what keeps its slab (48), and what the allocator adds
  // to these two blocks and to the work's own.
  constexpr std::size_t kPlace = sizeof(Entry) + 2 * sizeof(void*) + 48 + 3 * 24;
  const std::size_t payload = payload_bytes_of(work), bytes = kPlace + own_bytes_of(work) + payload;
  {
    const std::scoped_lock lock(mutex_);
    if (cancelled_) return;
    const std::int64_t readouts = readouts_of(work);
    queue_.push_back({std::move(work), bytes, payload});
    bytes_ += bytes;
    payload_ += payload;
    readouts_ += readouts;
    share_.set(bytes_);
    something_ = true;
  }
  arrived_.notify_one();
}

void Inbox::finish(End how) {
  {
    const std::scoped_lock lock(mutex_);
    if (!end_) end_ = how;
    something_ = true;
  }
  arrived_.notify_one();
}

void Inbox::cancel() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    cancelled_ = true;
    something_ = true;
  }
  arrived_.notify_one();
}

std::shared_ptr<void> Inbox::hand_over() noexcept {
  cancel();
  std::list<Entry> here;
  const auto unwanted = Unwanted<Entry>::make(memory_, QueueMemory::Kind::input);
  const std::scoped_lock lock(mutex_);
  if (queue_.empty()) return nullptr;
  (unwanted ? unwanted->things : here).swap(queue_);
  const std::size_t bytes = std::exchange(bytes_, taken_bytes_);
  readouts_ = 0;
  payload_ = taken_payload_;
  share_.set(bytes_);
  if (unwanted) unwanted->share.set(bytes - bytes_);
  return unwanted;
}

bool Inbox::pause() {
  const std::scoped_lock lock(mutex_);
  if (!waiting_ || !queue_.empty() || end_ || cancelled_) return false;
  return paused_ = true;
}

void Inbox::resume() {
  {
    const std::scoped_lock lock(mutex_);
    paused_ = false;
  }
  arrived_.notify_one();
}

bool Inbox::full() const {
  const std::scoped_lock lock(mutex_);
  return bytes_ >= bound_ && !cancelled_;
}

bool Inbox::notify_when_empty() {
  const std::scoped_lock lock(mutex_);
  return notify_when_empty_ = bytes_ > 0 && !cancelled_;
}

bool Inbox::exceeds_cache() {
  const std::scoped_lock lock(mutex_);
  told_exceeds_cache_ = bytes_ - taken_bytes_ >= kCacheBytes && !cancelled_;
  return told_exceeds_cache_;
}

std::int64_t Inbox::waiting() const {
  const std::scoped_lock lock(mutex_);
  return readouts_;
}

std::size_t Inbox::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

std::size_t Inbox::payload_bytes() const {
  const std::scoped_lock lock(mutex_);
  return payload_;
}

void Inbox::spin(std::chrono::steady_clock::duration time) const {
  constexpr int kLooks = 64;  // at the flag, for one at the clock
  const auto end = std::chrono::steady_clock::now() + time;
  do
    for (int i = 0; i < kLooks; ++i) {
      if (something_.load(std::memory_order_acquire)) return;
      spin_once();
    }
  while (std::chrono::steady_clock::now() < end);
}

Inbox::Taken Inbox::take(const Waiting& waiting) {
  Taken taken;
  bool roomier = false;
  {
    std::unique_lock lock(mutex_);
    const bool was_full = bytes_ >= bound_;
    bytes_ -= taken_bytes_;
    share_.set(bytes_);
    taken_bytes_ = 0;
    payload_ -= std::exchange(taken_payload_, 0);
    const bool emptied = bytes_ == 0 && std::exchange(notify_when_empty_, false);
    roomier = (was_full && bytes_ < bound_) || emptied;
  }
  if (roomier) room_();  // before waiting: the reader may be the one who brings more
  if (waiting.spins) spin(waiting.soon);
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return cancelled_ || (!paused_ && (end_ || !queue_.empty())); };
  const bool sleeps_first = !waiting.spins && waiting.soon.count() > 0;
  waiting_ = true;
  if (!(sleeps_first ? arrived_.wait_for(lock, waiting.soon, ready) : ready())) {
    if (waiting.long_wait) waiting.long_wait(true);
    arrived_.wait(lock, ready);
    if (waiting.long_wait) waiting.long_wait(false);
  }
  waiting_ = false;
  if (cancelled_) return taken;
  if (queue_.empty()) {
    taken.end = end_;
    return taken;
  }
  const auto take_front = [&] {
    Entry entry = std::move(queue_.front());
    queue_.pop_front();
    taken_bytes_ += entry.bytes;
    taken_payload_ += entry.payload;
    readouts_ -= readouts_of(entry.work);
    return std::move(entry.work);
  };
  taken.work = take_front();
  if (auto* batch = std::get_if<std::vector<Acquisition>>(&*taken.work)) {
    // Beyond kBatchReadouts, moving a small readout costs more than batching saves.
    std::size_t count = batch->size(), bytes = taken_bytes_, last = 0;
    for (auto entry = queue_.begin(); entry != queue_.end() && count < kBatchReadouts; ++entry, ++last) {
      const auto* more = std::get_if<std::vector<Acquisition>>(&entry->work);
      if (more == nullptr || (bytes += entry->bytes) > kBatchBytes) break;
      count += more->size();
    }
    batch->reserve(count);
    for (; last > 0; --last) {
      auto more = std::get<std::vector<Acquisition>>(take_front());
      batch->insert(batch->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
  }
  something_ = !queue_.empty() || end_;
  const bool lean = told_exceeds_cache_ && bytes_ - taken_bytes_ <= kCacheBytes / 2;
  if (lean) told_exceeds_cache_ = false;
  lock.unlock();
  if (lean) room_();
  return taken;
}

}  // namespace echotrain::server
