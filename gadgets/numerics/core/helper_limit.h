// A bound on how many of the CPU's threads help a scan.
#pragma once

#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {

/// A Yield that bounds how many of a pool's threads help its thread, and all others whose ThreadPool has the same
/// group, at once.
class HelperLimit : public Yield {
 public:
  /// Called from any thread while the helped thread is in parallel_for(). The value may change at any time: helpers
  /// look again after each of their steps.
  virtual int most_helpers() const = 0;
};

}  // namespace echotrain::numerics
