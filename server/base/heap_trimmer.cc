#include "server/base/heap_trimmer.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <utility>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "protocol/wire/slab_pool.h"
#include "server/base/machine_memory.h"
#include "server/base/priority.h"
#include "server/base/queue_memory.h"

namespace echotrain::server {

namespace {

// The process's memory is looked at this often; a process that has half of its bound may pass it within the first.
constexpr std::chrono::milliseconds kLook{250}, kLookWhenHalfFull{50};
// The least time between two trims, unless memory is short or there is no session.
constexpr std::chrono::seconds kPause{5};
// Trimming is worth it for this much in free pages; the second one holds where memory is short.
constexpr std::uint64_t kWorth = 32 << 20, kWorthWhenShort = 8 << 20;

// Returns the resident memory and allocates nothing: there may be nothing left.
std::uint64_t resident_bytes() {
  std::array<char, 128> text{};  // "all resident shared ...", in pages
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  const char* end = text.data() + std::max<ssize_t>(size, 0);
  const char* second = std::find(static_cast<const char*>(text.data()), end, ' ');
  std::uint64_t resident = 0;
  if (second != end) std::from_chars(second + 1, end, resident);
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

bool TrimPolicy::worth_it(const Seen& seen, bool wanted) {
  const std::uint64_t uncounted = TrimPolicy::uncounted(seen);
  lasting_ = std::min(lasting_, uncounted);
  const std::uint64_t more = uncounted - lasting_;
  const Clock::duration since = seen.now - last_;
  if (since < (is_short(seen) ? kLookWhenHalfFull : kLook)) return false;
  return wanted || (is_short(seen) && more > kWorthWhenShort) || (since >= kPause && more > kWorth);
}

bool TrimPolicy::is_short(const Seen& seen) {
  return seen.resident > kMemorySlack / 2 && seen.resident - kMemorySlack / 2 > seen.bound;
}

void TrimPolicy::done(const Seen& seen) {
  last_ = seen.now;
  lasting_ = uncounted(seen);
}

HeapTrimmer::HeapTrimmer(std::shared_ptr<numerics::Resources> resources)
    : resources_(std::move(resources)), budget_(resources_->memory()), thread_([this] { run(); }) {}

HeapTrimmer::~HeapTrimmer() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void HeapTrimmer::session_ended(bool idle) {
  refill_emergency_reserve();  // at once: the next session may need it
  {
    const std::scoped_lock lock(mutex_);
    idle_ = idle;
  }
  if (idle) wake_.notify_one();
}

void HeapTrimmer::free_unused() {
  const std::scoped_lock lock(mutex_);
  unused_ = true;
}

void HeapTrimmer::run() {
  raise_priority();  // trimming holds locks of the allocator, for which others wait
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, half_full_ ? kLookWhenHalfFull : kLook);
    if (stopping_) return;
    const bool unused = std::exchange(unused_, false);
    wanted_ |= std::exchange(idle_, false);
    lock.unlock();
    try {
      trim(unused);
    } catch (const std::exception&) {
      // No memory was left for it, and there is none for a word about it. The next time may be better.
    }
    lock.lock();
  }
}

void HeapTrimmer::trim(bool unused) {
  if (unused) {
    const bool slabs = resources_->get<protocol::SlabPool>().free_unused();
    const bool blocks = numerics::free_unused_blocks(*resources_);
    wanted_ |= slabs || blocks;
  }
  // A scan whose allocation waits for room (HeapAccount) holds locks, perhaps, and so evicts nothing itself.
  budget_->grant_wishes();
  const TrimPolicy::Seen seen = look();
  half_full_ = std::max(seen.resident, budget_->used()) > seen.bound / 2;
  if (policy_.worth_it(seen, wanted_)) {
    ::malloc_trim(0);
    policy_.done(look());
    wanted_ = false;
  }
  charge_holes();
}

/// What is lasting_ now is no free page. Where memory is not short, scans pay for no more than they do already.
void HeapTrimmer::charge_holes() {
  const TrimPolicy::Seen seen = look();
  const std::int64_t uncounted = static_cast<std::int64_t>(seen.resident) - static_cast<std::int64_t>(seen.counted);
  if (!numerics::HeapAccount::exist()) {
    // A scan that waits for its thread has a reservation that nobody uses: for a moment the base looks smaller.
    base_ = std::max(uncounted, base_ - std::max<std::int64_t>(base_ - uncounted, 0) / 16);
    holes_ = 0;
    return;
  }
  const bool is_short = TrimPolicy::is_short(seen);
  if (!is_short && holes_ == 0) return;
  holes_ = numerics::HeapAccount::charge_holes(uncounted - base_);
}

TrimPolicy::Seen HeapTrimmer::look() const {
  return {Clock::now(), resident_bytes(), budget_->used(), budget_->bound()};
}

}  // namespace echotrain::server
