// A Peer is the other end of a step: a program that takes MRD messages and gives others. Gadgets see processes and
// sockets only through it; tests have a fake (tests/gadgets/steps/fake_peer.h).
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
#include "gadgets/shared/program/step_settings.h"
#include "protocol/data/messages.h"
#include "protocol/wire/codec.h"
#include "protocol/wire/slab_pool.h"

namespace echotrain {

/// The bytes of whole messages; those of an image's pixels are not copied.
struct StepBytes {
  protocol::Buffer head;
  protocol::Payload pixels;  ///< follow `head`; may be empty
  std::size_t size() const { return head.size() + pixels.bytes.size(); }
};

/// Exchanges messages with the other end in the background, while the scan computes, within kQueueBytes in each
/// direction. Only wait() blocks. For the pipeline's thread. The destructor ends the other side, within 500 ms.
class Peer {
 public:
  static constexpr std::size_t kQueueBytes = std::size_t{16} << 20;  ///< bound of each direction

  virtual ~Peer() = default;
  /// True if fewer than kQueueBytes wait to be sent.
  virtual bool has_room() const = 0;
  /// Sends bytes, after earlier ones. One call may exceed kQueueBytes.
  virtual void send(StepBytes&& bytes) = 0;
  /// Returns the next message; no value if none is here now. More may come, unless end() says otherwise.
  virtual std::optional<protocol::Message> receive() = 0;
  /// Tells why no further message comes, once all were received: an end without CLOSE, bytes that are no message. One
  /// sentence without a subject: "has ended with exit code 1".
  virtual std::optional<std::string> end() = 0;
  /// Returns the last lines of text that the other end wrote, oldest first.
  virtual std::vector<std::string> last_lines() = 0;
  /// Returns the bytes sent and received so far.
  virtual std::uint64_t moved() const = 0;
  /// Waits until receive(), end() or has_room() may have news, for `longest` at most.
  virtual void wait(std::chrono::milliseconds longest, const std::stop_token& stop) = 0;
};

/// A scan's services for a peer.
struct PeerScan {
  /// Called on any thread when receive() or end() may have news; may be empty.
  std::function<void()> wake;
  /// Pays for the peer's memory beyond kQueueBytes in each direction: a long message, and the memory in which it comes.
  /// A message that does not fit is an end(). Null: not counted.
  std::shared_ptr<numerics::MemoryAccount> account;
  /// The memory that the peer receives into.
  std::shared_ptr<protocol::SlabPool> slabs = std::make_shared<protocol::SlabPool>();
};

class WarmModules;

/// The start of a `python` step. Its names are checked.
struct PythonStart {
  std::string module, function, config;
  std::int64_t threads = 1;
  std::shared_ptr<WarmModules> warm = {};  ///< processes that wait for it; null: there are none
};

/// The factory of peers: processes and connections, or substitutes of tests. One of a program's Resources. Throws
/// ClientError if the named program or server is not available.
struct PeerSource {
  std::function<std::unique_ptr<Peer>(const StepSettings&, const PythonStart&, const PeerScan&)> python;
  /// Connects within `timeout`; throws numerics::Stopped when `stop` is set meanwhile.
  std::function<std::unique_ptr<Peer>(const std::string& address, std::chrono::milliseconds timeout,
                                      const std::stop_token& stop, const PeerScan&)>
      server;
  PeerSource();  ///< makes processes and connections
};

}  // namespace echotrain
