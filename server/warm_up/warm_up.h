// The warm-up runs small scans after a server's start, so that the first real one finds everything loaded.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "server/session/environment.h"

namespace echotrain::server {

/// Loads what a first scan would wait for: CUDA's context and kernels, cuFFT's libraries and kernels, pinned memory,
/// pages of the program and of its libraries that are still on the disk. Every pipeline of the catalogue that takes 2D
/// readouts gets small scans of a few points (small_scans.h) on each of its places: those of the default pipeline
/// first, then one of each kind, then, on GPUs, transforms of likely lengths, then the others. Chains that are equal
/// are run once.
///
/// It works only while no scan has a place. When one gets a place, it breaks off its step, and repeats it when no scan
/// has a place again. Its memory is bounded, counts in the server's budget without a reservation, and is freed after
/// each step, but for what pools keep. It ends after `most_time` in all. Its thread goes after all others.
class WarmUp {
 public:
  static constexpr std::chrono::milliseconds kQuiet{50};      ///< without a scan, before it goes on
  static constexpr std::chrono::seconds kMostTime{60};        ///< of work
  static constexpr std::uint64_t kMostMemory = 512ull << 20;  ///< of a step's arrays

  /// One thing to do; its name is for logs.
  struct Step {
    std::string name;
    std::function<void(const std::stop_token&)> run;
  };
  /// Returns the steps of a server, in their order. `environment` must outlive them.
  static std::vector<Step> steps_of(const Environment& environment);

  /// Begins. `done` is called once, on the thread, after the last step or when there is no more time; not after a stop.
  WarmUp(std::shared_ptr<ComputePool> compute, std::vector<Step> steps, std::function<void()> done = {},
         Clock::duration most_time = kMostTime);
  /// Stops what runs, and begins nothing more: the server ends.
  void stop() { thread_.request_stop(); }
  /// Returns the thread's signs of life.
  const std::shared_ptr<numerics::Progress>& progress() const { return progress_; }

 private:
  void run(const std::stop_token& stop);

  const std::shared_ptr<ComputePool> compute_;
  const std::vector<Step> steps_;
  const std::function<void()> done_;
  const Clock::duration most_time_;
  const std::shared_ptr<numerics::Progress> progress_ = std::make_shared<numerics::Progress>();
  std::jthread thread_;  // last: everything else exists before it starts
};

}  // namespace echotrain::server
