// The canary is a new process that tries a GPU on which scans fail.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/health/readiness.h"

namespace echotrain::server {

/// Finds out whether a GPU is lost: most errors do not say so, nor which of several GPUs it is. When kFailures scans in
/// a row have failed by such errors, none of them for want of memory, a child process does a little work on each GPU
/// for which this is true (device_check.h). Where that fails too, readiness breaks down; else counting begins anew.
/// Only the child's own exit status counts: a child that is killed, cannot be started or does not end in time changes
/// nothing. Thread-safe.
class Canary {
 public:
  static constexpr int kFailures = 3;
  /// The child's exit statuses.
  static constexpr int kWorks = 0, kBroken = 83, kUnknown = 84;
  /// The option by which the program's own binary becomes the child; the devices' numbers follow it.
  static constexpr std::string_view kFlag = "--canary";

  struct Times {
    Clock::duration most = std::chrono::seconds(60);   ///< that a child may take
    Clock::duration pause = std::chrono::seconds(60);  ///< from one child to the next
  };
  explicit Canary(std::shared_ptr<Readiness> readiness) : Canary(std::move(readiness), Times()) {}
  Canary(std::shared_ptr<Readiness> readiness, Times times) : readiness_(std::move(readiness)), times_(times) {}

  /// Sets what to run; the devices' numbers follow it. Without it, no child is started.
  void use(std::vector<std::string> program);
  /// Counts a failure. `devices`: all that the scan used.
  void scan_failed(const std::vector<int>& devices, const std::string& why);
  void scan_succeeded(const std::vector<int>& devices);
  /// Ends the child that runs, if any, and starts no more.
  void stop();

 private:
  void ask(const std::vector<std::string>& command, const std::string& failed, const std::stop_token& stop);

  const std::shared_ptr<Readiness> readiness_;
  const Times times_;
  std::mutex mutex_;
  std::vector<std::string> program_;
  std::map<int, int> failures_;  // in a row, by device
  bool asking_ = false;
  Clock::time_point next_{};  // no child before
  std::jthread thread_;       // last: it uses the rest
};

}  // namespace echotrain::server
