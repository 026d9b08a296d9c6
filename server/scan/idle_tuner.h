// A thread that makes later scans faster while no scan runs.
#pragma once

#include <memory>
#include <stop_token>
#include <thread>

#include "gadgets/numerics/core/resources.h"
#include "server/base/clock.h"
#include "server/scan/compute_pool.h"

namespace echotrain::server {

/// Calls tune_while_idle() (gadgets/shared/idle/idle_tuning.h) when no scan has had a place for `quiet`, until nothing
/// is left to do; stops it as soon as a scan gets a place. The thread goes after all others that compute.
class IdleTuner {
 public:
  static constexpr std::chrono::milliseconds kQuiet{500};
  IdleTuner(std::shared_ptr<numerics::Resources> resources, std::shared_ptr<ComputePool> compute,
            Clock::duration quiet = kQuiet);
  /// The server ends: a trial that runs stops, and none begins.
  void stop() { thread_.request_stop(); }
  /// What the thread shows of itself.
  const std::shared_ptr<numerics::Progress>& progress() const { return progress_; }

 private:
  void run(const std::stop_token& stop);

  const std::shared_ptr<numerics::Resources> resources_;
  const std::shared_ptr<ComputePool> compute_;
  const Clock::duration quiet_;
  const std::shared_ptr<numerics::Progress> progress_ = std::make_shared<numerics::Progress>();
  std::jthread thread_;  // last: everything else exists before it starts
};

}  // namespace echotrain::server
