// Threads that CPU kernels of all scans share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace echotrain::numerics {

/// Thread-safe: several threads may ask for work at once, and the pool serves them in turn.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  int size() const { return size_; }
  /// Calls work(begin, end) for pieces that cover [0, n) and returns when all are done; the caller works too. Pieces
  /// have at least `grain` elements. The first exception thrown by a piece is thrown here. Which thread takes which
  /// piece is not fixed: work must give the same result for any split.
  void parallel_for(std::int64_t n, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  int size_;
};

/// Cores that this process may use: its affinity, and the quota of its container.
int usable_cores();

}  // namespace echotrain::numerics
