// The CPU threads that kernels of all scans share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <utility>

#include "gadgets/numerics/core/numerics_errors.h"
#include "gadgets/numerics/core/progress.h"

namespace echotrain::numerics {

/// A Yield lends a thread its core, and is told of places where the thread can pause.
class Yield {
 public:
  virtual ~Yield() = default;
  /// The thread may wait here before it goes on: it holds no lock that others need at once. Called often.
  virtual void look() = 0;
  /// The thread is about to wait for something else. It calls look() afterwards.
  virtual void rest() = 0;
  /// The Yield of the calling thread; null: nobody lends it a core.
  static Yield*& of_thread();
};

/// While it lives, the calling thread keeps its core, because others wait for its result, or because it measures times.
class NoYieldScope {
 public:
  NoYieldScope() : before_(std::exchange(Yield::of_thread(), nullptr)) {}
  ~NoYieldScope() { Yield::of_thread() = before_; }
  NoYieldScope(const NoYieldScope&) = delete;
  NoYieldScope& operator=(const NoYieldScope&) = delete;

 private:
  Yield* const before_;
};

/// The time for which a pool's threads have helped a caller, or all callers of a group [s]; negative: not yet. Guarded
/// by the pool.
struct HelperTime {
  double seconds = -1;
  double least = 0;  ///< for a group: the time of its caller who was helped last
};

/// Thread-safe: several threads may ask for work at once. Threads are shared fairly: they help the caller whom they
/// have helped least, a caller being a ThreadPool object: each scan has its own. Callers of a group count as one
/// against others; the least helped of them comes first.
class ThreadPool {
 public:
  /// Throws ResourceError when so many threads cannot be started.
  explicit ThreadPool(int threads);
  /// Uses the same threads, for work that `stop` ends; `group` null: a caller of its own.
  ThreadPool(const ThreadPool& other, std::stop_token stop, std::shared_ptr<HelperTime> group = nullptr);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }
  /// Calls work(begin, end) for pieces that cover [0, n) and returns when all are done; the caller works too. Pieces
  /// have at least `grain` elements. The first exception thrown by a piece is thrown here. The assignment of pieces to
  /// threads is not fixed: work must give the same result for any split. Where work may be stopped, pieces are cut to
  /// some 5 ms, if that is more than `grain` elements, and check_stop() is called before each.
  void parallel_for(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& work);
  /// Throws Stopped when the work of this caller is to stop. Calls Yield::look() of the thread, and is a step of its
  /// Progress.
  void check_stop() const {
    if (Yield* const yield = Yield::of_thread()) yield->look();
    if (Progress* const progress = Progress::of_thread().get()) progress->step();
    if (stop_.stop_requested()) throw Stopped();
  }
  const std::stop_token& stop_token() const { return stop_; }

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  int size_;
  std::stop_token stop_;
  const std::shared_ptr<HelperTime> group_;
  HelperTime caller_time_;
};

/// Throws Stopped when work is to stop; checks once in many calls, for loops whose steps take little.
class StopCheck {
 public:
  explicit StopCheck(const std::stop_token& stop) : stop_(stop) {}
  explicit StopCheck(const ThreadPool& threads) : StopCheck(threads.stop_token()) {}
  void operator()() {
    if (++calls_ % kCalls != 0) return;
    if (Progress* const progress = Progress::of_thread().get()) progress->step();
    if (stop_.stop_requested()) throw Stopped();
  }

 private:
  static constexpr std::uint32_t kCalls = 1 << 14;
  const std::stop_token& stop_;
  std::uint32_t calls_ = 0;
};

/// The number of cores that this process may use: its affinity, and the quota of its container.
int usable_cores();

}  // namespace echotrain::numerics
