// Functions that are called when a stream's work is done.
#pragma once

#include <functional>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/cuda/stream.cuh"

namespace echotrain::numerics::cuda {

/// Calls back from a stream of its own, so that the device need not wait for the host. The device must be current
/// whenever one of these functions is called. Not thread-safe except in_one().
class Callbacks {
 public:
  Callbacks() = default;
  ~Callbacks() { cudaStreamSynchronize(stream_.get()); }
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  /// Calls `done`, on a thread of CUDA's, once the work that is now on `work` is done.
  void add(cudaStream_t work, std::function<void()> done);
  /// Waits for all callbacks.
  void wait() { check(cudaStreamSynchronize(stream_.get()), "waiting for the device"); }
  /// True while this thread runs a callback, where no CUDA call is allowed.
  static bool in_one();

 private:
  Stream stream_;
  Event reached_;  // how far the work's stream must be before the next callback
};

}  // namespace echotrain::numerics::cuda
