// A stuck scan was given up because its thread does not come back.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "server/health/readiness.h"
#include "server/scan/compute_pool.h"
#include "server/scan/worker.h"

namespace echotrain::server {

/// Keeps the scans that are stuck. A thread or a kernel of a GPU cannot be ended, so such a scan keeps its memory and
/// its place until its thread ends after all. Thread-safe.
class StuckScans {
 public:
  StuckScans(std::shared_ptr<ComputePool> compute, std::shared_ptr<Readiness> readiness)
      : compute_(std::move(compute)), readiness_(std::move(readiness)) {}

  /// Takes a scan whose `worker` has been cancelled, with what it `holds` of memory and places.
  void add(std::unique_ptr<Worker> worker, std::shared_ptr<void> holds);
  /// Gives back the memory and places of scans whose threads have ended since. Call it now and then. Where every place
  /// of the CPU is lost (where places are unbounded: as many as there are cores) at two looks, readiness breaks down.
  void look();
  std::int64_t count(numerics::Backend backend) const;
  /// Waits for all of them, for as long as they take.
  void wait();

 private:
  struct Stuck {
    std::shared_ptr<void> holds;  // goes after the worker
    std::unique_ptr<Worker> worker;
    bool seen = false;  // at a look
  };
  const std::shared_ptr<ComputePool> compute_;
  const std::shared_ptr<Readiness> readiness_;
  mutable std::mutex mutex_;
  std::list<Stuck> scans_;
};

}  // namespace echotrain::server
