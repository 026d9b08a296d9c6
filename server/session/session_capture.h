// The session's capture keeps the raw data of one session, within the server's options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "server/base/queue_memory.h"
#include "server/base/signal.h"
#include "server/capture/capture.h"
#include "server/session/connection.h"
#include "server/session/protocol_state_machine.h"

namespace echotrain::server {

/// Keeps what the session receives, from the first byte on, and decides at the end whether the file stays. Until the
/// session's scan is admitted nothing goes to the disk: bytes wait in memory, within a bound. Does nothing where the
/// server captures nothing. For the session's strand.
class SessionCapture {
 public:
  /// Both arguments must outlive this.
  SessionCapture(Connection& connection, const ProtocolStateMachine& state_machine);
  ~SessionCapture();  ///< keeps a capture that was not finished
  SessionCapture(const SessionCapture&) = delete;
  SessionCapture& operator=(const SessionCapture&) = delete;

  /// Takes bytes as they come from the socket, before anything else is made of them.
  void append(protocol::Payload bytes);
  /// Makes the file: the peer may use this server, and its scan has its place or stands in line for one.
  void admit();
  /// Keeps nothing of this session: a detached scan's journal has it.
  void forget();
  /// True while the disk is behind: the session reads no more until this changes (back-pressure).
  bool full() const { return capture_ && capture_->full(); }
  /// The name of the capture's file; where nothing is captured, a name that no other scan has.
  std::string name() const;
  bool stopped() const { return capture_ && capture_->stopped(); }
  std::uint64_t size() const { return capture_->size(); }
  /// Acts, once, on a capture that has stopped: tells the client, or ends the session.
  void check();
  /// Waits until all is written (with sync: before_close, until the disk has it), the capture has stopped, or
  /// send_timeout_s has passed. `scanned`: a scan was started.
  asio::awaitable<void> wait_until_written(bool scanned);

  // While the session spills, bytes go to the capture only, and Spill gets them back from it.
  bool spilling() const { return spilling_; }
  bool can_spill() const { return !spilling_ && capture_ && !capture_->stopped(); }
  void set_spilling(bool spilling) { spilling_ = spilling; }
  /// Reads from `offset` on, as Capture::fetch() does. Precondition: offset < size().
  void fetch(std::uint64_t offset, std::span<std::byte> room) { capture_->fetch(offset, room); }
  std::optional<protocol::Result<std::size_t>> fetched() { return capture_->fetched(); }

  /// Returns "; the raw data are kept as NAME", or nothing if they are not. `scanned`: a scan was started.
  std::string note(bool scanned) const;
  /// Ends the capture. Returns its file's name if it is kept, or nothing.
  std::string finish(bool scanned);

 private:
  bool is_bad_start() const;
  bool is_kept(bool scanned) const;
  void open();
  bool settled(std::uint64_t size) const;  // what wait_until_written() waits for

  Connection& connection_;
  const ProtocolStateMachine& state_machine_;
  std::vector<std::byte> held_;  // what came before the scan was admitted
  QueueMemory::Share held_memory_;
  bool too_much_held_ = false;
  bool admitted_ = false;
  std::shared_ptr<Capture> capture_;  // null before the scan is admitted
  bool sealing_ = false;
  bool spilling_ = false;
  bool told_ = false;  // that it has stopped
};

}  // namespace echotrain::server
