#include "server/health/canary.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>

#include "server/base/log.h"

namespace echotrain::server {

namespace {

constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::seconds kToBeKilled{5};  // a process inside a driver may not end even then

/// The end of a child: its status, or in words why it has none.
struct Ended {
  int status = -1;
  std::string why{};
};

/// Starts a process with this one's environment and none of its descriptors, signals as by default. Zero: `error` says
/// why not.
pid_t start(const std::vector<std::string>& command, int& error) {
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));  // nobody changes it
  arguments.push_back(nullptr);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = 0;
  error = ::posix_spawn(&child, command[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error == 0 ? child : 0;
}

/// Looks again and again until the child has ended, `until` has passed or `stop` is requested.
std::optional<Ended> wait_for(pid_t child, Clock::time_point until, const std::stop_token& stop) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) return Ended{-1, std::strerror(errno)};
    if (ended == child && WIFEXITED(status)) return Ended{WEXITSTATUS(status)};
    if (ended == child) return Ended{-1, fmt::format("it was killed by signal {}", WTERMSIG(status))};
    if (Clock::now() > until || stop.stop_requested()) return std::nullopt;
    std::this_thread::sleep_for(kLook);
  }
}

Ended run(const std::vector<std::string>& command, Clock::duration most, const std::stop_token& stop) {
  int error = 0;
  const pid_t child = start(command, error);
  if (child == 0) return {-1, fmt::format("{} cannot be started: {}", command[0], std::strerror(error))};
  if (const auto ended = wait_for(child, Clock::now() + most, stop)) return *ended;
  ::kill(child, SIGKILL);
  wait_for(child, Clock::now() + kToBeKilled, {});
  return {-1, fmt::format("it did not end within {} s", std::chrono::duration<double>(most).count())};
}

}  // namespace

void Canary::use(std::vector<std::string> program) {
  const std::scoped_lock lock(mutex_);
  program_ = std::move(program);
}

void Canary::scan_succeeded(const std::vector<int>& devices) {
  const std::scoped_lock lock(mutex_);
  for (const int device : devices) failures_[device] = 0;
}

void Canary::scan_failed(const std::vector<int>& devices, const std::string& why) {
  const std::scoped_lock lock(mutex_);
  std::vector<int> suspects;
  for (const int device : devices)
    if (++failures_[device] >= kFailures) suspects.push_back(device);
  if (suspects.empty() || asking_ || program_.empty() || Clock::now() < next_) return;
  next_ = Clock::now() + times_.pause;
  std::vector<std::string> command = program_;
  for (const int device : suspects) {
    failures_[device] = 0;
    command.push_back(std::to_string(device));
  }
  const std::string failed =
      fmt::format("{} scans in a row have failed on GPU {} ({})", kFailures, fmt::join(suspects, " and "), why);
  try {
    thread_ = std::jthread([this, command, failed](const std::stop_token& stop) {
      ask(command, failed, stop);
      const std::scoped_lock end(mutex_);
      asking_ = false;
    });
    asking_ = true;  // the thread cannot have got to its end: that needs the lock
  } catch (const std::system_error& error) {
    write_log(LogLevel::error, fmt::format("{}; no new process can try: {}", failed, error.what()));
  }
}

void Canary::ask(const std::vector<std::string>& command, const std::string& failed, const std::stop_token& stop) {
  const Ended ended = run(command, times_.most, stop);
  if (stop.stop_requested()) return;
  if (ended.status == kBroken)
    readiness_->break_down(fmt::format("a GPU is lost: {}, and a new process cannot use it either", failed));
  else if (ended.status == kWorks)
    write_log(LogLevel::warning, failed + "; it works for a new process");
  else
    write_log(LogLevel::warning,
              fmt::format("{}; whether it works is not known: {}", failed,
                          ended.status < 0 ? ended.why
                                           : fmt::format("a new process could not tell (status {})", ended.status)));
}

void Canary::stop() {
  std::jthread last;  // joined without the lock
  const std::scoped_lock lock(mutex_);
  program_.clear();
  thread_.request_stop();
  last = std::move(thread_);
}

}  // namespace echotrain::server
