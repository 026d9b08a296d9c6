#include "gadgets/steps/python_peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "gadgets/api/errors.h"
#include "gadgets/steps/runner_text.h"

namespace echotrain {
namespace {

constexpr std::chrono::milliseconds kForStatus{300};  // time that a process may take to end after its socket

[[noreturn]] void no_process(const char* what) {
  throw ResourceError(fmt::format("no process can be started for a python step: {}: {}", what, std::strerror(errno)));
}

/// Makes a file in memory that holds the runner's source.
OwnDescriptor runner_file() {
  OwnDescriptor file(::memfd_create("echotrain_runner", MFD_CLOEXEC));
  if (file.get() < 0) no_process("memfd_create");
  const std::string_view text = kRunnerText;
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) no_process("write");
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

bool anybody_may_change(const std::filesystem::path& place) {
  std::error_code error;
  const auto allowed = std::filesystem::status(place, error).permissions();
  return error || (allowed & std::filesystem::perms::others_write) != std::filesystem::perms::none;
}

std::vector<std::string> modules_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".py") names.push_back(entry.path().stem().string());
    if (std::filesystem::exists(entry.path() / "__init__.py", error)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::filesystem::path find_module(const std::filesystem::path& folder, const std::string& name) {
  if (folder.empty())
    throw ClientError(
        fmt::format("python: module '{}' cannot be run: this program has no folder of modules (option "
                    "python_modules)",
                    name));
  std::error_code error;
  const std::filesystem::path home = std::filesystem::canonical(folder, error);
  if (error)
    throw ClientError(
        fmt::format("python: the folder of modules (option python_modules) cannot be read: {}", error.message()));
  for (const std::filesystem::path& file : {home / (name + ".py"), home / name / "__init__.py"}) {
    const std::filesystem::path real = std::filesystem::canonical(file, error);
    if (error || !std::filesystem::is_regular_file(real, error)) continue;
    const auto [end, rest] = std::mismatch(home.begin(), home.end(), real.begin(), real.end());
    if (end == home.end()) {
      for (const std::filesystem::path& place : {home, real.parent_path(), real})
        if (anybody_may_change(place))
          throw ClientError(
              fmt::format("python: module '{}' is not run, because every user of this machine may change it "
                          "(chmod o-w the folder of modules and what is in it)",
                          name));
      return real;
    }
    throw ClientError(fmt::format("python: module '{}' is a link out of the folder of modules, and is not run", name));
  }
  const std::vector<std::string> names = modules_in(home);
  throw ClientError(fmt::format("python: the folder of modules has no module '{}'; it has {}", name,
                                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

PythonPeer::PythonPeer(const StepSettings& settings, const PythonStart& start, const PeerScan& scan) {
  const std::filesystem::path file = find_module(settings.modules, start.module);
  std::array<int, 2> pair{}, pipe{}, lifeline{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) no_process("socketpair");
  OwnDescriptor ours(pair[0]), theirs(pair[1]);
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) no_process("pipe2");
  OwnDescriptor lines(pipe[0]), output(pipe[1]);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lifeline.data()) != 0) no_process("socketpair");
  const OwnDescriptor watched(lifeline[0]);
  OwnDescriptor held(lifeline[1]);
  const OwnDescriptor runner = runner_file();
  // A large buffer spares the two processes many changes of context.
  const int bytes = 1 << 20;
  for (const int number : pair) ::setsockopt(number, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);

  const std::string threads = std::to_string(start.threads);
  std::vector<std::string> variables;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
    variables.push_back(fmt::format("{}={}", name, threads));
  // Arguments are visible to all users of the machine; variables are not.
  variables.push_back(fmt::format("ECHOTRAIN_STEP_CONFIG={}", start.config.empty() ? start.module : start.config));
  // Isolated (-I): neither variables nor the user's own packages change what is imported.
  const std::vector<std::string> arguments{settings.python,
                                           "-I",
                                           "-B",
                                           "-u",
                                           "/dev/fd/4",
                                           std::filesystem::canonical(settings.modules).string(),
                                           start.module,
                                           file.string(),
                                           start.function};
  auto child = std::make_unique<ChildProcess>(
      arguments, variables, output.get(), std::vector<int>{theirs.get(), runner.get(), watched.get()},
      ChildLimits{settings.memory_bytes, settings.files, settings.cpu_s}, std::move(held));
  stream_ = std::make_unique<StreamPeer>(std::move(ours), std::move(lines), scan);
  child_ = std::move(child);
}

std::optional<protocol::Message> PythonPeer::receive() {
  auto message = stream_->receive();
  if (message && std::holds_alternative<protocol::Close>(*message)) child_->may_end();
  return message;
}

std::optional<std::string> PythonPeer::end() {
  const auto why = stream_->end();
  if (!why) {
    // The processes that the module has started end with it, so that none keeps its socket open.
    if (!how_) how_ = child_->ended();
    return std::nullopt;
  }
  if (stream_->broken()) return why;
  if (!how_) how_ = child_->ended(kForStatus);
  return how_ ? how_ : why;
}

std::vector<std::string> PythonPeer::last_lines() {
  child_->kill();
  return stream_->last_lines();
}

}  // namespace echotrain
