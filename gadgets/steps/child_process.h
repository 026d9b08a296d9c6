// A ChildProcess is one process of another program, with limits, which never outlives its holder or this process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/steps/step_box.h"
#include "gadgets/steps/stream_peer.h"

namespace echotrain {

/// The limits of the process, soft and hard (setrlimit(2)).
struct ChildLimits {
  std::uint64_t memory_bytes = 0;  ///< private memory that it may write (RLIMIT_DATA)
  std::int64_t files = 0;
  std::int64_t cpu_s = 0;
};

/// Lowers limits that this process cannot give, because its own hard limits are lower. Returns a line for each: "this
/// machine allows 200 open files, not the 256 of python_files".
std::vector<std::string> fit(ChildLimits& limits);

/// Runs a process that leads a group of its own, which ends with it. A program that must also end other sessions and
/// groups is told by a lifeline. The process inherits only the descriptors given here, and of the environment only the
/// search paths, the locale and the like.
class ChildProcess {
 public:
  /// Starts `arguments[0]`, looked up in PATH, with stdin empty, stdout and stderr as `output`, and `descriptors` as
  /// its descriptors 3, 4, ... `variables`: "NAME=value". Throws ResourceError when it cannot be started. Where this
  /// program was started with SIGCHLD ignored, that is undone: no one could learn how a process has ended. `lifeline`
  /// is the other end of a socket among `descriptors`, or nothing. A byte in it tells that the limits hold; its end,
  /// that the process has kToKill to end all processes that it has started. `box` is held until the process has ended.
  ChildProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& variables, int output,
               const std::vector<int>& descriptors, const ChildLimits& limits, OwnDescriptor lifeline = {},
               std::optional<StepBox> box = {});
  /// Gives it kToEnd to end by itself if it `may_end()`, then kills and reaps it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Returns how it ended, as a sentence without a subject; no value while it runs. Waits for `longest` at most.
  std::optional<std::string> ended(std::chrono::milliseconds longest = {});
  /// Returns what it has written to the lifeline since the last call.
  std::string word();
  /// Says that the process is expected to end by itself from now on.
  void may_end() { may_end_ = true; }
  /// Ends the lifeline and waits, for kToKill at most; then kills the group.
  void kill();

  static constexpr std::chrono::milliseconds kToEnd{200}, kToKill{200};

 private:
  bool reap(bool wait);

  const std::optional<StepBox> box_;  // its folder is removed in the end
  const ChildLimits limits_;
  OwnDescriptor lifeline_;
  pid_t process_ = -1;
  bool may_end_ = false, reaped_ = false, unknown_ = false;  // unknown: how it ended
  int status_ = 0;
};

}  // namespace echotrain
