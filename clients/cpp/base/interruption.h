// An interruption is Ctrl-C, or SIGTERM, while a command has results that it must not lose.
#pragma once

#include <signal.h>

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

namespace echotrain::client {

/// While one lives, the first signal is only noted, and the second one ends the program. Signals that were ignored stay
/// ignored. At most one lives at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Returns the signal that has come; 0: none.
  static int signal();
  /// Returns the exit code that tells of the signal: 130 for Ctrl-C.
  static int status() { return 128 + signal(); }

 private:
  struct sigaction interrupt_ {};  // as they were
  struct sigaction terminate_ {};
};

/// Thrown by work that has been interrupted and has kept what it had. cli.cc turns it into an exit code.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(const std::string& what) : std::runtime_error(what), status_(Interruption::status()) {}
  int status() const { return status_; }

 private:
  int status_;
};

/// A stop token that is set soon after an interruption.
class InterruptionStop {
 public:
  InterruptionStop();
  ~InterruptionStop();
  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace echotrain::client
