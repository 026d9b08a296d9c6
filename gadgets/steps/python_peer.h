// A PythonPeer is a Python module in a process of its own.
#pragma once

#include <memory>

#include "gadgets/steps/child_process.h"
#include "gadgets/steps/peer.h"
#include "gadgets/steps/stream_peer.h"

namespace echotrain {

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
