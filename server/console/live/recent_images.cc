#include "server/console/live/recent_images.h"

#include <algorithm>
#include <exception>
#include <span>
#include <utility>

#include "protocol/data/pixels.h"

namespace echotrain::server {

namespace {
// Images that wait to be copied keep memory of their scan; these bounds are for one client. Copying takes less time
// than making them.
constexpr std::uint64_t kMostWaitingBytes = 64 << 20;
constexpr std::size_t kMostWaiting = 64;
constexpr std::size_t kMostKept = 100'000;
}  // namespace

/// Memory of pixels that are not held any more. A fast scan drops an image for each that it keeps: memory that goes
/// back to the kernel in between costs more than the copy.
class RecentImages::SparePixels : public std::enable_shared_from_this<SparePixels> {
 public:
  protocol::Payload copy(std::span<const std::byte> pixels) {
    std::vector<std::byte> bytes = take(pixels.size());
    bytes.assign(pixels.begin(), pixels.end());
    const std::span<const std::byte> all = bytes;  // stays true of the vector that it is moved to
    return {std::shared_ptr<const void>(new std::vector<std::byte>(std::move(bytes)),
                                        [spare = shared_from_this()](std::vector<std::byte>* mine) {
                                          spare->keep(std::move(*mine));
                                          delete mine;
                                        }),
            all};
  }
  void clear() {
    const std::scoped_lock lock(mutex_);
    spare_.clear();
  }

 private:
  static constexpr std::size_t kMost = 4, kMostBytes = 1 << 20;  // of each

  std::vector<std::byte> take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const auto fits =
        std::find_if(spare_.begin(), spare_.end(), [&](const auto& each) { return each.capacity() == bytes; });
    if (fits == spare_.end()) return {};
    std::vector<std::byte> found = std::move(*fits);
    spare_.erase(fits);
    return found;
  }
  void keep(std::vector<std::byte> bytes) noexcept {
    if (bytes.capacity() > kMostBytes) return;
    const std::scoped_lock lock(mutex_);
    if (spare_.size() == kMost) spare_.erase(spare_.begin());
    spare_.push_back(std::move(bytes));
  }

  std::mutex mutex_;
  std::vector<std::vector<std::byte>> spare_ = [] {
    std::vector<std::vector<std::byte>> none;
    none.reserve(kMost);
    return none;
  }();
};

RecentImages::RecentImages(std::uint64_t bound_bytes, std::shared_ptr<numerics::MemoryBudget> budget)
    : bound_(bound_bytes), budget_(std::move(budget)), spare_(std::make_shared<SparePixels>()) {
  budget_->add_evictable(*this);
  thread_ = std::thread([this] { copy_all(); });
}

RecentImages::~RecentImages() {
  budget_->remove_evictable(*this);
  {
    const std::scoped_lock lock(waiting_mutex_);
    ending_ = true;
  }
  work_.notify_all();
  thread_.join();
}

std::uint64_t RecentImages::size_of(const protocol::Image& image) {
  return sizeof(KeptImage) + image.pixels.bytes.size() + image.attributes.size();
}

// An image counts so much at least that the bound is one of their number, too.
std::uint64_t RecentImages::counted(std::uint64_t bytes) const { return std::max(bytes, bound_ / kMostKept + 1); }

void RecentImages::add(std::uint64_t session, const protocol::Image& image, const std::string& client) {
  const std::uint64_t bytes = size_of(image);
  {
    const std::scoped_lock lock(waiting_mutex_);
    const auto found = queued_.find(client);
    const Queued queued = found == queued_.end() ? Queued() : found->second;
    // One image may be larger than what may wait.
    const bool room = queued.images == 0 || (queued.images < kMostWaiting && queued.bytes + bytes <= kMostWaitingBytes);
    // What its header does not describe cannot be shown.
    if (bytes > bound_ || !room || protocol::pixel_bytes(image.head, bound_) != image.pixels.bytes.size()) {
      ++left_out_;
      return;
    }
    Queued& now_queued = queued_[client];  // first: what follows may run out of memory
    waiting_.push_back({session, image, client});
    now_queued = {queued.images + 1, queued.bytes + bytes};
  }
  work_.notify_one();
}

void RecentImages::copy_all() {
  std::unique_lock lock(waiting_mutex_);
  for (;;) {
    work_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    const auto queued = queued_.find(next.client);
    queued->second.bytes -= size_of(next.image);
    if (--queued->second.images == 0) queued_.erase(queued);
    lock.unlock();
    try {
      keep(std::move(next));
    } catch (const std::exception&) {  // the machine has no more memory
      ++left_out_;
    }
    lock.lock();
  }
}

