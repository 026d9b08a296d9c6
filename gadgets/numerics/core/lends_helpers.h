// How many of the CPU's threads may help whom.
#pragma once

#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {

/// A Yield that bounds how many of a pool's threads help its thread, and all others whose ThreadPool has the same
/// group, at once.
class LendsHelpers : public Yield {
 public:
  /// Called from any thread while the thread that it lends to is in parallel_for(). May change at any time: threads
  /// that help already look after each of their steps.
  virtual int most_helpers() const = 0;
};

}  // namespace echotrain::numerics
