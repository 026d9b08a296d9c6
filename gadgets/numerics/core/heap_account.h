// The heap account charges what a scan's threads allocate with `new` to the scan's memory account.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain::numerics {

/// Counts blocks that threads allocate with `new` while they are in one of its scopes, until they are freed, and
/// charges them to a memory account: containers of gadgets, and of libraries that gadgets call, need not count
/// themselves. Each block names its account in its last bytes (heap_account_operators.cc), so that the thread that
/// frees it gives back what was charged.
///
/// Blocks that outlive the heap account are charged to no account: their keeper (a cache, a queue) counts them. Arrays,
/// whose devices count them, and thread_scratch() do not use `new` within a scope. Thread-safe, but for its end.
class HeapAccount {
 public:
  /// Throws ResourceError where as many heap accounts exist as blocks can name.
  explicit HeapAccount(std::shared_ptr<MemoryAccount> account);
  ~HeapAccount();
  HeapAccount(const HeapAccount&) = delete;
  HeapAccount& operator=(const HeapAccount&) = delete;

  /// Returns the allocated bytes, with the allocator's part.
  std::uint64_t bytes() const;
  /// True after an allocation has failed, and was not made by other means, because the budget lends no more.
  bool refused() const { return refused_; }
  void set_refused() noexcept { refused_ = true; }
  /// Charges what is allocated now, less than at the last call or more.
  void settle() noexcept;
  /// Charges what is allocated now. Where that is more than at the last call, throws OverBudget if the account borrows
  /// more than the budget lends. Not to be called under a lock of an Evictable.
  void check();

  /// Returns the heap account of the calling thread; null if it has none.
  static HeapAccount*& of_thread() noexcept;
  /// False where the program's `new` is not ours: with a sanitizer, or where the program has its own.
  static bool counts();

  /// Charges what the process has beyond what is counted, `uncounted` bytes, to the accounts that have freed most since
  /// they had most: pages that their blocks leave half empty, which no trim gives back. Each pays at most what it has
  /// freed; the charge is set anew with each call. Reservations that nobody uses are added to `uncounted`. Returns what
  /// is charged.
  static std::uint64_t charge_holes(std::int64_t uncounted);
  /// True if there is any heap account.
  static bool exist();

  /// Does the work of operator new. Returns null where the machine has no more memory, or where the budget lends no
  /// more, which sets `refused`: kSmallBlocks beyond its bound, for blocks of kLarge or more kLargeBlocks beyond it.
  /// Caches may be evicted meanwhile by another thread (as the server's HeapTrimmer does): a large block waits for that
  /// for kPatience at most, and is not counted before it has its room.
  void* allocate(std::size_t bytes, std::size_t alignment, bool& refused) noexcept;
  /// Does the work of operator delete, for blocks of any account and of none.
  static void release(void* block) noexcept;

  static constexpr std::uint64_t kSmallBlocks = 64 << 20, kLargeBlocks = 32 << 20;
  static constexpr std::size_t kLarge = 64 << 10;

 private:
  friend class HeapCharge;
  bool admit(std::size_t bytes) noexcept;
  bool fits(std::uint64_t more, std::uint64_t beyond) const noexcept;
  bool wait_for_room(std::size_t bytes) const noexcept;
  std::int64_t freed() const noexcept;

  const std::shared_ptr<MemoryAccount> account_;
  const std::size_t slot_;
  std::atomic<std::int64_t> paid_ = 0;     // charged to the account
  std::atomic<std::int64_t> checked_ = 0;  // paid_ at the last check()
  std::atomic<std::int64_t> peak_ = 0;     // the most that was charged since charge_holes()
  std::atomic<std::int64_t> held_ = 0;     // with its holes; 0: it pays for none
  std::atomic<bool> refused_ = false;
  HeapAccount* next_ = nullptr;  // of all heap accounts
};

/// Charges the calling thread's `new` to a heap account while it lives; null: to none.
class HeapScope {
 public:
  explicit HeapScope(HeapAccount* account) : before_(std::exchange(HeapAccount::of_thread(), account)) {}
  ~HeapScope() { HeapAccount::of_thread() = before_; }
  HeapScope(const HeapScope&) = delete;
  HeapScope& operator=(const HeapScope&) = delete;

 private:
  HeapAccount* const before_;
};

/// Charges what a C library keeps, with a malloc of its own, to the calling thread's heap account as a block of so many
/// bytes would be, until its end. Throws std::bad_alloc where the budget lends no more.
class HeapCharge {
 public:
  explicit HeapCharge(std::size_t bytes);
  ~HeapCharge();
  HeapCharge(const HeapCharge&) = delete;
  HeapCharge& operator=(const HeapCharge&) = delete;

 private:
  std::size_t bytes_ = 0, slot_ = 0;  // 0 bytes: it is charged to nobody
  std::uint64_t number_ = 0;
};

}  // namespace echotrain::numerics