void RecentImages::keep(Waiting waiting) {
  const std::uint64_t bytes = size_of(waiting.image), counts = counted(bytes);
  auto kept = std::make_shared<KeptImage>(budget_);
  // Takes memory that is free, or that of older images; never what others could have.
  for (;;) {
    std::shared_ptr<KeptImage> oldest;
    {
      const std::scoped_lock lock(mutex_);
      if (kept_counted_ + counts <= bound_ && budget_->take_if_it_fits(bytes)) break;
      oldest = take_oldest(waiting.client, counts);
      if (!oldest) {
        ++left_out_;
        return;
      }
    }
  }
  kept->bytes = bytes;
  kept->image.pixels = spare_->copy(waiting.image.pixels.bytes);
  kept->image.head = waiting.image.head;
  kept->image.attributes = std::string(waiting.image.attributes);  // a copy of this thread's: the scan pays no longer
  kept->session = waiting.session;
  kept->client = std::move(waiting.client);
  kept->used = budget_->now();
  const std::scoped_lock lock(mutex_);
  kept->number = ++last_;
  newest_ = {kept->number, kept->session};
  kept_bytes_ += bytes;
  kept_counted_ += counts;
  kept_of_[kept->session].push_back(kept);
  Part& part = kept_[kept->client];
  part.counted += counts;
  part.images.push_back(std::move(kept));
}

// The client that has most loses its oldest, where `client` has `more` beside what is kept; null: that is `client`, and
// nothing of it is kept.
std::shared_ptr<KeptImage> RecentImages::take_oldest(const std::string& client, std::uint64_t more) {
  auto most = kept_.find(client);
  std::uint64_t has = more + (most == kept_.end() ? 0 : most->second.counted);
  for (auto each = kept_.begin(); each != kept_.end(); ++each)
    if (each->first != client && each->second.counted > has) {
      most = each;
      has = each->second.counted;
    }
  if (most == kept_.end()) return nullptr;
  Part& part = most->second;
  std::shared_ptr<KeptImage> oldest = std::move(part.images.front());
  part.images.pop_front();
  part.counted -= counted(oldest->bytes);
  if (part.images.empty()) kept_.erase(most);
  kept_bytes_ -= oldest->bytes;
  kept_counted_ -= counted(oldest->bytes);
  const auto of_session = kept_of_.find(oldest->session);  // whose oldest it is
  of_session->second.pop_front();
  if (of_session->second.empty()) kept_of_.erase(of_session);
  return oldest;
}

std::shared_ptr<const KeptImage> RecentImages::newest(std::uint64_t session) const {
  const std::scoped_lock lock(mutex_);
  const auto found = kept_of_.find(session);
  return found == kept_of_.end() ? nullptr : found->second.back();
}

std::shared_ptr<const KeptImage> RecentImages::find(std::uint64_t session, std::uint64_t number) const {
  const auto found = number == 0 ? std::vector<std::shared_ptr<const KeptImage>>() : of(session, number - 1, 1);
  return found.empty() || found.front()->number != number ? nullptr : found.front();
}

std::vector<std::shared_ptr<const KeptImage>> RecentImages::of(std::uint64_t session, std::uint64_t after,
                                                               std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  const auto found = kept_of_.find(session);
  if (found == kept_of_.end()) return {};
  const Images& all = found->second;
  const auto first = std::upper_bound(all.begin(), all.end(), after,
                                      [](std::uint64_t number, const auto& one) { return number < one->number; });
  const auto count = std::min(most, static_cast<std::size_t>(all.end() - first));
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

RecentImages::Extent RecentImages::extent(std::uint64_t session) const {
  const std::scoped_lock lock(mutex_);
  const auto found = kept_of_.find(session);
  if (found == kept_of_.end()) return {};
  return {found->second.size(), found->second.front()->number, found->second.back()->number};
}

RecentImages::Newest RecentImages::newest() const {
  const std::scoped_lock lock(mutex_);
  return newest_;
}

std::uint64_t RecentImages::left_out() const { return left_out_; }

std::uint64_t RecentImages::bytes() const {
  const std::scoped_lock lock(mutex_);
  return kept_bytes_;
}

std::optional<std::uint64_t> RecentImages::unused_since() const {
  const std::scoped_lock lock(mutex_);
  std::optional<std::uint64_t> since;
  for (const auto& [client, part] : kept_) since = std::min(since.value_or(UINT64_MAX), part.images.front()->used);
  return since;
}

void RecentImages::evict(std::uint64_t wanted) {
  std::vector<std::shared_ptr<KeptImage>> dropped;  // freed after the lock
  {
    const std::scoped_lock lock(mutex_);
    for (std::uint64_t freed = 0; freed < std::max<std::uint64_t>(1, wanted);) {
      std::shared_ptr<KeptImage> oldest = take_oldest({}, 0);
      if (!oldest) break;
      freed += oldest->bytes;
      dropped.push_back(std::move(oldest));
    }
  }
  dropped.clear();
  spare_->clear();  // others need the memory
}

}  // namespace echotrain::server
