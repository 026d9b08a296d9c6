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
#include "gadgets/steps/warm_modules.h"

namespace echotrain {
namespace {

constexpr std::size_t kMostFiles = 3;
constexpr std::chrono::milliseconds kForStatus{300};  // time that a process may take to end after its socket

[[noreturn]] void no_process(const char* what) {
  throw ResourceError(fmt::format("no process can be started for a python step: {}: {}", what, std::strerror(errno)));
}

OwnDescriptor memory_file(const char* name, std::string_view contents) {
  OwnDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0) no_process("memfd_create");
  if (::write(file.get(), contents.data(), contents.size()) != static_cast<ssize_t>(contents.size()))
    no_process("write");
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

/// Sends the length of the config with the files, and the config. Other users of the machine can see arguments and
/// variables, but not this. A process that has ended takes nothing, which whoever reads from it learns.
void give_start(int socket, const std::string& config, const std::vector<int>& files) {
  auto length = static_cast<std::uint32_t>(config.size());
  iovec part{&length, sizeof length};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostFiles)> control{};
  if (const std::size_t bytes = files.size() * sizeof(int); bytes > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(head), files.data(), bytes);
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) != sizeof length) return;
  for (std::size_t sent = 0; sent < config.size();) {
    const ssize_t n = ::send(socket, config.data() + sent, config.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
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

ModuleProcess spawn_module(const StepSettings& settings, const PythonStart& start,
                           const std::vector<std::string>& arguments, bool warm) {
  const std::filesystem::path file = find_module(settings.modules, start.module);
  std::array<int, 2> pair{}, pipe{}, lifeline{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0) no_process("socketpair");
  OwnDescriptor ours(pair[0]), theirs(pair[1]);
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) no_process("pipe2");
  OwnDescriptor lines(pipe[0]), output(pipe[1]);
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, lifeline.data()) != 0) no_process("socketpair");
  const OwnDescriptor watched(lifeline[0]);
  OwnDescriptor held(lifeline[1]);
  const OwnDescriptor runner = memory_file("echotrain_runner", kRunnerText);
  // A large buffer spares the two processes many changes of context.
  const int bytes = 1 << 20;
  for (const int number : pair) ::setsockopt(number, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);

  StepBox box(settings);
  const std::string threads = std::to_string(start.threads);
  std::vector<std::string> variables;
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"})
    variables.push_back(fmt::format("{}={}", name, threads));
  variables.push_back("ECHOTRAIN_STEP_BOX=" + box.json());
  if (warm) variables.emplace_back("ECHOTRAIN_STEP_WARM=1");
  // Isolated (-I): neither variables nor the user's own packages change what is imported.
  std::vector<std::string> all{settings.python,
                               "-I",
                               "-B",
                               "-u",
                               "/dev/fd/4",
                               std::filesystem::canonical(settings.modules).string(),
                               start.module,
                               file.string(),
                               start.function};
  all.insert(all.end(), arguments.begin(), arguments.end());
  auto child = std::make_unique<ChildProcess>(
      all, variables, output.get(), std::vector<int>{theirs.get(), runner.get(), watched.get()},
      ChildLimits{settings.memory_bytes, settings.files, settings.cpu_s}, std::move(held), std::move(box));
  return {std::move(ours), std::move(lines), std::move(child)};
}

ModuleProcess start_module(const StepSettings& settings, const PythonStart& start, const std::vector<int>& files,
                           const std::vector<std::string>& arguments) {
  find_module(settings.modules, start.module);
  std::optional<ModuleProcess> process;
  if (start.warm) process = start.warm->take(settings, start, arguments);
  if (!process) process = spawn_module(settings, start, arguments, /*warm=*/false);
  give_start(process->socket.get(), start.config.empty() ? start.module : start.config, files);
  return std::move(*process);
}

OwnDescriptor numpy_library() {
  return memory_file("echotrain_numpy_memory", {echotrain_numpy_library_begin, echotrain_numpy_library_end});
}

PythonPeer::PythonPeer(const StepSettings& settings, const PythonStart& start, const PeerScan& scan) {
  ModuleProcess process = start_module(settings, start);
  stream_ = std::make_unique<StreamPeer>(std::move(process.socket), std::move(process.lines), scan);
  child_ = std::move(process.child);
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
