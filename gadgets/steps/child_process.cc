#include "gadgets/steps/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "gadgets/api/errors.h"

namespace echotrain {
namespace {

/// The variables of this process' environment that a child sees.
constexpr std::array kVariables{"PATH",   "HOME", "LANG", "LC_ALL",          "LC_CTYPE",
                                "TMPDIR", "TZ",   "USER", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"};

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = more;
  for (const char* name : kVariables)
    if (const char* value = std::getenv(name)) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));  // posix_spawn changes nothing
  out.push_back(nullptr);
  return out;
}

void limit(pid_t process, __rlimit_resource what, const char* name, std::uint64_t most, std::uint64_t beyond = 0) {
  const rlimit bound{most, most + beyond};
  if (::prlimit(process, what, &bound, nullptr) != 0 && errno != ESRCH)
    throw ResourceError(
        fmt::format("a step's process cannot be given the limit {} of {}: {}", most, name, std::strerror(errno)));
}

/// The hard limit of a process that this one starts.
std::uint64_t hard_limit(__rlimit_resource what) {
  rlimit bound{};
  return ::getrlimit(what, &bound) == 0 ? bound.rlim_max : RLIM_INFINITY;
}

/// Undoes an ignored SIGCHLD: the kernel would forget how children end.
void hear_of_children() {
  struct sigaction action {};
  if (::sigaction(SIGCHLD, nullptr, &action) != 0) return;
  if (action.sa_handler != SIG_IGN && (action.sa_flags & SA_NOCLDWAIT) == 0) return;
  action = {};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, nullptr);
}

/// The actions of posix_spawn, freed in the end.
struct SpawnPlan {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnPlan() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

}  // namespace

std::vector<std::string> fit(ChildLimits& limits) {
  std::vector<std::string> lowered;
  if (const std::uint64_t most = hard_limit(RLIMIT_DATA); most < limits.memory_bytes) {
    lowered.push_back(fmt::format("this machine allows {} MiB of memory (RLIMIT_DATA), not the {} of python_memory_mib",
                                  most >> 20, limits.memory_bytes >> 20));
    limits.memory_bytes = most;
  }
  if (const std::uint64_t most = hard_limit(RLIMIT_NOFILE); most < static_cast<std::uint64_t>(limits.files)) {
    lowered.push_back(fmt::format("this machine allows {} open files (RLIMIT_NOFILE), not the {} of python_files", most,
                                  limits.files));
    limits.files = static_cast<std::int64_t>(most);
  }
  if (const std::uint64_t most = hard_limit(RLIMIT_CPU); most < static_cast<std::uint64_t>(limits.cpu_s)) {
    lowered.push_back(fmt::format("this machine allows {} s of CPU time (RLIMIT_CPU), not the {} of python_cpu_s", most,
                                  limits.cpu_s));
    limits.cpu_s = static_cast<std::int64_t>(most);
  }
  return lowered;
}

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& variables,
                           int output, const std::vector<int>& descriptors, const ChildLimits& limits,
                           OwnDescriptor lifeline, std::optional<StepBox> box)
    : box_(std::move(box)), limits_(limits), lifeline_(std::move(lifeline)) {
  hear_of_children();
  SpawnPlan plan;
  // Descriptors are copied to numbers above those that the child gets, so that no dup2() overwrites a descriptor that a
  // later one needs.
  std::vector<OwnDescriptor> copies;
  const auto above = [&](int descriptor) {
    copies.emplace_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, 64));
    if (copies.back().get() < 0)
      throw ResourceError(fmt::format("no descriptor is left for a step's process: {}", std::strerror(errno)));
    return copies.back().get();
  };
  posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  const int lines = above(output);
  posix_spawn_file_actions_adddup2(&plan.actions, lines, 1);
  posix_spawn_file_actions_adddup2(&plan.actions, lines, 2);
  int next = 3;
  for (const int descriptor : descriptors) posix_spawn_file_actions_adddup2(&plan.actions, above(descriptor), next++);
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, next);

  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&plan.attributes, &none);
  posix_spawnattr_setsigdefault(&plan.attributes, &all);
  posix_spawnattr_setpgroup(&plan.attributes, 0);
  posix_spawnattr_setflags(&plan.attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  const std::vector<std::string> environment = environment_with(variables);
  const int error = ::posix_spawnp(&process_, arguments[0].c_str(), &plan.actions, &plan.attributes,
                                   pointers(arguments).data(), pointers(environment).data());
  if (error != 0) throw ResourceError(fmt::format("'{}' cannot be started: {}", arguments[0], std::strerror(error)));
  try {
    const auto cpu_s = static_cast<std::uint64_t>(limits.cpu_s);
    limit(process_, RLIMIT_DATA, "memory", limits.memory_bytes);
    limit(process_, RLIMIT_NOFILE, "open files", static_cast<std::uint64_t>(limits.files));
    // SIGXCPU comes a second before the end, and tells the reason.
    const bool at_most = hard_limit(RLIMIT_CPU) <= cpu_s && cpu_s > 1;
    limit(process_, RLIMIT_CPU, "CPU time", at_most ? cpu_s - 1 : cpu_s,
          hard_limit(RLIMIT_CPU) > cpu_s || at_most ? 1 : 0);
    limit(process_, RLIMIT_CORE, "core files", 0);
    // A process that has ended gets nothing: SIGPIPE must not be raised for that.
    if (lifeline_.get() >= 0) ::send(lifeline_.get(), "", 1, MSG_NOSIGNAL);
  } catch (...) {
    kill();
    reap(true);
    throw;
  }
}

std::string ChildProcess::word() {
  std::string all;
  std::array<char, 4096> piece{};
  ssize_t n = 0;
  while ((n = ::recv(lifeline_.get(), piece.data(), piece.size(), MSG_DONTWAIT)) > 0)
    all.append(piece.data(), static_cast<std::size_t>(n));
  return all;
}

ChildProcess::~ChildProcess() {
  if (may_end_) ended(kToEnd);
  kill();
  reap(true);
}

void ChildProcess::kill() {
  if (lifeline_.get() >= 0) {
    lifeline_ = OwnDescriptor();
    if (ended(kToKill)) return;
  }
  // The group may hold more than its leader, which keeps its number until it is reaped.
  if (!reaped_) ::kill(-process_, SIGKILL);
}

bool ChildProcess::reap(bool wait) {
  if (reaped_) return true;
  // The leader stays a zombie, and its number taken, until its group is killed.
  siginfo_t info{};
  int result = 0;
  do result = ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT | (wait ? 0 : WNOHANG));
  while (result != 0 && errno == EINTR);
  if (result == 0 && info.si_pid == 0) return false;
  ::kill(-process_, SIGKILL);
  pid_t found = -1;
  do found = ::waitpid(process_, &status_, 0);
  while (found < 0 && errno == EINTR);
  unknown_ = found != process_;
  return reaped_ = true;
}

std::optional<std::string> ChildProcess::ended(std::chrono::milliseconds longest) {
  const auto until = std::chrono::steady_clock::now() + longest;
  while (!reap(false)) {
    if (std::chrono::steady_clock::now() >= until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (unknown_) return "has ended, and how is not known: something else in this program has waited for it";
  if (WIFEXITED(status_)) return fmt::format("has ended with exit code {}", WEXITSTATUS(status_));
  if (WTERMSIG(status_) == SIGXCPU) return fmt::format("has used more than its {} s of CPU time", limits_.cpu_s);
  return fmt::format("was ended by signal {} ({})", WTERMSIG(status_), ::strsignal(WTERMSIG(status_)));
}

}  // namespace echotrain
