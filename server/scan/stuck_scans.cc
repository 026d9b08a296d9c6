#include "server/scan/stuck_scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gadgets/numerics/core/thread_pool.h"
#include "server/base/log.h"

namespace echotrain::server {

void StuckScans::add(std::unique_ptr<Worker> worker, std::shared_ptr<void> holds) {
  const numerics::Backend backend = worker->backend();
  {
    const std::scoped_lock lock(mutex_);
    scans_.push_back({std::move(holds), std::move(worker)});
  }
  if (backend == numerics::Backend::cpu)
    write_log(LogLevel::error,
              fmt::format("a place on the CPU is lost until its scan comes back, {} in all", count(backend)));
}

void StuckScans::look() {
  std::list<Stuck> ended;  // destroyed without the lock
  std::int64_t stuck = 0;  // on the CPU, for longer than a thread takes to stop
  {
    const std::scoped_lock lock(mutex_);
    for (auto scan = scans_.begin(); scan != scans_.end();) {
      const auto next = std::next(scan);
      if (scan->worker->done())
        ended.splice(ended.end(), scans_, scan);
      else if (scan->worker->backend() == numerics::Backend::cpu)
        stuck += std::exchange(scan->seen, true) ? 1 : 0;
      scan = next;
    }
  }
  if (!ended.empty())
    write_log(LogLevel::warning,
              fmt::format("{} scans that were given up have come to their end after all, and their places are free",
                          ended.size()));
  if (stuck == 0) return;
  std::int64_t most = numerics::usable_cores();
  for (const Place& place : compute_->places())
    if (place.backend == numerics::Backend::cpu) most = std::min(most, place.capacity);
  if (stuck >= most) readiness_->break_down(fmt::format("{} scans hang on the CPU, and no place is left", stuck));
}

std::int64_t StuckScans::count(numerics::Backend backend) const {
  const std::scoped_lock lock(mutex_);
  return std::count_if(scans_.begin(), scans_.end(), [backend](const Stuck& scan) {
    return scan.worker->backend() == backend && !scan.worker->done();
  });
}

void StuckScans::wait() {
  std::list<Stuck> all;
  const std::scoped_lock lock(mutex_);
  all.swap(scans_);
}

}  // namespace echotrain::server
