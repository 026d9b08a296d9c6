// Completion callbacks: functions that are called when a stream's work is done.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "gadgets/numerics/core/cuda/completion_poller.h"
#include "gadgets/numerics/core/cuda/stream.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"

namespace echotrain::numerics::cuda {

/// A Flag holds functions until a number in host memory rises, which the stream's work raises when it gets there.
class CompletionFlag final : public CompletionPoller::Source {
 public:
  /// `raised` is pinned memory that must live until close().
  explicit CompletionFlag(std::uint64_t* raised) : raised_(raised) { *raised = 0; }
  void add(cudaStream_t work, std::function<void()> done);
  bool poll() noexcept override;
  /// Drops the functions that still wait.
  void close() noexcept;

 private:
  std::recursive_mutex calls_;  // held while functions are called, in their order; one of them may lead to close()
  volatile std::uint64_t* raised_;
  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::deque<std::pair<std::uint64_t, std::function<void()>>> waiting_;
  std::atomic<std::size_t> count_ = 0;  // the number of functions
};

/// Calls back from a stream of its own, so that the device need not wait for the host; or, where `polled` is given,
/// from the thread that polls, which needs no thread of CUDA's. The device must be current whenever one of these
/// functions is called. Not thread-safe except in_one().
class Callbacks {
 public:
  /// `raised` is pinned memory for `polled`; it must outlive this.
  Callbacks(std::shared_ptr<CompletionPoller> polled, std::uint64_t* raised);
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  /// Calls `done`, on a thread of CUDA's or on the polling thread, once the work that is now on `work` is done.
  void add(cudaStream_t work, std::function<void()> done);
  /// Waits for all callbacks. The streams' work is done already.
  void wait();
  /// True while this thread runs a callback, where no CUDA call is allowed.
  static bool in_one();

 private:
  Stream stream_;
  Event reached_;  // the point that the work's stream must reach before the next callback
  const std::shared_ptr<CompletionPoller> polled_;
  std::shared_ptr<CompletionFlag> flag_;  // null: not polled
};

}  // namespace echotrain::numerics::cuda
