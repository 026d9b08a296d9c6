// What all sessions together keep in this machine's memory, against one bound.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace echotrain::numerics {
class Resources;
}

namespace echotrain::server {

/// A session wants more memory while the bound is exceeded. The text is for the client.
class OverBudget : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Adds up what the sessions' Shares hold: messages being received, both queues, arrays of the CPU backend (arrays on a
/// device are bounded by the device). Holders say what they hold, and whoever wants more asks check() first, so what
/// the sessions take between two such calls can exceed the bound. Thread-safe.
class Memory {
 public:
  explicit Memory(std::uint64_t bound_bytes) : bound_(bound_bytes) {}
  /// A part of `whole`, whose bound is the one that counts: what is held here is held there too.
  explicit Memory(std::shared_ptr<Memory> whole) : bound_(whole->bound()), whole_(std::move(whole)) {}

  std::uint64_t bound() const { return bound_; }
  std::uint64_t used() const { return used_; }
  /// Throws OverBudget when more than the bound is in use.
  void check() const;

  /// The part of one holder, given back at its end. Belongs to one thread, or is guarded by its holder's lock.
  class Share {
   public:
    explicit Share(std::shared_ptr<Memory> memory = nullptr) : memory_(std::move(memory)) {}
    ~Share() { set(0); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    /// What the holder has now [bytes].
    void set(std::uint64_t bytes);
    std::uint64_t bytes() const { return bytes_; }

   private:
    const std::shared_ptr<Memory> memory_;  // null: nobody counts
    std::uint64_t bytes_ = 0;
  };

 private:
  // Unsigned numbers wrap, so that a difference below zero subtracts.
  void add(std::uint64_t difference);

  const std::uint64_t bound_;
  const std::shared_ptr<Memory> whole_;  // null: this is the whole
  std::atomic<std::uint64_t> used_ = 0;
};

/// Bytes of memory that this process may use: the machine's, or less where its control group (a container) has less.
std::uint64_t machine_memory();

/// Sets a few MiB aside for the time when there is no more: the first allocation that fails gets them, so that what is
/// too big still throws std::bad_alloc, and all the small things that it takes to end that session in order
/// (coroutines, texts, the log) do not. Filled up again by give_back_free_memory(). For the whole process.
void keep_memory_in_reserve();

/// Gives the heap's free pages back to the machine. To be called when a session has ended: the allocator keeps what
/// sessions have freed, scattered over the arenas of all threads, so that the process would grow for hours and never
/// shrink. Does nothing where it was done a moment ago, or some seconds ago if the server is not `idle`. Thread-safe.
void give_back_free_memory(bool idle);

/// Frees what ended sessions have left for later ones (receive buffers, large arrays of the CPU backend) if nobody has
/// used it since the previous call, and gives those pages back to the machine. Thread-safe.
void give_back_spare_memory(numerics::Resources& resources);

}  // namespace echotrain::server
