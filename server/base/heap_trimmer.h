// The heap trimmer gives memory that was freed back to the machine.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "gadgets/numerics/core/resources.h"
#include "server/base/clock.h"

namespace echotrain::server {

/// Decides when it is worth trimming the heap. Trimming makes a system call for each free page, takes some 100 ms in a
/// server with many sessions, and may hold up threads that allocate meanwhile.
class TrimPolicy {
 public:
  /// The process's resident memory, what it counts of that, and within which bound [bytes].
  struct Seen {
    Clock::time_point now;
    std::uint64_t resident = 0, counted = 0, bound = 0;
  };
  /// True if the heap should be trimmed now. `wanted`: much was freed, or no session would have to wait for it.
  bool worth_it(const Seen& seen, bool wanted);
  /// True if the process has so much more than its bound that it may pass what is promised.
  static bool is_short(const Seen& seen);
  /// Notes that the heap was trimmed. `seen`: what the process has now.
  void done(const Seen& seen);

 private:
  static std::uint64_t uncounted(const Seen& seen) {
    return seen.resident - (seen.counted < seen.resident ? seen.counted : seen.resident);
  }
  Clock::time_point last_{};   // when it was done
  std::uint64_t lasting_ = 0;  // uncounted memory that is no free page, as far as is known
};

/// Runs a thread that gives the heap's free pages back to the machine. The allocator keeps freed memory scattered over
/// the arenas of all threads, so that the process would otherwise grow for hours. Pages that stay because a few blocks
/// lie in them are charged to the scans whose blocks were freed (HeapAccount::charge_holes()), where memory is short.
/// Thread-safe.
class HeapTrimmer {
 public:
  explicit HeapTrimmer(std::shared_ptr<numerics::Resources> resources);
  ~HeapTrimmer();
  HeapTrimmer(const HeapTrimmer&) = delete;
  HeapTrimmer& operator=(const HeapTrimmer&) = delete;

  /// Notes that a session has ended; `idle`: no other one is left. Returns at once.
  void session_ended(bool idle);
  /// Asks the thread to free what ended sessions have left for later ones (receive buffers, large arrays of the CPU
  /// backend) if it was not used since the previous call. Returns at once.
  void free_unused();

 private:
  void run();
  void trim(bool unused);
  void charge_holes();
  TrimPolicy::Seen look() const;

  const std::shared_ptr<numerics::Resources> resources_;
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  TrimPolicy policy_;        // of the thread
  bool wanted_ = false;      // of the thread
  std::int64_t base_ = 0;    // of the thread: what the process has and nobody counts while there is no scan [bytes]
  std::uint64_t holes_ = 0;  // of the thread: charged to scans [bytes]
  bool half_full_ = false;   // of the thread: the process has half of the bound
  std::mutex mutex_;
  std::condition_variable wake_;
  bool idle_ = false, unused_ = false, stopping_ = false;
  std::thread thread_;  // last: everything else exists before it starts
};

}  // namespace echotrain::server
