// QueueMemory counts how much of this machine's memory a session's queues and its scan hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <new>
#include <utility>

#include "gadgets/numerics/core/memory_budget.h"

namespace echotrain::server {

using numerics::OverBudget;

/// Adds up what waits in a session's queues, or in those of all captures: the Shares of their holders, which an account
/// of the one budget (`numerics::MemoryBudget`) pays for. Holders set their bytes, and a reader calls check() before it
/// takes more, so that bytes received between two calls can exceed the bound. Thread-safe.
///
/// Input that waits for the pipeline has an account of its own, without a reservation: what was reserved is for the
/// scan to work with, however much input has piled up meanwhile.
class QueueMemory {
 public:
  enum class Kind { kept, input };

  explicit QueueMemory(std::shared_ptr<numerics::MemoryAccount> account)
      : account_(std::move(account)), input_(std::make_shared<numerics::MemoryAccount>(account_->budget())) {}
  /// Makes an account of a budget of its own, of `bound_bytes`.
  explicit QueueMemory(std::uint64_t bound_bytes)
      : QueueMemory(std::make_shared<numerics::MemoryAccount>(std::make_shared<numerics::MemoryBudget>(bound_bytes))) {}

  const std::shared_ptr<numerics::MemoryAccount>& account() const { return account_; }
  const std::shared_ptr<numerics::MemoryAccount>& input() const { return input_; }
  std::uint64_t used() const { return used_; }
  /// Bytes held by the account plus queued input.
  std::uint64_t held() const { return account_->used() + input_->used(); }
  /// True if the held bytes exceed the reservation.
  bool borrows() const { return held() > account_->reserved(); }
  /// Throws OverBudget when the account borrows and the budget is exceeded.
  void check() const { account_->check(); }

  /// The part of one holder, given back at its end. It belongs to one thread, or is guarded by its holder's lock.
  class Share {
   public:
    explicit Share(std::shared_ptr<QueueMemory> memory = nullptr, Kind kind = Kind::kept)
        : memory_(std::move(memory)),
          share_(!memory_              ? nullptr
                 : kind == Kind::input ? memory_->input_
                                       : memory_->account_) {}
    ~Share() { set(0); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    /// Sets the bytes that the holder has now.
    void set(std::uint64_t bytes) {
      if (memory_) memory_->used_ += bytes - share_.bytes();  // unsigned numbers wrap: this may subtract
      share_.set(bytes);
    }
    std::uint64_t bytes() const { return share_.bytes(); }

   private:
    const std::shared_ptr<QueueMemory> memory_;  // null: not counted
    numerics::MemoryShare share_;
  };

 private:
  const std::shared_ptr<numerics::MemoryAccount> account_, input_;
  std::atomic<std::uint64_t> used_ = 0;
};

/// Things of a queue that nobody wants any more. They count until they are freed, which takes long where they are many
/// and small.
template <class Thing>
struct Unwanted {
  QueueMemory::Share share;
  std::list<Thing> things;  // go first

  /// Returns null without memory: then they have to be freed where they are.
  static std::shared_ptr<Unwanted> make(const std::shared_ptr<QueueMemory>& memory, QueueMemory::Kind kind) noexcept {
    try {
      return std::shared_ptr<Unwanted>(new Unwanted{QueueMemory::Share(memory, kind), {}});
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
};

/// Sets a few MiB aside for the whole process. They are freed when an allocation first fails: one that is too big for
/// them still throws std::bad_alloc, but the small ones that it takes to end that session in order (coroutines, texts,
/// the log) succeed. Also makes the allocator give large blocks back to the machine whenever they are freed, which it
/// otherwise stops doing with time.
void fill_emergency_reserve();
/// Fills the reserve up again. Thread-safe.
void refill_emergency_reserve();

}  // namespace echotrain::server
