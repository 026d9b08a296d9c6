// The forced exit ends a process that does not end by itself in time.
#pragma once

#include <chrono>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace echotrain::server {

/// Runs on a thread of its own, because what hangs may be any other. Thread-safe.
class ForcedExit {
 public:
  /// Ends the process after `time`, unless disarm() comes first, with this status and without any destructor. The log
  /// gets what `what_hangs` says.
  void arm(
      std::chrono::steady_clock::duration time, std::function<std::string()> what_hangs,
      std::function<int()> status = [] { return EXIT_FAILURE; });
  void disarm();

 private:
  std::mutex mutex_;
  std::jthread thread_;
};

}  // namespace echotrain::server
