// A PythonPeer is a Python module in a process of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/steps/child_process.h"
#include "gadgets/steps/peer.h"
#include "gadgets/steps/stream_peer.h"

namespace echotrain {

/// The process of a module, with which nobody has spoken yet.
struct ModuleProcess {
  OwnDescriptor socket, lines;  ///< a Unix stream socket; what it prints
  std::unique_ptr<ChildProcess> child;
};

/// Starts gadgets/steps/runner.py for a module, or takes a process that waits for it, and gives it `files` and the
/// config. `arguments`: further arguments. Throws as PythonPeer().
ModuleProcess start_module(const StepSettings& settings, const PythonStart& start, const std::vector<int>& files = {},
                           const std::vector<std::string>& arguments = {});

/// Starts a process that loads a module, and waits for files and config. `warm`: when it has loaded the module, it
/// writes to its lifeline the files that this has read (WarmModules).
ModuleProcess spawn_module(const StepSettings& settings, const PythonStart& start,
                           const std::vector<std::string>& arguments, bool warm);

/// Makes a file in memory that holds the library of arrays/numpy_memory.c, for a process of arrays.
OwnDescriptor numpy_library();

/// Runs gadgets/steps/runner.py in a process, which calls the module's function and speaks with this side over a pair
/// of Unix sockets. The process ends, with all that it has started, when this object is destroyed or this program has
/// ended in any way.
class PythonPeer final : public Peer {
 public:
  /// Throws ClientError when the module or the function cannot be run here; the text lists those that can. Throws
  /// ResourceError when no process can be started.
  PythonPeer(const StepSettings& settings, const PythonStart& start, const PeerScan& scan);

  bool has_room() const override { return stream_->has_room(); }
  void send(StepBytes&& bytes) override { stream_->send(std::move(bytes)); }
  std::optional<protocol::Message> receive() override;
  std::optional<std::string> end() override;
  std::vector<std::string> last_lines() override;
  std::uint64_t moved() const override { return stream_->moved(); }
  void wait(std::chrono::milliseconds longest, const std::stop_token& stop) override { stream_->wait(longest, stop); }

 private:
  std::unique_ptr<StreamPeer> stream_;  // closed after the process has ended
  std::unique_ptr<ChildProcess> child_;
  std::optional<std::string> how_;
};

/// Finds the file of module `name` in `folder`: NAME.py or NAME/__init__.py, which must lie in the folder itself and
/// not behind a link to elsewhere. Throws ClientError when there is none, naming the existing modules, and when every
/// user of the machine may change it.
std::filesystem::path find_module(const std::filesystem::path& folder, const std::string& name);

}  // namespace echotrain
