// The other end of a step: a program that takes MRD messages and gives others. What a gadget sees of processes and
// sockets; tests have a fake (tests/gadgets/steps/fake_peer.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/step_settings.h"
#include "protocol/data/messages.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/slab_pool.h"

namespace echotrain {

/// Bytes of whole messages; those of an image's pixels stay where they lie.
struct StepBytes {
  protocol::Buffer head;
  protocol::Payload pixels;  ///< follow `head`; may be empty
  std::size_t size() const { return head.size() + pixels.bytes.size(); }
};

/// Sending and receiving go on by themselves while the scan computes, both within kQueueBytes. Only wait() blocks. For
/// the pipeline's thread. The destructor ends the other side, within 500 ms.
class Peer {
 public:
  static constexpr std::size_t kQueueBytes = std::size_t{16} << 20;  ///< of each direction

  virtual ~Peer() = default;
  /// Whether less than kQueueBytes wait to be sent.
  virtual bool has_room() const = 0;
  /// Sends bytes, after those given before. One call may go beyond kQueueBytes.
  virtual void send(StepBytes&& bytes) = 0;
  /// The next message. Nothing: none is here now, and perhaps more will come, unless end() says otherwise.
  virtual std::optional<protocol::Message> receive() = 0;
  /// Why no further message comes, once all were received: an end without CLOSE, bytes that are no message. One
  /// sentence without a subject: "has ended with exit code 1".
  virtual std::optional<std::string> end() = 0;
  /// The last lines that it wrote for people, oldest first.
  virtual std::vector<std::string> last_lines() = 0;
  /// Bytes sent and received so far.
  virtual std::uint64_t moved() const = 0;
  /// Waits until receive(), end() or has_room() may have news, for `longest` at most.
  virtual void wait(std::chrono::milliseconds longest, const std::stop_token& stop) = 0;
};

/// What a peer has of its scan.
struct PeerScan {
  /// Called on any thread when receive() or end() may have news; may be empty.
  std::function<void()> wake;
  /// Pays for what the peer holds beyond kQueueBytes in each direction: a long message, and the memory in which it
  /// comes. A message for which that has no room is an end(). Null: nobody counts.
  std::shared_ptr<numerics::MemoryAccount> account;
  /// Memory that it receives into.
  std::shared_ptr<protocol::SlabPool> slabs = std::make_shared<protocol::SlabPool>();
};

/// What a `python` step runs. Its names are checked.
struct PythonStart {
  std::string module, function, config;
  std::int64_t threads = 1;
};

/// What makes peers: processes and connections, or what a test puts in their place. One of a program's Resources.
/// ClientError: what is asked for is not here.
struct PeerSource {
  std::function<std::unique_ptr<Peer>(const StepSettings&, const PythonStart&, const PeerScan&)> python;
  /// Connects within `timeout`; numerics::Stopped when `stop` is set meanwhile.
  std::function<std::unique_ptr<Peer>(const std::string& address, std::chrono::milliseconds timeout,
                                      const std::stop_token& stop, const PeerScan&)>
      server;
  PeerSource();  ///< processes and connections
};

}  // namespace echotrain
