// The end of a process that does not end by itself.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace echotrain::server {

/// A thread of its own, because what hangs may be any other. All members are called by one thread at a time.
class LastResort {
 public:
  /// Unless disarm() comes first: ends the process after `time`, with EXIT_FAILURE and without any destructor. The log
  /// gets what `what_hangs` says.
  void arm(std::chrono::steady_clock::duration time, std::function<std::string()> what_hangs);
  void disarm() { thread_ = {}; }

 private:
  std::jthread thread_;
};

}  // namespace echotrain::server
