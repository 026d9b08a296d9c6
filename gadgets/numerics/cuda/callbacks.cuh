// Functions that are called when a stream's work is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/cuda/completions.h"
#include "gadgets/numerics/cuda/stream.cuh"

namespace echotrain::numerics::cuda {

/// Functions that wait for a number in host memory to rise, which the stream's work does when it gets there.
class Flag final : public Completions::Source {
 public:
  /// `raised`: pinned memory, which close() has to precede the end of.
  explicit Flag(std::uint64_t* raised) : raised_(raised) { *raised = 0; }
  void add(cudaStream_t work, std::function<void()> done);
  bool poll() noexcept override;
  /// Drops what is still waited for.
  void close() noexcept;

 private:
  std::recursive_mutex calls_;  // held while functions are called, in their order; one of them may lead to close()
  volatile std::uint64_t* raised_;
  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::deque<std::pair<std::uint64_t, std::function<void()>>> waiting_;
  std::atomic<std::size_t> count_ = 0;  // of them
};

/// Calls back from a stream of its own, so that the device need not wait for the host; or, where `polled` is given,
/// from there, which takes no thread of CUDA's. The device must be current whenever one of these functions is called.
/// Not thread-safe except in_one().
class Callbacks {
 public:
  /// `raised`: pinned memory for `polled`, until this is gone.
  Callbacks(std::shared_ptr<Completions> polled, std::uint64_t* raised);
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  /// Calls `done`, on a thread of CUDA's or of whoever polls, once the work that is now on `work` is done.
  void add(cudaStream_t work, std::function<void()> done);
  /// Waits for all callbacks. The streams' work is done already.
  void wait();
  /// True while this thread runs a callback, where no CUDA call is allowed.
  static bool in_one();

 private:
  Stream stream_;
  Event reached_;  // how far the work's stream must be before the next callback
  const std::shared_ptr<Completions> polled_;
  std::shared_ptr<Flag> flag_;  // null: not polled
};

}  // namespace echotrain::numerics::cuda
