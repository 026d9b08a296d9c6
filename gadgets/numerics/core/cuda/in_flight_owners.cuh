// The owners of memory that enqueued work reads, kept until the work is done.
#pragma once

#include <cuda_runtime.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "gadgets/numerics/core/context.h"
#include "gadgets/numerics/core/cuda/event_pool.cuh"

namespace echotrain::numerics::cuda {

/// The owners of one context, in its cache. Owners are released when the device has got past the work that was enqueued
/// before them: at the next call, or when the context ends, as nobody is woken for it. For the context's own thread.
class InFlightOwners {
 public:
  using Owners = std::vector<std::shared_ptr<const void>>;

  InFlightOwners() = default;
  ~InFlightOwners() { drop_all(); }
  InFlightOwners(const InFlightOwners&) = delete;
  InFlightOwners& operator=(const InFlightOwners&) = delete;

  /// Keeps `owners` until the work that is now on the context's stream is done.
  void add(Context& context, Owners owners);

 private:
  void drop_all() noexcept;
  void drop_first() noexcept;

  struct Kept {
    cudaEvent_t done = nullptr;
    int device = 0;  // the device of `done`
    Owners owners;
  };
  std::shared_ptr<EventPool> events_;
  std::deque<Kept> kept_;  // in the order of the stream
};

}  // namespace echotrain::numerics::cuda
