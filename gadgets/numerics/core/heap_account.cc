#include "gadgets/numerics/core/heap_account.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <random>
#include <thread>

namespace echotrain::numerics {
namespace {

/// The count of one account's blocks: bytes, and in the upper 16 bits the number of accounts that had the slot earlier.
/// Blocks of those are known by their number, and counted no more.
struct Slot {
  std::atomic<std::uint64_t> count = 0;
  std::atomic<bool> open = false;
};
constexpr std::size_t kSlots = 1 << 16;
constexpr int kBytesBits = 48;
constexpr std::uint64_t kBytes = (std::uint64_t{1} << kBytesBits) - 1;
std::array<Slot, kSlots> slots;

std::uint64_t number_of(std::uint64_t count) { return count >> kBytesBits; }

/// Returns a slot that no account has; from the last one on, so that few pages are touched and numbers grow slowly.
std::size_t open_slot() {
  static std::atomic<std::size_t> next = 0;
  for (std::size_t i = 0; i < kSlots; ++i) {
    const std::size_t at = next++ % kSlots;
    bool is_open = false;
    if (slots[at].open.compare_exchange_strong(is_open, true)) return at;
  }
  throw ResourceError("there are more scans than can be counted");
}

/// All heap accounts.
std::mutex accounts_mutex;
constinit HeapAccount* first_account = nullptr;

/// A block's last bytes: its slot, the number of its account, and 32 bits that a block without one does not have but by
/// chance.
using Tag = std::uint64_t;
constexpr int kNumberBits = 16;

/// The bytes that the allocator keeps before each block.
constexpr std::size_t kChunkHead = sizeof(std::size_t);

/// The bytes that are charged at once: larger than most blocks, and small against any bound.
constexpr std::int64_t kGrain = 256 << 10;
constexpr std::chrono::milliseconds kPatience{200};

/// A random number of this run of the program; 0 until the first account, and so until the first tag.
constinit std::atomic<Tag> key = 0;

void choose_key() {
  std::random_device random;
  Tag none = 0;
  key.compare_exchange_strong(none, (static_cast<Tag>(random()) << 32) | random() | 1);
}

Tag tag_of(const void* block, std::size_t slot, std::uint64_t number) noexcept {
  Tag mixed = (reinterpret_cast<Tag>(block) ^ key) * 0x9e3779b97f4a7c15;  // Fibonacci hashing, Knuth vol. 3, 6.4
  mixed ^= mixed >> 29;
  return (mixed * key) >> 32 << 32 | number << kNumberBits | slot;
}

/// Gives back what was counted for the account of this number, unless the slot is another's by now.
void give_back(std::size_t slot, std::uint64_t number, std::uint64_t bytes) noexcept {
  std::atomic<std::uint64_t>& count = slots[slot].count;
  std::uint64_t counted = count;
  while (number_of(counted) == number && !count.compare_exchange_weak(counted, counted - bytes)) {
  }
}

/// The end of what the allocator has given for a block, which may lie behind what was asked for.
char* end_of(void* block) noexcept {
  char* begin = static_cast<char*>(block);
  asm("" : "+r"(begin));  // a fortified memcpy would hold the block to what was asked for
  return begin + ::malloc_usable_size(block);
}

}  // namespace

HeapAccount::HeapAccount(std::shared_ptr<MemoryAccount> account) : account_(std::move(account)), slot_(open_slot()) {
  if (key == 0) choose_key();
  const std::scoped_lock lock(accounts_mutex);
  next_ = std::exchange(first_account, this);
}

HeapAccount::~HeapAccount() {
  {
    const std::scoped_lock lock(accounts_mutex);
    HeapAccount** at = &first_account;
    while (*at != this) at = &(*at)->next_;
    *at = next_;
  }
  const std::int64_t paid = paid_;
  if (account_ && paid > 0) account_->give(static_cast<std::uint64_t>(paid));
  Slot& mine = slots[slot_];
  mine.count = (number_of(mine.count) + 1) << kBytesBits;  // the last of 16 bits overflows to 0
  mine.open = false;
}

HeapAccount*& HeapAccount::of_thread() noexcept {
  // No call of a function that allocates: `new` asks for it.
  [[gnu::tls_model("initial-exec")]] static thread_local HeapAccount* account = nullptr;
  return account;
}

std::uint64_t HeapAccount::bytes() const { return slots[slot_].count & kBytes; }

bool HeapAccount::counts() {
  HeapAccount probe(nullptr);
  const HeapScope scope(&probe);
  void* const block = ::operator new(1);
  const bool counted = probe.bytes() > 0;
  ::operator delete(block);
  return counted;
}

void HeapAccount::check() {
  settle();
  const std::int64_t paid = paid_, before = checked_.exchange(paid);
  if (account_ && paid > before) account_->check();
}

/// Charges what is allocated and a grain beyond it, so that small blocks seldom come here.
void HeapAccount::settle() noexcept {
  if (!account_) return;
  std::int64_t paid = paid_, wanted = 0;
  do {
    wanted = static_cast<std::int64_t>(bytes());
    wanted = std::max(wanted == 0 ? 0 : wanted + kGrain, held_.load());
  } while (!paid_.compare_exchange_weak(paid, wanted));
  std::int64_t peak = peak_;
  while (wanted > peak && !peak_.compare_exchange_weak(peak, wanted)) {
  }
  if (wanted > paid) account_->add(static_cast<std::uint64_t>(wanted - paid));
  if (wanted < paid) account_->give(static_cast<std::uint64_t>(paid - wanted));
}

/// Returns how much less it has than it had [bytes].
std::int64_t HeapAccount::freed() const noexcept {
  return std::max<std::int64_t>(peak_ - static_cast<std::int64_t>(bytes()), 0);
}

std::uint64_t HeapAccount::charge_holes(std::int64_t uncounted) {
  const std::scoped_lock lock(accounts_mutex);
  std::int64_t freed = 0;
  for (HeapAccount* each = first_account; each != nullptr; each = each->next_) {
    if (!each->account_) continue;
    freed += each->freed();
    uncounted += static_cast<std::int64_t>(each->account_->unused());
    if (each->held_ > 0) uncounted += std::max<std::int64_t>(each->paid_ - static_cast<std::int64_t>(each->bytes()), 0);
  }
  const double part = freed > 0 ? std::clamp(static_cast<double>(uncounted) / static_cast<double>(freed), 0., 1.) : 0;
  std::int64_t charged = 0;
  for (HeapAccount* each = first_account; each != nullptr; each = each->next_) {
    if (!each->account_) continue;
    const auto holes = static_cast<std::int64_t>(part * static_cast<double>(each->freed()));
    each->held_ = holes > kGrain ? static_cast<std::int64_t>(each->bytes()) + holes : 0;
    each->peak_ = std::max<std::int64_t>(static_cast<std::int64_t>(each->bytes()), each->held_);
    each->settle();
    if (each->held_ > 0) charged += holes;
  }
  return static_cast<std::uint64_t>(charged);
}

bool HeapAccount::exist() {
  const std::scoped_lock lock(accounts_mutex);
  return first_account != nullptr;
}

/// True if `more` bytes fit the budget, or lie `beyond` bytes above its bound at most.
bool HeapAccount::fits(std::uint64_t more, std::uint64_t beyond) const noexcept {
  const MemoryBudget& budget = *account_->budget();
  return !budget.bounded() || !account_->beyond_grace(more) || budget.used() + more <= budget.bound() + beyond;
}

/// Others do not learn of a block that waits: it may never fit.
bool HeapAccount::wait_for_room(std::size_t bytes) const noexcept {
  const auto fit = [&] {
    const std::int64_t more = static_cast<std::int64_t>(this->bytes() + bytes) + kGrain - paid_;
    return fits(static_cast<std::uint64_t>(std::max<std::int64_t>(more, 0)), kLargeBlocks);
  };
  const auto begin = std::chrono::steady_clock::now();
  while (!fit()) {
    if (bytes > account_->budget()->bound() || std::chrono::steady_clock::now() - begin >= kPatience) return false;
    account_->budget()->wish(bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Counts a block that is about to be allocated; false: the budget lends no more, and nothing is counted.
bool HeapAccount::admit(std::size_t bytes) noexcept {
  std::atomic<std::uint64_t>& count = slots[slot_].count;
  if (account_ && bytes >= kLarge && !wait_for_room(bytes)) return false;
  const auto now = static_cast<std::int64_t>((count.fetch_add(bytes) + bytes) & kBytes);
  if (!account_) return true;
  const std::int64_t paid = paid_;
  if (now <= paid && (now > paid - 4 * kGrain || paid == held_)) return true;
  settle();
  if (now <= paid || bytes >= kLarge || fits(0, kSmallBlocks)) return true;
  count.fetch_sub(bytes);
  settle();
  return false;
}

void* HeapAccount::allocate(std::size_t bytes, std::size_t alignment, bool& refused) noexcept {
  if (bytes > kBytes / 2) return nullptr;
  const std::size_t size = bytes + sizeof(Tag);
  refused = !admit(size);
  if (refused) return nullptr;
  void* const block = alignment <= alignof(std::max_align_t) ? std::malloc(size) : ::memalign(alignment, size);
  std::atomic<std::uint64_t>& count = slots[slot_].count;
  if (block == nullptr) {
    count.fetch_sub(size);
    return nullptr;
  }
  char* const end = end_of(block);
  const std::uint64_t before =
      count.fetch_add(static_cast<std::size_t>(end - static_cast<char*>(block)) + kChunkHead - size);
  const Tag tag = tag_of(block, slot_, number_of(before));
  std::memcpy(end - sizeof tag, &tag, sizeof tag);
  return block;
}

void HeapAccount::release(void* block) noexcept {
  if (block == nullptr) return;
  if (key.load(std::memory_order_relaxed) == 0) return std::free(block);
  Tag tag = 0;
  char* const end = end_of(block);
  std::memcpy(&tag, end - sizeof tag, sizeof tag);
  const std::size_t slot = tag & (kSlots - 1);
  const std::uint64_t number = (tag >> kNumberBits) & ((1 << kNumberBits) - 1);
  if (tag == tag_of(block, slot, number)) {
    give_back(slot, number, static_cast<std::size_t>(end - static_cast<char*>(block)) + kChunkHead);
    tag = 0;  // the next owner of the block may have no account
    std::memcpy(end - sizeof tag, &tag, sizeof tag);
  }
  std::free(block);
}

HeapCharge::HeapCharge(std::size_t bytes) {
  HeapAccount* const account = HeapAccount::of_thread();
  if (account == nullptr) return;
  if (!account->admit(bytes)) {
    account->set_refused();
    throw std::bad_alloc();
  }
  bytes_ = bytes;
  slot_ = account->slot_;
  number_ = number_of(slots[slot_].count);
}

HeapCharge::~HeapCharge() {
  if (bytes_ > 0) give_back(slot_, number_, bytes_);
}

}  // namespace echotrain::numerics
