// The memory budget: all memory that the program keeps, against one bound.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/numerics/core/numerics_errors.h"

namespace echotrain::numerics {

class Resources;

/// More memory is wanted than the budget has left. The text is for the client.
class OverBudget : public ResourceError {
 public:
  using ResourceError::ResourceError;
};

/// A keeper of memory that the program can do without: a cache, a pool. Called from any thread; neither member asks a
/// budget for memory.
class Evictable {
 public:
  Evictable() = default;
  virtual ~Evictable() = default;
  Evictable(const Evictable&) = delete;
  Evictable& operator=(const Evictable&) = delete;
  /// When the part that has been unused for longest was last used, by MemoryBudget::now(); 0: it is to go before all
  /// others. Nothing when all parts are in use.
  virtual std::optional<std::uint64_t> unused_since() const = 0;
  /// Frees that part and further unused ones, the longest unused first, until they have about `wanted` bytes.
  virtual void evict(std::uint64_t wanted) = 0;
};

/// An Evictable that keeps things for clients: what one client leaves does not drive out what others have left.
class ClientEvictable : public Evictable {
 public:
  /// The memory that is kept for one client, and its unused_since().
  struct Share {
    std::uint64_t bytes = 0;
    std::optional<std::uint64_t> unused_since;
  };
  using Shares = std::map<std::string, Share>;
  virtual Shares shares() const = 0;
  /// Does the same as evict(), with what is kept for this client.
  virtual void evict_of(const std::string& client, std::uint64_t wanted) = 0;
};

/// Adds up what all holders have: sessions, what is made for them, caches, pools. Counting is by atomics; only a
/// request that does not fit takes a lock. Thread-safe. Holders keep it alive.
class MemoryBudget {
 public:
  /// 0: no bound, all requests fit.
  explicit MemoryBudget(std::uint64_t bound_bytes = 0)
      : bound_(bound_bytes == 0 ? std::numeric_limits<std::uint64_t>::max() : bound_bytes) {}

  bool bounded() const { return bound_ != std::numeric_limits<std::uint64_t>::max(); }
  std::uint64_t bound() const { return bound_; }
  std::uint64_t used() const { return used_; }
  std::uint64_t left() const;

  /// Sets how much is not lent [bytes]: who borrows leaves as much.
  void keep(std::uint64_t bytes) { kept_ = bytes; }
  std::uint64_t kept() const { return kept_; }

  /// Takes `bytes`, where at least `leave` are left beside them. False: they do not fit, and nothing is taken.
  bool take_if_it_fits(std::uint64_t bytes, std::uint64_t leave = 0);
  /// Does the same, and drops unused objects where that makes it fit. Not to be called under a lock of an Evictable.
  bool take(std::uint64_t bytes, std::uint64_t leave = 0);
  /// Counts what is there already, whether it fits or not.
  void add(std::uint64_t bytes) noexcept { used_ += bytes; }
  void give(std::uint64_t bytes) noexcept { used_ -= bytes; }
  /// Drops unused objects, the longest unused first, until `bytes` fit or none is left. Where that was kept for a
  /// client, something of the client for whom most is kept is dropped in its place. False: they do not fit.
  bool make_room(std::uint64_t bytes);
  /// Asks whoever calls grant_wishes(), another thread, for make_room(bytes).
  void wish(std::uint64_t bytes) noexcept { wish_ = bytes; }
  /// Makes the room that was asked for since the last call, and room for what is used beyond the bound.
  void grant_wishes();
  /// Drops all unused objects, because the machine has no more memory.
  void evict_unused();

  /// A clock that orders uses.
  std::uint64_t now() { return ++clock_; }
  /// From add_evictable() to remove_evictable(), make_room() may call `what`. When remove_evictable() returns, it calls
  /// it no more.
  void add_evictable(Evictable& what);
  void remove_evictable(Evictable& what);

 private:
  bool evict_next(std::uint64_t wanted);
  Evictable* longest_unused();

  const std::uint64_t bound_;
  std::atomic<std::uint64_t> used_ = 0;
  std::atomic<std::uint64_t> clock_ = 0;
  std::atomic<std::uint64_t> wish_ = 0;
  std::recursive_mutex mutex_;  // what is dropped may hold what is withdrawn
  std::vector<Evictable*> evictable_;
  std::atomic<std::uint64_t> kept_ = 0;
};

/// The account of one holder, such as a session: its memory and its reservation of a budget. Use within the reservation
/// always fits; use beyond it is borrowed from what is left and not kept. Thread-safe.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}
  ~MemoryAccount();  ///< gives everything back
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  /// Reserves `bytes` in all. False: they do not fit, and the reservation is as before. Less always fits. For one
  /// thread.
  bool reserve(std::uint64_t bytes);
  std::uint64_t reserved() const { return reserved_; }
  std::uint64_t used() const;
  /// Returns the bytes used beyond the reservation.
  std::uint64_t borrowed() const;

  /// Returns the bytes of the reservation that nobody uses.
  std::uint64_t unused() const;
  /// True if it borrows more than an account may borrow even of the kept part, or would with `more` bytes.
  bool beyond_grace(std::uint64_t more = 0) const;

  /// Throws OverBudget when `bytes` do not fit, and nothing is taken.
  void take(std::uint64_t bytes);
  /// Counts what is there already, whether it fits or not.
  void add(std::uint64_t bytes) noexcept;
  void give(std::uint64_t bytes) noexcept;
  /// Throws OverBudget when this holder borrows and more is taken than the budget lends.
  void check();

  const std::shared_ptr<MemoryBudget>& budget() const { return budget_; }

 private:
  std::int64_t move(std::int64_t bytes) noexcept;
  [[noreturn]] void refuse() const;

  const std::shared_ptr<MemoryBudget> budget_;
  std::atomic<std::int64_t> balance_ = 0;  // used minus reserved: what is above zero is borrowed
  std::atomic<std::uint64_t> reserved_ = 0;
};

/// A part of an account that its holder sets, given back at its end. Belongs to one thread, or is guarded by its
/// holder's lock.
class MemoryShare {
 public:
  explicit MemoryShare(std::shared_ptr<MemoryAccount> account = nullptr) : account_(std::move(account)) {}
  ~MemoryShare() { set(0); }
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;
  /// Sets the bytes that the holder has now, even if they do not fit.
  void set(std::uint64_t bytes) noexcept;
  /// Sets the bytes that the holder will have. Throws OverBudget when they do not fit.
  void grow_to(std::uint64_t bytes);
  std::uint64_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<MemoryAccount> account_;  // null: not counted
  std::uint64_t bytes_ = 0;
};

/// Frees the large blocks that arrays of the CPU backend have released and that no context of these resources has used
/// since the previous call. Call it at regular intervals: it then frees a block after one to two intervals without use.
/// Returns whether anything was freed. Thread-safe.
bool free_unused_blocks(Resources& resources);

}  // namespace echotrain::numerics
